"""One table in many carriers through every entry point: the same bits, or a refusal in words."""

import datetime
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.counting import leave_one_out, oob_mask
from jaxunc.estimators import (
    CautiousForestClassifier,
    CombinedForestClassifier,
    RandomDecisionTreesClassifier,
    TransductiveClassifier,
    TransductiveTreeClassifier,
)
from jaxunc.learning import oob_dataset
from jaxunc.tables import encode_arrow, encode_instances, fit_columns
from tests._carriers import NAMED, SEED, UNNAMED, WORDS, numbers, words
from tests._refusal import refuses

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]
REFUSED = (TypeError, ValueError, RuntimeError)
"""What a refusal in words may be."""


@functools.cache
def _setting(missing: bool) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """The table, the same in a frame of floats, and labels."""
    frame = numbers(missing=missing)
    plain = frame.astype(float)
    flipped = np.random.default_rng(SEED + 1).random(len(frame)) < 0.2
    return frame, plain, ((plain["quarter"] > 0).to_numpy() ^ flipped).astype(int)


@functools.cache
def _fitted(missing: bool) -> tuple[Any, Any, Any]:
    _, plain, y = _setting(missing)
    model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(plain, y)
    forest = ju.from_sklearn(model)
    return model, forest, ju.bind(forest, ju.Mean())


Ask = Callable[[Any, bool], Any]


def _streamed(X: Any, missing: bool) -> np.ndarray:
    tables = ju.stream(_fitted(missing)[2], X, outputs=["probability"])
    return np.stack([column.to_numpy() for table in tables for column in table.columns])


def _boosted(missing: bool) -> Any:
    return ju.from_sklearn_values(HistGradientBoostingClassifier(max_iter=3).fit(*_setting(missing)[1:]))


def _left_out(X: Any, missing: bool) -> Any:
    _, plain, y = _setting(missing)
    return leave_one_out(ju.count_leaves(_fitted(missing)[1], plain, y), ju.Mean(), X, y).class_scores


def _unseen_votes(X: Any, missing: bool) -> Any:
    model, forest, _ = _fitted(missing)
    return ju.voting.out_of_bag_votes(forest, X, oob_mask(model, len(_setting(missing)[2])))


def _masked(X: Any, missing: bool) -> Any:
    y = _setting(missing)[2]
    return oob_mask(_fitted(missing)[0], len(y), X=X, y=y)


def _rows(X: Any, missing: bool, source: Any) -> Any:
    rows = oob_dataset(_fitted(missing)[0], X, _setting(missing)[2], source=source, n_folds=2)
    return rows.histograms.code


ASKED: dict[str, Ask] = {
    "bind": lambda X, missing: _fitted(missing)[2].probability(X),
    "leaf_index": lambda X, missing: ju.leaf_index(_fitted(missing)[1], X),
    "leaf_counts": lambda X, missing: ju.leaf_counts(_fitted(missing)[1], X),
    "predict_until_settled": lambda X, missing: ju.predict_until_settled(_fitted(missing)[1], X).votes,
    "count_leaves": lambda X, missing: ju.count_leaves(_fitted(missing)[1], X, _setting(missing)[2]).counts,
    "leave_one_out": _left_out,
    "out_of_bag_votes": _unseen_votes,
    "oob_mask": _masked,
    "shard": lambda X, missing: ju.shard(_fitted(missing)[2], jax.make_mesh((1, 1), ("data", "tree"))).probability(X),
    "AdditiveTrees.raw": lambda X, missing: _boosted(missing).raw(X),
    "stream": _streamed,
    "rows out of bag": lambda X, missing: _rows(X, missing, "oob"),
    "rows of folds": lambda X, missing: _rows(X, missing, "cross_fit"),
    "transduction": lambda X, missing: ju.transduction.transductive_leaf_counts(*_setting(missing)[1:], X),
}

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "combined": lambda: CombinedForestClassifier(RandomForestClassifier(5, random_state=0)),
    "out of bag": lambda: CombinedForestClassifier(RandomForestClassifier(20, random_state=0), counts="oob"),
    "cautious": lambda: CautiousForestClassifier(RandomForestClassifier(5, random_state=0)),
    "random trees": lambda: RandomDecisionTreesClassifier(5, random_state=0, missing="random"),
    "transductive tree": TransductiveTreeClassifier,
    "transductive": lambda: TransductiveClassifier(DecisionTreeClassifier(max_depth=2, random_state=0)),
}


