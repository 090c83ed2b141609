"""Models as ONNX: the answers of rules and ensembles in ONNX Runtime, and what is refused."""

import dataclasses
import json
import sys
from functools import lru_cache
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import jaxunc as ju
from jaxunc.combiners import Answer, Preference, UncertaintyDecomposition
from jaxunc.decisions import CautiousReport, interval_dominance, nondominated
from jaxunc.estimators import CombinedForestClassifier, UncertainForestRegressor
from jaxunc.interop import from_onnx, to_onnx, to_treelite
from jaxunc.interop._exported import largest_rounding_to
from jaxunc.interop.onnx import _graph
from jaxunc.interop.onnx._graph import Graph, pieces_of
from jaxunc.interop.onnx._translate import Rows, Unknown, expand, translate
from jaxunc.regression import LeafMoments
from jaxunc.regression._moments import Moments
from jaxunc.scorers import Interval
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses
from tests._rules import RULES, make

from ._made import ENSEMBLES, N_TREES, data, ensemble_of, forest_of, rows
from ._rows import answers_of, raw_of

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
CLOSE = 1e-6  # how far an answer may be, where it is larger than 1 as a share of it
NOT_SUMS = {"cautious": "min", "median": "collect", "maximum": "max", "generalized_mixture": "collect",
            "member_smoothing": "collect"}  # fmt: skip
CAUTIOUS = {
    "votes": ju.GeneralizedVote(1), "votes, leaf_size": ju.GeneralizedVote(1, "leaf_size"),
    "votes, certainty": ju.GeneralizedVote(1, "certainty"), "report": CautiousReport(1),
    "report, certainty": CautiousReport(1, "certainty"), "intervals": ju.AveragedIntervals(1),
    "entropy": UncertaintyDecomposition("entropy"), "interval": UncertaintyDecomposition("interval"),
}  # fmt: skip


def run(model, X):
    onnx.checker.check_model(model)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def check_close(actual, expected, what=""):
    expected = np.asarray(expected)
    assert actual.shape == expected.shape, what
    assert actual.dtype == expected.dtype, what
    if expected.dtype.kind == "f":
        equal = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        with np.errstate(invalid="ignore"):
            off = np.where(equal, 0, np.abs(actual - expected) / np.maximum(1, np.abs(expected)))
        assert off.max() < CLOSE, what
    else:
        np.testing.assert_array_equal(actual, expected, what)


def decided(bounds):
    """Rows in which no lower bound is another class's upper one but for rounding, which may then decide otherwise."""
    lower, upper = (np.asarray(bounds[name]) for name in ("lower", "upper"))
    gaps = np.abs(lower[:, :, None] - upper[:, None]) + 10 * np.eye(lower.shape[1])
    sure = gaps.min(axis=(1, 2)) > 1e-5
    assert sure.mean() > 0.5
    return sure


def check_answer(answer, outputs, class_labels, prefix=""):
    """Check all outputs of one rule, and that there are no others."""
    expected = dict(answer._asdict())
    if isinstance(answer, Answer):
        kept = ("class_scores", "probability") if answer.probability is not None else ("class_scores",)
        expected = {name: expected[name] for name in kept}
        scores = np.asarray(answer.class_scores)
        # Where rounding decides, it may decide otherwise; of equal scores the labels are.
        sure = np.all(outputs[f"{prefix}class_scores"] == scores, axis=1)
        second, first = np.sort(scores, axis=1)[:, -2:].T
        with np.errstate(invalid="ignore"):
            sure |= first - second > 1e-5 * np.maximum(1, np.abs(first))
        assert sure.mean() > 0.5
        labels = np.array(class_labels)[np.asarray(answer.predicted)]
        np.testing.assert_array_equal(outputs[f"{prefix}label"][sure], labels[sure])
    elif isinstance(answer, Preference):
        expected |= {"set": nondominated(answer)}
        del expected["excess"]
    elif isinstance(answer, Interval):
        expected |= {"set": interval_dominance(answer)}
    elif "membership" in expected:
        expected = {"set": answer.membership, "probability": answer.probability, **answer.interval._asdict()}
        np.testing.assert_array_equal(outputs[f"{prefix}label"], np.array(class_labels)[np.asarray(answer.predicted)])
    for name, own in expected.items():
        sure = decided(expected) if name == "set" and "lower" in expected else slice(None)
        check_close(outputs[prefix + name][sure], np.asarray(own)[sure], name)
    number = len(expected) + any(name == f"{prefix}label" for name in outputs)
    assert sum(name.startswith(prefix) for name in outputs) == number


