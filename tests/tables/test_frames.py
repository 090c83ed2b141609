"""One table in many carriers through every entry point: the same bits, or a refusal in words."""

import contextlib
import datetime
import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

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
from jaxunc.estimators._pipelines import column_types
from jaxunc.learning import oob_dataset
from jaxunc.tables import encode_arrow, encode_instances, fit_columns
from tests._carriers import NAMED, SEED, UNNAMED, WORDS, Carry, numbers, words
from tests._refusal import refuses

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]
REFUSED = (TypeError, ValueError, RuntimeError)
"""What a refusal in words may be."""


class Setting(NamedTuple):
    frame: pd.DataFrame
    plain: pd.DataFrame  # the same as floats
    y: np.ndarray
    model: RandomForestClassifier
    forest: ju.Forest
    bound: ju.inference.BoundForest


@functools.cache
def _setting(*, missing: bool) -> Setting:
    frame = numbers(missing=missing)
    plain = frame.astype(float)
    flipped = np.random.default_rng(SEED + 1).random(len(frame)) < 0.2
    y = ((plain["quarter"] > 0).to_numpy() ^ flipped).astype(int)
    model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(plain, y)
    forest = ju.from_sklearn(model)
    return Setting(frame, plain, y, model, forest, ju.bind(forest, ju.Mean()))


Ask = Callable[[Any, Setting], Any]


def _probabilities(model: Any, X: Any) -> np.ndarray:
    (table,) = ju.stream(model, X, outputs=["probability"])
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _boosted(of: Setting) -> Any:
    return ju.from_sklearn_values(HistGradientBoostingClassifier(max_iter=3).fit(of.plain, of.y))


def _rows(X: Any, of: Setting, source: Any) -> Any:
    return oob_dataset(of.model, X, of.y, source=source, n_folds=2).histograms.code


ASKED: dict[str, Ask] = {
    "bind": lambda X, of: of.bound.probability(X),
    "leaf_index": lambda X, of: ju.leaf_index(of.forest, X),
    "leaf_counts": lambda X, of: ju.leaf_counts(of.forest, X),
    "merge_leaves": lambda X, of: ju.inference.merge_leaves(of.forest, of.forest.code, X),
    "predict_until_settled": lambda X, of: ju.predict_until_settled(of.forest, X).votes,
    "count_leaves": lambda X, of: ju.count_leaves(of.forest, X, of.y).counts,
    "leave_one_out": lambda X, of: (
        leave_one_out(ju.count_leaves(of.forest, of.plain, of.y), ju.Mean(), X, of.y).class_scores
    ),
    "out_of_bag_votes": lambda X, of: ju.voting.out_of_bag_votes(of.forest, X, oob_mask(of.model, len(of.y))),
    "oob_mask": lambda X, of: oob_mask(of.model, len(of.y), X=X, y=of.y),
    "shard": lambda X, of: ju.shard(of.bound, jax.make_mesh((1, 1), ("data", "tree"))).probability(X),
    "AdditiveTrees.raw": lambda X, of: _boosted(of).raw(X),
    "stream": lambda X, of: _probabilities(of.bound, X),
    "rows out of bag": lambda X, of: _rows(X, of, "oob"),
    "rows of folds": lambda X, of: _rows(X, of, "cross_fit"),
    "transduction": lambda X, of: ju.transduction.transductive_leaf_counts(of.plain, of.y, X),
}

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "combined": lambda: CombinedForestClassifier(RandomForestClassifier(5, random_state=0)),
    "out of bag": lambda: CombinedForestClassifier(RandomForestClassifier(20, random_state=0), counts="oob"),
    "cautious": lambda: CautiousForestClassifier(RandomForestClassifier(5, random_state=0)),
    "random trees": lambda: RandomDecisionTreesClassifier(5, random_state=0, missing="random"),
    "transductive tree": TransductiveTreeClassifier,
    "transductive": lambda: TransductiveClassifier(DecisionTreeClassifier(max_depth=2, random_state=0)),
}


@functools.cache
def _classifier(kind: str, missing: bool) -> Any:
    return CLASSIFIERS[kind]().fit(*_setting(missing=missing)[1:3])


def _predict(kind: str) -> Ask:
    return lambda X, of: _classifier(kind, of is _setting(missing=True)).predict_proba(X)


def _fit(kind: str) -> Ask:
    return lambda X, of: CLASSIFIERS[kind]().fit(X, of.y).predict_proba(of.plain[:5].to_numpy())


ASKED |= {f"{kind}.predict_proba": _predict(kind) for kind in CLASSIFIERS}
ASKED |= {f"{kind}.fit": _fit(kind) for kind in CLASSIFIERS}


def _refusal(ask: Callable, *arguments: Any) -> str:
    """The words of a refusal; none where there is none."""
    try:
        ask(*arguments)
    except REFUSED as error:
        return str(error)
    return ""