def _predict(kind: str) -> Ask:
    fit = functools.cache(lambda missing: CLASSIFIERS[kind]().fit(*_setting(missing)[1:]))
    return lambda X, missing: fit(missing).predict_proba(X)


def _fit(kind: str) -> Ask:
    def ask(X: Any, missing: bool) -> Any:
        _, plain, y = _setting(missing)
        return CLASSIFIERS[kind]().fit(X, y).predict_proba(plain[:5].to_numpy())

    return ask


ASKED |= {f"{kind}.predict_proba": _predict(kind) for kind in CLASSIFIERS}
ASKED |= {f"{kind}.fit": _fit(kind) for kind in CLASSIFIERS}
BY_POSITION = {"stream"}
"""Entry points that refuse arrays where the model knows names."""


def _refusal(ask: Callable[[], Any]) -> str | None:
    try:
        ask()
    except REFUSED as error:
        return str(error)
    return None


def _answers(ask: Ask, X: Any, missing: bool, want: np.ndarray, what: str) -> bool:
    """Return whether X is answered; fails unless with the same bits, or refused with words."""
    got: list[np.ndarray] = []
    said = _refusal(lambda: got.append(np.asarray(ask(X, missing))))
    if said is not None:
        assert len(said) > 20, f"{what}: {said}"
        return False
    np.testing.assert_array_equal(got[0], want, err_msg=f"{what}, JAXUNC_TEST_SEED={SEED}")
    return True


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("entry", ASKED)
@pytest.mark.exhaustive(keep=3)
def test_carriers_of_numbers(entry, missing):
    frame, plain, _ = _setting(missing)
    want = np.asarray(ASKED[entry](plain, missing))
    refused = [
        name
        for name, carry in (NAMED | UNNAMED).items()
        if not _answers(ASKED[entry], carry(frame), missing, want, f"{entry}, {name}")
    ]
    # Frames are answered by all; scikit-learn refuses sparse ones of pandas whose rest is no zero, and matrices.
    assert set(refused) & set(NAMED) <= {"pandas sparse"}, refused
    if entry not in BY_POSITION:
        few = {"objects", "Decimal", "rows with None", "matrix", "csr", "csc array", "coo"}
        assert set(refused) <= few | {"pandas sparse"}, refused


@pytest.mark.parametrize("carrier", WORDS)
def test_carriers_of_words(carrier):
    """Nominal columns have the same levels and codes in every carrier that is answered, fitted and asked."""
    frame = words()
    columns = fit_columns(frame)
    want = encode_instances(frame, columns).values
    X = WORDS[carrier](frame)
    np.testing.assert_array_equal(encode_instances(X, columns).values, want)
    again = fit_columns(X)
    assert again.nominal == columns.nominal
    np.testing.assert_array_equal(encode_instances(frame, again).values, want)
    assert again.levels is not None
    assert [own and tuple(map(str, own.values)) for own in again.levels] == [
        own and tuple(map(str, own.values)) for own in columns.levels or ()
    ]


@pytest.mark.room
@pytest.mark.parametrize("carrier", WORDS)
@pytest.mark.exhaustive(keep=3)
def test_carriers_of_words_through_classifiers(carrier):
    frame = words()
    y = (frame["amount"] > 0).to_numpy().astype(int)
    X = WORDS[carrier](frame)
    for make in (lambda: RandomDecisionTreesClassifier(5, random_state=0), TransductiveTreeClassifier):
        model = make().fit(frame, y)
        want = model.predict_proba(frame)
        np.testing.assert_array_equal(model.predict_proba(X), want)
        np.testing.assert_array_equal(make().fit(X, y).predict_proba(frame), want)
    if not isinstance(X, np.ndarray | list):  # streams take columns by name
        model = RandomDecisionTreesClassifier(5, random_state=0).fit(frame, y)
        (table,) = ju.stream(model, X, outputs=["probability"])
        want = model.predict_proba(frame)
        np.testing.assert_array_equal(np.stack([column.to_numpy() for column in table.columns], axis=1), want)