def check(bound, X):
    outputs = run(to_onnx(bound), X)
    check_answers(bound.answer(X), outputs, bound.class_labels)


def check_answers(answer, outputs, class_labels, prefix=""):
    if isinstance(answer, dict):
        for name, one in answer.items():
            check_answers(one, outputs, class_labels, f"{prefix}{name}.")
    else:
        check_answer(answer, outputs, class_labels, prefix)


OF_SUMS = {name: rule for name, rule in RULES.items() if name not in NOT_SUMS}
OF_THREE = [name for name, rule in OF_SUMS.items() if not rule.binary_only]
FEW = {"report": CAUTIOUS["report"], "intervals": CAUTIOUS["intervals"]}


@pytest.mark.parametrize(
    ("n_classes", "names", "cautious"),
    [
        (2, list(OF_SUMS), CAUTIOUS),
        (3, ["mean", "one_vs_rest"], FEW),
        pytest.param(3, OF_THREE, CAUTIOUS, marks=pytest.mark.exhaustive),
    ],
    ids=["two classes", "three", "three, all"],
)
def test_rules(n_classes, names, cautious):
    """Many, in one file."""
    forest, rules = forest_of(n_classes), {name: make(name, n_classes, N_TREES) for name in names}
    check(ju.bind(forest, rules | cautious), rows(forest.trees))


@pytest.mark.parametrize("name", ["evidence", "cautious"])
@pytest.mark.exhaustive(keep=1)
def test_ten_classes(name):
    forest = forest_of(10)
    rule = ju.EvidenceAccumulation(forest.prior) if name == "evidence" else CautiousReport(1)
    check(ju.bind(forest, rule), rows(forest.trees))


@pytest.mark.parametrize("settings", [{"n_trees": 1}, {"n_trees": 1, "max_depth": 1}, {"min_samples_leaf": 200}])
@pytest.mark.exhaustive(keep=2)
@pytest.mark.once
def test_small_forests(settings):
    """One tree, one test, and trees that are one leaf."""
    forest = forest_of(3, **settings)
    check(ju.bind(forest, ju.Pooling()), rows(forest.trees))


@pytest.mark.parametrize("name", ["mean", "dempster", "learned_pool", "blend", "weighted_pooling", "evidence_veto"])
@pytest.mark.exhaustive
def test_a_million_rows(name):
    n_classes = 2 if RULES[name].binary_only else 3
    forest = forest_of(n_classes, 50, min_samples_leaf=1)
    check(ju.bind(forest, make(name, n_classes, 50)), rows(forest.trees, 10**6))


@pytest.mark.once
def test_edges_of_tests():
    """Infinite thresholds, subnormal ones, and a test that no number passes, with missing values to either side."""
    keys = [-(2**31) + 1, -2139095041, -2139095040, -1, 0, 1, 2139095039, 2139095040, 2**31 - 2]
    trees = forest_of(2, 1, max_depth=1).trees
    n = len(keys) * 2
    threshold = np.full((n, trees.n_nodes), 2**31 - 1, np.int32)
    threshold[:, 0] = keys * 2
    missing = np.zeros(threshold.shape, bool)
    missing[: len(keys), 0] = True
    spread_out = [np.repeat(np.asarray(part), n, axis=0) for part in (trees.feature, trees.child)]
    spread_out[0][:, 0] = 0
    many = ju.forest.Trees(
        *map(jnp.asarray, (spread_out[0], threshold, spread_out[1], missing, np.ones(n, np.int32))),
        columns=trees.columns,
    )
    X, y = data(2)
    forest = ju.count_leaves(many, X, y)
    X = rows(many)
    X[:9, 0] = [3.4028235e38, -3.4028235e38, 0, -0.0, 1e-45, -1e-45, 1, -1, np.nan]
    check(ju.bind(forest, {"mean": ju.Mean(), "evidence": ju.EvidenceAccumulation(0.5)}), X)