def _answers(ask: Callable[[], Any], want: np.ndarray, what: str) -> bool:
    """Return whether it is answered; fails unless with the same bits, or refused with words."""
    got: list[np.ndarray] = []
    if said := _refusal(lambda: got.append(np.asarray(ask()))):
        assert len(said) > 20, f"{what}: {said}"
        return False
    np.testing.assert_array_equal(got[0], want, err_msg=f"{what}, JAXUNC_TEST_SEED={SEED}")
    return True


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("entry", ASKED)
@pytest.mark.exhaustive(keep=3)
def test_carriers_of_numbers(entry, missing):
    of, ask = _setting(missing=missing), ASKED[entry]
    want = np.asarray(ask(of.plain, of))
    carriers = {name: functools.partial(ask, carry(of.frame), of) for name, carry in (NAMED | UNNAMED).items()}
    refused = [name for name, call in carriers.items() if not _answers(call, want, f"{entry}, {name}")]
    # Frames are answered by all; scikit-learn refuses sparse ones of pandas whose rest is no zero, and matrices.
    assert set(refused) & set(NAMED) <= {"pandas sparse"}, refused
    if entry != "stream":  # which refuses arrays where the model knows names
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
    texts, wanted = ([own and [*map(str, own.values)] for own in each.levels or ()] for each in (again, columns))
    assert texts == wanted


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()])
def test_missing_words_of_arrow(kind):
    """PyArrow's own encoding of nulls makes "" of those of views."""
    column = pa.chunked_array([pa.array(["low", None, "", "high"], kind)])
    columns = fit_columns(pd.DataFrame({"grade": ["low", "high", None]}))
    codes = encode_arrow(pa.table({"grade": column}), columns, "rows").values
    np.testing.assert_array_equal(codes[:, 0], [1, 2, -1, 0])


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
        if make is not TransductiveTreeClassifier and not isinstance(X, np.ndarray | list):  # columns by name
            np.testing.assert_array_equal(_probabilities(model, X), want)


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
    series, named = pd.Series(cells, dtype=object), lambda odd: {"n": [1.0, 2, 3], "odd": odd}
    made: dict[str, Callable[[], Any]] = {
        "pandas objects": lambda: pd.DataFrame(named(series)),
        "pandas": lambda: pd.DataFrame(named(series.infer_objects())),
        "pandas inferred": lambda: pd.DataFrame(named(pd.array(cells))),
        "pandas of Arrow": lambda: pd.DataFrame(named(pd.arrays.ArrowExtensionArray(pa.array(cells)))),
        "polars": lambda: pl.DataFrame(named(cells)),
        "Arrow": lambda: pa.table(named(cells)),
        "lists by name": lambda: named(cells),
        "objects": lambda: objects,
        "rows": lambda: objects.tolist(),
        "one array": lambda: np.stack([np.array(cells)] * 2, axis=1),
    }
    found = {}
    for name, make in made.items():
        with contextlib.suppress(TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
            found[name] = make()
    return found


@pytest.mark.room(keep=2)
@pytest.mark.parametrize("cells", ODD)
def test_columns_that_no_tree_can_test(cells):
    plain, y = np.arange(6.0).reshape(3, 2), [0, 1, 0]
    bound = ju.bind(ju.from_sklearn(RandomForestClassifier(3, random_state=0).fit(plain, y)), ju.Mean())
    combined = lambda X: CombinedForestClassifier(RandomForestClassifier(10, random_state=0)).fit(X, y)
    asked: dict[str, Callable[[Any], Any]] = {
        "bind": bound.probability,
        "count_leaves": lambda X: ju.count_leaves(bound.forest, X, y),
        "stream": lambda X: list(ju.stream(bound, X, features=None if isinstance(X, np.ndarray) else ["n", "odd"])),
        "combined": combined(plain).predict,
        "combined.fit": combined,
        "random trees.fit": lambda X: RandomDecisionTreesClassifier(3).fit(X, y),
        "transductive tree.fit": lambda X: TransductiveTreeClassifier().fit(X, y),
    }
    carriers = _odd_carriers(ODD[cells])
    # until pandas 3: as an array of float64 it takes lists of one number for the number
    if cells == "lists" and int(pd.__version__.partition(".")[0]) < 3:
        del carriers["pandas of Arrow"]
    assert {"pandas objects", "objects", "lists by name"} <= set(carriers)
    for (carrier, X), (entry, ask) in itertools.product(carriers.items(), asked.items()):
        assert len(said := _refusal(ask, X)) > 20, f"{entry}, {cells} in {carrier}: {said}"


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("entry", [entry for entry in ASKED if not entry.endswith(".fit")])
@pytest.mark.exhaustive(keep=3)
def test_columns_in_another_order(entry):
    """Names decide, or the table is refused; a column that is missing is named."""
    setting, ask = _setting(missing=False), ASKED[entry]
    frame, want = setting.frame, np.asarray(ask(setting.plain, setting))
    draw = np.random.default_rng(SEED + 2)
    names = list(frame.columns)
    for name, carry in NAMED.items():
        order = draw.permutation(names).tolist()
        lost = str(draw.choice(names))
        for what, X in {f"in the order {order}": frame[order], "with more": frame[order].assign(further=1.0)}.items():
            _answers(functools.partial(ask, carry(X), setting), want, f"{entry}, {name}, {what}")
        for X in (frame.drop(columns=lost), frame.rename(columns={lost: "other"})):
            assert lost in _refusal(ask, carry(X), setting)


def test_columns_called_as_members_of_other_tables():
    """pandas makes attributes of them, and of the labels of a series."""
    names = ["dtype", "tocsr", "compute", "collect", "num_columns"]
    frame = pd.DataFrame(np.eye(5, dtype=np.float32), columns=names)
    for columns in (fit_columns(frame), fit_columns(frame, names)):
        np.testing.assert_array_equal(encode_instances(frame, columns).values, np.eye(5))
    assert column_types(frame) == ("Float32",) * 5
    refuses(TypeError, "pass an Arrow table", encode_arrow, frame, columns)
    refuses(ValueError, r"X has shape \(1,\)", fit_columns, pd.Series({"columns": 1.0}))


def test_names_that_come_twice_and_rows_that_are_yet_to_come():
    of = _setting(missing=False)
    names, plain = ["quarter", "whole", "flag", "flag"], of.plain
    twice = (
        plain.set_axis(names, axis=1),
        pa.Table.from_arrays([pa.array(plain[name]) for name in plain], names=names),
        {**{name: plain[name] for name in ("quarter", "whole")}, 1: plain["flag"], "1": plain["half"]},
    )
    for ask in (
        of.bound.probability,
        lambda X: RandomDecisionTreesClassifier(3).fit(X, of.y),
        lambda X: ju.count_leaves(of.forest, X, of.y),
        lambda X: list(ju.stream(of.bound, X)),
    ):
        for X in twice:
            refuses(ValueError, r"several columns|unique column names|several columns are named", ask, X)
        refuses(TypeError, r"collect\(\)", ask, pl.from_pandas(of.frame).lazy())


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
    _, plain, y, _, forest, _ = _setting(missing=False)
    got = ju.count_leaves(forest, plain, carry(y)).counts
    np.testing.assert_array_equal(got, ju.count_leaves(forest, plain, y).counts)
    model = RandomDecisionTreesClassifier(3, random_state=0)
    want = model.fit(plain, y).predict_proba(plain)
    np.testing.assert_array_equal(model.fit(plain, carry(y)).predict_proba(plain), want)


GAPS: dict[str, Carry] = {
    "pandas": lambda holes: pd.Series(holes, dtype="Int64"),
    "polars": pl.Series,
    "Arrow": pa.array,
    "Arrow dictionary": lambda holes: pa.chunked_array([pa.array(holes).dictionary_encode()]),
    "masked": lambda holes: np.ma.masked_array([0, *holes[1:]], np.arange(len(holes)) == 0),
    "list": list,
}


@pytest.mark.parametrize("kind", GAPS)
def test_labels_that_are_missing(kind):
    of = _setting(missing=False)
    labels = GAPS[kind]([None, *of.y[1:].tolist()])
    combined = CombinedForestClassifier(RandomForestClassifier(10, random_state=0))
    for model in (RandomDecisionTreesClassifier(3), combined, TransductiveTreeClassifier()):
        assert _refusal(model.fit, of.plain, labels)
    assert _refusal(ju.count_leaves, of.forest, of.plain, labels)


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
        assert "counts" in _refusal(ask, np.array([[[1, 0], [0, 1]]]).astype(kind))


def test_masked_numbers_are_no_numbers():
    """Where a missing value would have no meaning: weights, masks of trees, counts, probabilities."""
    _, plain, y, _, forest, bound = _setting(missing=False)
    masked = lambda values: np.ma.masked_array(values, np.arange(np.size(values)).reshape(np.shape(values)) == 0)
    trees, counts = masked(np.ones((len(y), forest.n_trees), bool)), masked([[[1, 2]]])
    for ask in (
        lambda: ju.count_leaves(forest, plain, y, sample_weight=masked(np.ones(len(y)))),
        lambda: ju.count_leaves(forest, plain, y, tree_mask=trees),
        lambda: bound.probability(plain, tree_mask=trees),
        lambda: ju.Mean().probability(counts),
        lambda: ju.scorers.laplace(counts),
        lambda: ju.metrics.brier_score(masked([[0.5, 0.5]]), np.array([0])),
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