DAY = datetime.datetime(2024, 2, 1)
ODD: dict[str, list[Any]] = {
    "dates": [DAY.date()] * 3,
    "moments": [DAY, None, DAY],
    "times": [datetime.time(3)] * 3,
    "spans": [datetime.timedelta(2)] * 3,
    "NumPy's dates": [np.datetime64("2024-02-01"), None, np.datetime64("2024-02-02")],
    "NumPy's spans": [np.timedelta64(2, "D")] * 3,
    "periods": list(pd.period_range("2024-02", periods=3, freq="M")),
    "intervals": list(pd.interval_range(0, 3)),
    "complex": [1j, 2.0, 3.0],
    "NumPy's complex": [np.complex64(1j)] * 3,
    "lists": [[1], [2], [3]],
    "records": [{"a": 1}] * 3,
    "arrays": [np.zeros(2)] * 3,
    "bytes that are no text": [b"\xff\xfe"] * 3,
}
"""Columns that no tree can test."""


def _odd_carriers(cells: list[Any]) -> dict[str, Any]:
    """The carriers that can hold the cells, beside a column of numbers."""
    objects = np.empty((3, 2), object)
    objects[:, 0], objects[:, 1] = [1.0, 2.0, 3.0], cells
    series = pd.Series(cells, dtype=object)
    made: dict[str, Callable[[], Any]] = {
        "pandas objects": lambda: pd.DataFrame({"n": [1.0, 2, 3], "odd": series}),
        "pandas": lambda: pd.DataFrame({"n": [1.0, 2, 3], "odd": series.infer_objects()}),
        "pandas inferred": lambda: pd.DataFrame({"n": [1.0, 2, 3], "odd": pd.array(cells)}),
        "pandas of Arrow": lambda: pd.DataFrame(
            {"n": [1.0, 2, 3], "odd": pd.arrays.ArrowExtensionArray(pa.array(cells))}
        ),
        "polars": lambda: pl.DataFrame({"n": [1.0, 2, 3], "odd": cells}),
        "Arrow": lambda: pa.table({"n": [1.0, 2, 3], "odd": cells}),
        "lists by name": lambda: {"n": [1.0, 2, 3], "odd": cells},
        "objects": lambda: objects,
        "rows": lambda: objects.tolist(),
        "one array": lambda: np.stack([np.array(cells)] * 2, axis=1),
    }
    found = {}
    for name, make in made.items():
        try:
            found[name] = make()
        except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
            continue
    return found