@pytest.mark.once
def test_two_countings_and_complete_data():
    X, y = data(2)
    forest = ju.from_sklearn(RandomForestClassifier(5, random_state=0).fit(np.nan_to_num(X), y))
    check(ju.bind(forest, ju.Mean()), rows(forest.trees))
    forest = forest_of(2)
    forest = forest.with_count_set("oob", ju.count_leaves(forest, X[::2], y[::2]))
    pool = ju.LearnedPool(forest.prior, reads=("own", "oob"), inbag_weight=0.5)
    check(ju.bind(forest, pool), rows(forest.trees))


class Fancy(ju.Combiner):
    merge = "sum"

    def lift(self, counts):
        return counts.astype(float)

    def finish(self, stat):
        return Answer(jax.lax.lgamma(stat), None, None, None)


class Fields(NamedTuple):
    """An answer whose label is a number of its own."""

    label: Any
    shares: Any


class Alone(ju.Combiner):
    merge = "sum"
    answers_fields: bool = equinox.field(static=True)

    def lift(self, counts):
        return counts / counts.sum(axis=-1, keepdims=True)

    def finish(self, stat):
        return Fields(stat.max(axis=-1), stat) if self.answers_fields else {"sum": stat, "most": stat.max(axis=-1)}


@pytest.mark.once
def test_names_of_fields():
    bound = ju.bind(forest_of(2), {"fields": Alone(True), "alone": Alone(False)})
    X = rows(bound.forest.trees, 50)
    outputs, answer = run(to_onnx(bound), X), bound.answer(X)
    names = ["alone.most", "alone.sum", "fields.label", "fields.shares"]
    assert sorted(outputs) == names
    for name, own in zip(names, jax.tree.leaves(answer), strict=True):
        check_close(outputs[name], own, name)


X6 = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
X6[0], X6[1], X6[2, :3] = 0, 1e-6, [-1, 80, -80]
OPERATIONS = {
    "arithmetic": lambda x: (x + 1) * x / (x * x + 0.5) - x**3 + jnp.sqrt(jnp.abs(x)) + jnp.tanh(x),
    "exponentials": lambda x: jnp.exp(x / 80) + jnp.log(jnp.abs(x) + 1) + jnp.power(jnp.abs(x) + 0.1, 0.7),
    "log1p": lambda x: jnp.log1p(jnp.maximum(x, -0.999)),
    "expm1": lambda x: jnp.expm1(x / 8),
    "sigmoid": jax.nn.sigmoid,
    "softmax": jax.nn.softmax,
    "rounding": lambda x: jnp.floor(x) + jnp.ceil(x) + jnp.sign(x),
    "comparisons": lambda x: ((x > 0) & (x != 1)) | (x <= -1) | ~(x >= -1) | (x == 0) ^ (x < 2),
    "choice": lambda x: jnp.where(x > 0, x, jnp.where(jnp.isfinite(x), 2 * x, 0)),
    "choice of bools": lambda x: jnp.where(x > 0, x > 1, x < -1),
    "clip": lambda x: jnp.clip(x, -1, 0.5),
    "moves": lambda x: jnp.concatenate([x[::-1], x[1:4], jnp.zeros(2)]).reshape(11, 1) * jnp.ones((1, 2)),
    "axes": lambda x: jnp.stack([x.reshape(2, 3).T, x.reshape(3, 2)], axis=1)[:, 0].max(axis=0),
    "reductions": lambda x: jnp.stack([x.sum(), x.max(), x.min(), x.prod(), x.mean(), x[2]]),
    "axes together": lambda x: x.reshape(1, 2, 3).sum(axis=(0, 2)),
    "any and all": lambda x: jnp.stack([(x > 0).any(), (x > -1).all(), True]),
    "places": lambda x: jnp.stack([jnp.argmax(x), jnp.argmin(x)]),
    "looked up": lambda x: x[jnp.argmax(x)],
    "set": lambda x: x.at[2].set(x[0] * 2).at[4:].set(1.0),
    "padded": lambda x: jnp.pad(x[:2], (1, 2), constant_values=5),
    "sorted": lambda x: jnp.sort(x.reshape(2, 3), axis=0),
    "running": lambda x: jnp.cumsum(x.reshape(2, 3), axis=1)[:, ::-1],
    "known": lambda x: jnp.arange(3) * 2.0,
    "matrix of scalars": lambda x: x[:, None] - x[None, :],
}