@pytest.mark.room(keep=2)
@pytest.mark.parametrize("cells", ODD)
def test_columns_that_no_tree_can_test(cells):
    model = RandomForestClassifier(3, random_state=0).fit(np.arange(6.0).reshape(3, 2), [0, 1, 0])
    bound = ju.bind(ju.from_sklearn(model), ju.Mean())
    y = [0, 1, 0]
    asked: dict[str, Callable[[Any], Any]] = {
        "bind": bound.probability,
        "count_leaves": lambda X: ju.count_leaves(bound.forest, X, y),
        "stream": lambda X: list(ju.stream(bound, X, features=None if isinstance(X, np.ndarray) else ["n", "odd"])),
        "combined": CombinedForestClassifier(RandomForestClassifier(10, random_state=0))
        .fit(np.arange(6.0).reshape(3, 2), y)
        .predict,
        "combined.fit": lambda X: CombinedForestClassifier(RandomForestClassifier(10, random_state=0)).fit(X, y),
        "random trees.fit": lambda X: RandomDecisionTreesClassifier(3).fit(X, y),
        "transductive tree.fit": lambda X: TransductiveTreeClassifier().fit(X, y),
    }
    carriers = _odd_carriers(ODD[cells])
    # until pandas 3: as an array of float64 it takes lists of one number for the number
    if cells == "lists" and int(pd.__version__.partition(".")[0]) < 3:
        del carriers["pandas of Arrow"]
    assert {"pandas objects", "objects", "lists by name"} <= set(carriers)
    for (carrier, X), (entry, ask) in itertools.product(carriers.items(), asked.items()):
        said = _refusal(functools.partial(ask, X))
        assert said is not None, f"{entry} takes {cells} in {carrier}"
        assert len(said) > 20, f"{entry}, {cells} in {carrier}: {said}"


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("entry", [entry for entry in ASKED if not entry.endswith(".fit")])
@pytest.mark.exhaustive(keep=3)
def test_columns_in_another_order(entry):
    """Names decide, or the table is refused; a column that is missing is named."""
    frame, plain, _ = _setting(False)
    of = lambda names: pd.DataFrame({name: frame[name] for name in names})
    want = np.asarray(ASKED[entry](plain, False))
    draw = np.random.default_rng(SEED + 2)
    names = list(frame.columns)
    for name, carry in NAMED.items():
        order = draw.permutation(names).tolist()
        more = of(order).assign(further=1.0)
        lost = str(draw.choice(names))
        _answers(ASKED[entry], carry(of(order)), False, want, f"{entry}, {name}, in the order {order}")
        _answers(ASKED[entry], carry(more), False, want, f"{entry}, {name}, with more")
        with pytest.raises(REFUSED, match=lost):
            ASKED[entry](carry(frame.drop(columns=lost)), False)
        with pytest.raises(REFUSED, match=lost):
            ASKED[entry](carry(frame.rename(columns={lost: "other"})), False)


def test_names_that_come_twice():
    _, plain, y = _setting(False)
    bound = _fitted(False)[2]
    for X in (
        plain.set_axis(["quarter", "whole", "flag", "flag"], axis=1),
        pa.Table.from_arrays([pa.array(plain[name]) for name in plain], names=["quarter", "whole", "flag", "flag"]),
        {**{name: plain[name] for name in ("quarter", "whole")}, 1: plain["flag"], "1": plain["half"]},
    ):
        for ask in (
            bound.probability,
            lambda X: ju.count_leaves(bound.forest, X, y),
            lambda X: RandomDecisionTreesClassifier(3).fit(X, y),
            lambda X: list(ju.stream(bound, X)),
        ):
            refuses(ValueError, r"several columns|unique column names|several columns are named", ask, X)


def test_frames_whose_rows_are_yet_to_come():
    lazy, y = pl.from_pandas(_setting(False)[0]).lazy(), _setting(False)[2]
    for ask in (_fitted(False)[2].probability, lambda X: RandomDecisionTreesClassifier(3).fit(X, y)):
        refuses(TypeError, r"collect\(\)", ask, lazy)


@pytest.mark.room(keep=2)
@pytest.mark.parametrize(
    "carry",
    [
        list, lambda y: pd.Series(y, index=range(5, 5 + len(y))), lambda y: pd.Series(y).astype("Int64"),
        lambda y: pd.Series(y).astype("category"), pl.Series, lambda y: pl.Series(y).cast(pl.Int8), pa.array,
        lambda y: pa.array(y).dictionary_encode(), lambda y: pa.chunked_array([y[:3], y[3:]]),
        lambda y: np.ma.masked_array(y, np.zeros(len(y), bool)), lambda y: y.astype(">i8"), jax.numpy.asarray,
    ],
)  # fmt: skip
def test_carriers_of_labels(carry):
    _, plain, y = _setting(False)
    forest = _fitted(False)[1]
    got = ju.count_leaves(forest, plain, carry(y)).counts
    np.testing.assert_array_equal(got, ju.count_leaves(forest, plain, y).counts)
    model = RandomDecisionTreesClassifier(3, random_state=0)
    want = model.fit(plain, y).predict_proba(plain)
    np.testing.assert_array_equal(model.fit(plain, carry(y)).predict_proba(plain), want)


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow", "Arrow dictionary", "masked", "list"])
def test_labels_that_are_missing(kind):
    _, plain, y = _setting(False)
    holes = [None, *y[1:].tolist()]
    labels = {
        "pandas": pd.Series(holes, dtype="Int64"),
        "polars": pl.Series(holes),
        "Arrow": pa.array(holes),
        "Arrow dictionary": pa.chunked_array([pa.array(holes).dictionary_encode()]),
        "masked": np.ma.masked_array(y, np.arange(len(y)) == 0),
        "list": holes,
    }[kind]
    for ask in (
        lambda: ju.count_leaves(_fitted(False)[1], plain, labels),
        lambda: RandomDecisionTreesClassifier(3).fit(plain, labels),
        lambda: CombinedForestClassifier(RandomForestClassifier(10, random_state=0)).fit(plain, labels),
        lambda: TransductiveTreeClassifier().fit(plain, labels),
    ):
        with pytest.raises(REFUSED):
            ask()