@lru_cache
def results() -> dict:
    """What the operations answer, of one program."""
    with jax.numpy_dtype_promotion("standard"):
        return jax.jit(jax.vmap(lambda x: {name: of(x) for name, of in OPERATIONS.items()}))(X6)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.once
def test_operations(name):
    """Each is traced for one instance, and answers many."""
    with jax.numpy_dtype_promotion("standard"):
        program, shape = jax.make_jaxpr(OPERATIONS[name], return_shape=True)(X6[0])
    graph = Graph()
    (value,) = translate(graph, program, [Rows("X", (6,), np.dtype(np.float32))])
    assert not isinstance(value, Unknown), value
    graph.node("Identity", expand(graph, value, "X"), output="y")
    model = graph.model(("X", "float32", 6), {"y": (shape.dtype.name, (shape.size,))}, {}, "0")
    expected = np.asarray(results()[name])
    check_close(run(model, X6)["y"].reshape(expected.shape), expected, name)


WITHOUT = {
    "scan": lambda x: jax.lax.scan(lambda c, v: (c + v, c), x[0], x)[1],
    "dot_general": lambda x: x @ jnp.eye(6),
    "lgamma": jax.lax.lgamma,
    "while": lambda x: jax.lax.while_loop(lambda v: v[0] < 3, lambda v: v + 1, x),
    "custom index": lambda x: x.reshape(2, 3)[jnp.argmax(x[:2])],
}


@pytest.mark.parametrize("name", WITHOUT)
@pytest.mark.once
def test_operations_without_counterpart(name):
    (value,) = translate(Graph(), jax.make_jaxpr(WITHOUT[name])(X6[0]), [Rows("X", (6,), np.dtype(np.float32))])
    assert isinstance(value, Unknown)
    assert value.primitive in (name, "gather", "dynamic_slice")


@pytest.mark.once
def test_pieces_add_up():
    rng = np.random.default_rng(0)
    cases = (rng.integers(0, 200, (7, 50)), 1), (rng.integers(0, 10**9, (7, 50)), 3), (rng.normal(size=(7, 50)), 4)
    for values, most in cases:
        pieces = pieces_of(values.astype(np.float64), 700)
        assert len(pieces) <= most
        np.testing.assert_allclose(sum(pieces), values, rtol=0, atol=2.0**-48 * np.abs(values).max())
        for piece in pieces[:-1]:
            total = np.abs(piece).max() * 700
            assert np.all(piece / 2.0 ** (np.ceil(np.log2(total)) - 24) % 1 == 0)


@pytest.mark.once
def test_numbers_that_round_to_a_threshold():
    rng = np.random.default_rng(0)
    bits = rng.integers(-(2**31), 2**31, 20000).astype(np.int32)
    edges = [0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, 1.1754944e-38]
    narrow = np.concatenate([bits.view(np.float32), np.array(edges, np.float32)])
    narrow = narrow[~np.isnan(narrow)]
    wide = largest_rounding_to(narrow)
    with np.errstate(over="ignore", under="ignore"):
        assert np.all(wide.astype(np.float32) <= narrow)
        above = np.nextafter(wide, np.inf).astype(np.float32)
    assert np.all((above > narrow) | np.isposinf(narrow))