@pytest.mark.room(keep=1)
@pytest.mark.parametrize(
    "kind", ["?", ">f8", ">i4", "u1", "u8", "f2", "g", ml_dtypes.bfloat16, jax.numpy.bool_], ids=str
)
def test_carriers_of_counts(kind):
    """Rules and scorers read counts of every type of numbers; bools count one instance or none."""
    counts = np.array([[[1, 0], [0, 1], [1, 1]], [[1, 1], [1, 0], [1, 0]]])
    given = jax.numpy.asarray(counts, kind) if kind is jax.numpy.bool_ else counts.astype(kind)
    for ask in (
        ju.Pooling().probability,
        ju.Mean().score,
        ju.Vote().answer,
        ju.scorers.laplace,
        ju.scorers.linear,
        lambda counts: ju.scorers.idm_interval(counts, 1.0),
    ):
        jax.tree.map(np.testing.assert_array_equal, ask(given), ask(counts.astype(np.float32)))


@pytest.mark.parametrize("kind", ["c16", "O", "m8[s]", "U"])
def test_counts_that_are_none(kind):
    for ask in (ju.Pooling().probability, ju.scorers.laplace):
        with pytest.raises((TypeError, ValueError), match="counts"):
            ask(np.array([[[1, 0], [0, 1]]]).astype(kind))


def test_masked_numbers_are_no_numbers():
    """Where a missing value would have no meaning: weights, masks of trees, counts, probabilities."""
    _, plain, y = _setting(False)
    _, forest, bound = _fitted(False)
    weights = np.ma.masked_array(np.ones(len(y)), np.arange(len(y)) == 0)
    trees = np.ma.masked_array(np.ones((len(y), forest.n_trees), bool), np.eye(len(y), forest.n_trees, dtype=bool))
    counts = np.ma.masked_array([[[1, 2]]], [[[True, False]]])
    for ask in (
        lambda: ju.count_leaves(forest, plain, y, sample_weight=weights),
        lambda: ju.count_leaves(forest, plain, y, tree_mask=trees),
        lambda: bound.probability(plain, tree_mask=trees),
        lambda: ju.Mean().probability(counts),
        lambda: ju.scorers.laplace(counts),
        lambda: ju.metrics.brier_score(np.ma.masked_array([[0.5, 0.5]], [[True, False]]), np.array([0])),
    ):
        refuses(TypeError, "masked", ask)


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b"]),
        pa.array(["a", "b"], pa.string_view()),
        pa.array([b"a", b"b"], pa.binary_view()),
        pa.array([[1], [2]]),
        pa.array([{"part": 1}, {"part": 2}]),
    ],
    ids=lambda values: str(values.type),
)
def test_categories_are_no_numbers(values, chunks):
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.uint32()), values)
    table = pa.table({"x": pa.chunked_array([codes] * chunks)})
    refuses(TypeError, f"'x' holds {values.type}.*, no numbers", encode_arrow, table, fit_columns(np.zeros((2, 1))))