@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.once
def test_ensembles(name):
    ensemble = ensemble_of(name)
    model = to_onnx(ensemble)
    X = rows(ensemble.trees, dtype=np.float32 if ensemble.columns.cuts is None else np.float64)
    outputs, again = run(model, X), from_onnx(model)
    check_close(outputs["raw"], raw_of(ensemble, X).astype(np.float32), name)
    answers = answers_of(ensemble, X).astype(np.float32)
    check_close(outputs.get("probability", outputs.get("prediction")), answers, name)
    if ensemble.class_labels is not None:
        predicted = np.array(ensemble.class_labels)[answers.argmax(axis=1)]
        np.testing.assert_array_equal(outputs["label"], predicted)
    for ours, theirs in zip(jax.tree.leaves(ensemble), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for part in ("link", "class_labels", "trees_per_stage", "averaged"):
        assert getattr(again, part) == getattr(ensemble, part)


@pytest.mark.once
def test_what_from_onnx_gives_back_of_ours():
    flags = {"names": tuple("a_bc"), "absent_is_missing": True, "spaces_are_underlines": True}
    ensemble = ensemble_of("two classes")
    columns = dataclasses.replace(ensemble.columns, **flags)
    trees = dataclasses.replace(ensemble.trees, columns=columns)
    ensemble = dataclasses.replace(ensemble, trees=trees, trees_per_stage=3)
    model = to_onnx(ensemble)
    again = from_onnx(model)
    assert (again.columns, again.trees_per_stage) == (columns, 3)
    model.metadata_props.remove(next(one for one in model.metadata_props if one.key == "jaxunc.settings"))
    assert from_onnx(model).trees_per_stage == 1  # as files of before


@pytest.mark.once
def test_labels():
    X, y = data(2)
    large = np.array([2**63 + 1, 2**63 + 3], np.uint64)
    for labels, kind in (([5, 3], "i"), (["no", "yes"], "O"), ([False, True], "b"), ([1.0, 3.0], "f"), (large, "u")):
        model = RandomForestClassifier(3, random_state=0).fit(X, np.array(labels)[y])
        bound = ju.bind(ju.from_sklearn(model), ju.Vote())
        found = run(to_onnx(bound), X)["label"]
        np.testing.assert_array_equal(found, model.classes_[np.asarray(bound.answer(X).predicted)])
        assert found.dtype.kind == kind


@pytest.mark.once
def test_metadata_and_levels():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": rng.choice([*"rgb"], 200), "size": rng.normal(size=200)})
    y = (frame["size"] > 0) ^ (frame["colour"] == "r")
    forest = ju.grow_random_trees(jax.random.key(0), frame, y, n_trees=3, nominal=[True, False])
    refuses(ValueError, "with_empty_leaves", to_onnx, ju.bind(forest, ju.Mean()))
    bound = ju.bind(forest.with_empty_leaves("parent"), ju.Mean())
    model = to_onnx(bound)
    known = {one.key: one.value for one in model.metadata_props}
    assert json.loads(known["feature_names"]) == ["colour", "size"]
    assert json.loads(known["levels"])["0"]["values"] == [*"bgr"]
    assert known["jaxunc.version"] == ju.__version__
    codes = frame["colour"].map({"b": 0, "g": 1, "r": 2}).to_numpy(np.float32)
    X = np.stack([codes, frame["size"].to_numpy(np.float32)], axis=1)
    check_close(run(model, X)["probability"], bound.probability(frame))


X_NUMBERS = np.random.default_rng(1).normal(size=(700, 5)).astype(np.float32)
Y_NUMBERS = X_NUMBERS[:, 0] * 2 + np.random.default_rng(2).normal(size=700) * (1 + (X_NUMBERS[:, 1] > 0))
HOLED = np.where(np.random.default_rng(3).random(X_NUMBERS.shape) < 0.1, np.nan, X_NUMBERS)
FEW_LEAVES = {"n_estimators": 9, "max_leaf_nodes": 50, "random_state": 0}
LAWS = {
    "learned": ("learned", RandomForestRegressor(**FEW_LEAVES), HOLED, Y_NUMBERS),
    "leaves of one": ("learned", RandomForestRegressor(20, random_state=0), X_NUMBERS, Y_NUMBERS),
    "bins": ("bins", RandomForestRegressor(**FEW_LEAVES), HOLED, Y_NUMBERS),
    "neighbours": ("neighbours", RandomForestRegressor(**FEW_LEAVES), HOLED, Y_NUMBERS),
    "atoms": ("bins", RandomForestRegressor(20, random_state=0), X_NUMBERS, np.where(Y_NUMBERS < 0.5, 0.0, Y_NUMBERS)),
    "residuals": ("residuals", RandomForestRegressor(**FEW_LEAVES), X_NUMBERS, Y_NUMBERS),
    "conformal": ("conformal", ExtraTreesRegressor(**FEW_LEAVES), X_NUMBERS, Y_NUMBERS),
    "a tree": ("learned", DecisionTreeRegressor(min_samples_leaf=4, random_state=0), X_NUMBERS, Y_NUMBERS),
    "a leaf": ("learned", RandomForestRegressor(20, min_samples_leaf=99, random_state=0), X_NUMBERS, Y_NUMBERS),
    "absolute": ("learned", RandomForestRegressor(5, criterion="absolute_error", random_state=0), X_NUMBERS, Y_NUMBERS),
    "1e8": ("learned", RandomForestRegressor(20, random_state=0), X_NUMBERS, 1e8 + Y_NUMBERS),
    "0 and 1e8": ("bins", RandomForestRegressor(20, random_state=0), X_NUMBERS, Y_NUMBERS + 1e8 * (Y_NUMBERS > 0)),
    "a constant": ("learned", RandomForestRegressor(5, random_state=0), X_NUMBERS, np.full(700, 3.3)),
}


@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
@pytest.mark.parametrize("name", a_few_of(LAWS, ["learned", "bins", "neighbours", "residuals", "conformal"]))
@pytest.mark.once
@pytest.mark.room(keep=3)
def test_numbers(name):
    """Quantiles of bins to the bit, all others as float32 has them here; doubt against loops in float64."""
    law, forest, X, y = LAWS[name]
    has_bags = getattr(forest, "bootstrap", False)
    counts = "oob" if has_bags else "held_out"
    model = UncertainForestRegressor(forest, law=law, counts=counts, random_state=0).fit(X[:300], y[:300])
    new, levels, width = X[300:], [0.05, 0.1, 0.5, 0.77, 1.0][: 4 + (law == "bins")], np.ptp(y) or 1.0
    found = run(to_onnx(model), new)
    assert list(found) == ["mean", "std", "aleatoric", "epistemic", "lower", "upper"]
    assert [column.shape for column in run(to_onnx(model), new[:0]).values()] == [(0,)] * 6
    trees = getattr(model.estimator_, "estimators_", [model.estimator_])
    leaves = np.stack([tree.apply(new) for tree in trees])
    means = np.stack([tree.tree_.value[at, 0, 0] for tree, at in zip(trees, leaves, strict=True)])
    np.testing.assert_allclose(found["mean"], means.mean(axis=0), rtol=0, atol=1e-6 * width)
    np.testing.assert_allclose(found["epistemic"], means.var(axis=0), rtol=1e-5, atol=1e-9 * width**2)
    doubt = model.predict_uncertainty(new)
    np.testing.assert_allclose(found["aleatoric"], doubt.aleatoric, rtol=1e-5, atol=1e-9 * width**2)
    np.testing.assert_allclose(found["std"] ** 2, found["aleatoric"] + found["epistemic"], rtol=1e-9)
    found |= run(to_onnx(model.bound_.asking(0.8, levels)), new)
    quantiles, ends = model.predict(new, quantiles=levels), model.predict_interval(new, coverage=0.8)
    for own, expected in zip(list(found)[4:], [*ends.T, *quantiles.T], strict=True):
        np.testing.assert_allclose(found[own], expected, rtol=0, atol=0 if law == "bins" else 1e-6 * width)
    moments = run(to_onnx(model.moments_), new)
    assert list(moments) == ["mean", "std", "aleatoric", "epistemic"]
    for own, column in moments.items():
        np.testing.assert_array_equal(column, found[own])


@pytest.mark.once
def test_numbers_of_other_libraries_and_what_is_refused():
    """Tests of sets and of float64; a level that a conformal law has not; a model that is not fitted."""
    frame = pd.DataFrame(X_NUMBERS, columns=list("abcde")).assign(f=pd.Categorical(np.arange(700) % 9))
    settings: dict = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_jobs": 1}
    settings |= {"n_estimators": 9, "num_leaves": 50, "min_data_per_group": 5}
    forest = pytest.importorskip("lightgbm").LGBMRegressor(**settings)
    forest.fit(frame[:300], Y_NUMBERS[:300] + (np.arange(300) % 9 > 4))
    moments = LeafMoments(forest, frame[300:], Y_NUMBERS[300:])
    codes = np.column_stack([X_NUMBERS.astype(float), np.arange(700) % 9])
    found, expected = run(to_onnx(moments), codes), moments.answer(frame)
    for own, column in (*zip(Moments._fields, expected, strict=True), ("std", expected.std)):
        np.testing.assert_allclose(found[own], column, rtol=1e-5, atol=1e-6)
    model = UncertainForestRegressor(RandomForestRegressor(9, random_state=0), law="conformal")
    refuses(ValueError, "not fitted", to_onnx, model)
    model.set_params(support=(np.quantile(Y_NUMBERS, 0.3), np.inf))
    model.fit(X_NUMBERS[:99], np.maximum(Y_NUMBERS[:99], model.support[0]))
    ends = model.predict_interval(X_NUMBERS[99:200])
    assert ends.min() == model.support[0]
    np.testing.assert_allclose(run(to_onnx(model), X_NUMBERS[99:200])["lower"], ends[:, 0], rtol=1e-5, atol=1e-6)
    refuses(ValueError, "made on the host alone", to_onnx, model.bound_.asking(0.8, None, [1.0]))
    refuses(ValueError, "a conformal quantile at the level", to_onnx, model.bound_.asking(None, [0.001]))
    refuses(TypeError, "to_onnx, and its mean", to_treelite, model)


def traced():
    with_counts = lambda counts: to_onnx(ju.bind(forest_of(2).with_counts(counts), ju.Mean()))
    return jax.eval_shape(with_counts, jax.ShapeDtypeStruct((N_TREES, forest_of(2).n_nodes, 2), jnp.int32))


def too_large(monkeypatch):
    monkeypatch.setattr(_graph, "LARGEST", 1000)
    to_onnx(mean())


def without_onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    to_onnx(mean())


def labels_of_two_kinds():
    to_onnx(ju.bind(dataclasses.replace(forest_of(2), class_labels=(0, "one")), ju.Vote()))


def labels_of_65_bits():
    to_onnx(ju.bind(dataclasses.replace(forest_of(2), class_labels=(-1, 2**64 - 1)), ju.Vote()))


def damaged(key, value):
    def read():
        model = to_onnx(ensemble_of("words"))
        next(one for one in model.metadata_props if one.key == key).value = value
        from_onnx(model)

    return read


def mean():
    return ju.bind(forest_of(2), ju.Mean())


def no_sum(name):
    """A rule that ONNX has no sum for."""
    return lambda: to_onnx(ju.bind(forest_of(2), make(name, 2, N_TREES)))


def rules_of_ten():
    return ju.bind(forest_of(10), {"vote": ju.Vote(), "pooling": ju.Pooling()})


test_refusals = pytest.mark.once(
    refusals(
        ("a forest", lambda: to_onnx(forest_of(2)), "model is a Forest; pass a bound forest", TypeError),
        ("traced", traced, "traced", TypeError),
        ("more than two gigabytes", too_large, "a file of ONNX holds two"),
        ("no onnx", without_onnx, r"jaxunc\[onnx\]", ImportError),
        ("labels of two kinds", labels_of_two_kinds, "all integers of 64 bits, all texts"),
        ("labels of 65 bits", labels_of_65_bits, "all integers of 64 bits"),
        ("not fitted", lambda: to_onnx(CombinedForestClassifier()), "is not fitted"),
        ("no operator", lambda: to_onnx(ju.bind(forest_of(2), Fancy())), "Fancy computes its label by lgamma"),
        ("a loop", lambda: to_onnx(rules_of_ten()), r"by scan, for which .*bound.export\(\)"),
        ("a forest, back", lambda: from_onnx(to_onnx(mean())), "a forest bound to Mean"),
        ("other labels", damaged("class_labels", '["a", "b"]'), "class_labels has 2 labels"),
        ("a setting", damaged("jaxunc.settings", '{"averaged": 1}'), "metadata are damaged"),
        ("no stage", damaged("jaxunc.settings", '{"trees_per_stage": -1}'), "metadata are damaged"),
        ("a long stage", damaged("jaxunc.settings", '{"trees_per_stage": 9}'), "claim 9 trees a stage of 3"),
        *((name, no_sum(name), f" merges .* by '{merge}'") for name, merge in NOT_SUMS.items()),
    )
)
