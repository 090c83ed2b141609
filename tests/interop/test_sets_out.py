"""Tests of intervals and sets of categories on their way out: ONNX Runtime, treelite, and back in."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.forest import TreeNodes, lay_out
from jaxunc.interop import _to_treelite, from_onnx, from_treelite, to_onnx, to_treelite
from jaxunc.interop._comparing_trees import NOT_IN_SET, ComparingTree, ensemble_of
from jaxunc.tables import Columns
from tests._exhaustive import a_few_of
from tests._refusal import refuses

from ._random_sets import KINDS, random_sets, rows_of
from ._rows import answers_of, raw_of, reached, walked

pytestmark = pytest.mark.once
ROWS, CLOSE = 400, 1e-6


def check_onnx(model, X, given):
    """Check that a file loads and answers in ONNX Runtime, and comes back with the same leaves; by loops in NumPy."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    written = to_onnx(model)
    onnx.checker.check_model(written, full_check=True)
    session = runtime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    (raw,) = session.run(["raw"], {"X": X})
    np.testing.assert_allclose(raw, raw_of(model, given), rtol=CLOSE, atol=CLOSE)
    back, values = from_onnx(written), reached(model, walked(model.trees, given))
    for one in (back, from_onnx(to_onnx(back))):
        np.testing.assert_array_equal(reached(one, walked(one.trees, X)), values)
        np.testing.assert_array_equal(raw_of(one, X), raw_of(model, given))


def check_treelite(model, X, given):
    """Check that treelite's own inference answers the same, and that a model comes back with the same leaves."""
    pytest.importorskip("treelite", minversion="4.8")
    from treelite import gtil

    made = to_treelite(model)
    expected = answers_of(model, given).reshape(len(X), -1)
    if expected.shape[1] == 2 and model.n_outputs == 1:
        expected = expected[:, 1:]
    found = gtil.predict(made, X.astype(np.float64)).reshape(len(X), -1)
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)
    back, values = from_treelite(made), reached(model, walked(model.trees, given))
    for one in (back, from_treelite(to_treelite(back))):
        assert isinstance(one, AdditiveTrees)
        np.testing.assert_array_equal(reached(one, walked(one.trees, X.astype(np.float64))), values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", a_few_of(range(25), [0, 12]))
def test_random_sets(kind, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    model = random_sets(rng, kind)
    X, given = rows_of(rng, model, ROWS)
    check_onnx(model, X, given)
    check_treelite(model, X, given)
    if seed == 0 and kind == "wide, levels":
        np.testing.assert_array_equal(model.leaf_values(given), reached(model, walked(model.trees, given)))
        np.testing.assert_allclose(model.raw(given), raw_of(model, given), rtol=CLOSE, atol=CLOSE)


def forest_of(rng, kind, number=300):
    """A forest whose trees test sets, counted on rows; the rows, and the same as it takes them."""
    model = random_sets(rng, kind)
    X, given = rows_of(rng, model, number, finite=True)
    return ju.count_leaves(model.trees, given, rng.integers(3, size=number)), X, given


RULES = {
    "mean": lambda forest: ju.Mean(),
    "evidence": lambda forest: ju.EvidenceAccumulation(forest.prior),
    "vote": lambda forest: ju.Vote(),
    "weighted": lambda forest: ju.Weighted(ju.Mean(ju.scorers.laplace), np.arange(forest.n_trees) + 1.0),
    "sets": lambda forest: ju.GeneralizedVote(1),
}


@pytest.mark.parametrize("kind", a_few_of(KINDS, ["wide, levels"]))
def test_rules_over_sets(kind):
    runtime, gtil = pytest.importorskip("onnxruntime"), pytest.importorskip("treelite.gtil")
    forest, X, given = forest_of(np.random.default_rng(3), kind)
    bound = ju.bind(forest, {name: make(forest) for name, make in RULES.items()})
    session = runtime.InferenceSession(to_onnx(bound).SerializeToString(), providers=["CPUExecutionProvider"])
    found = dict(zip([one.name for one in session.get_outputs()], session.run(None, {"X": X}), strict=True))
    for name, answer in bound.answer(given).items():
        part = "mass" if name == "sets" else "probability"
        np.testing.assert_allclose(found[f"{name}.{part}"], getattr(answer, part), rtol=CLOSE, atol=CLOSE)
        if name != "sets":
            made = to_treelite(ju.bind(forest, RULES[name](forest)))
            np.testing.assert_allclose(gtil.predict(made, X.astype(np.float64))[:, 0], answer.probability, atol=1e-5)


def deep_sets(number):
    """A tree that tests one column after the other for many numbers that are no integers."""
    inner = np.arange(number)
    left = np.full(2 * number + 1, -1)
    left[: 2 * number : 2] = 2 * inner + 2
    right = np.where(left < 0, -1, left - 1)
    keys = np.sort(np.random.default_rng(0).choice(2**30, 40, replace=False)).astype(np.int32)
    feature = np.minimum(np.arange(2 * number + 1) // 2, number - 1)
    starts = (keys + 1).view(np.float32).astype(np.float64)
    sets = {int(i): (starts[::2], starts[1::2]) for i in np.flatnonzero(left >= 0)}
    compare, values = np.full(len(left), NOT_IN_SET), np.random.default_rng(1).normal(size=(len(left), 1))
    missing_left = np.ones(len(left), bool)
    given = ComparingTree(feature, compare, np.zeros(len(left)), left, right, missing_left, sets, values)
    return ensemble_of([given], Columns(number), np.zeros(1), "identity")


def test_copies_that_are_too_many(monkeypatch):
    """Where treelite would need very many copies it is refused; ONNX needs none."""
    pytest.importorskip("treelite", minversion="4.8")
    model = deep_sets(4)
    monkeypatch.setattr(_to_treelite, "_MOST_NODES", 2000)
    refuses(ValueError, "copy of what is below for each", to_treelite, model)
    X = np.random.default_rng(2).integers(2**30, size=(500, 4)).astype(np.int32).view(np.float32)
    check_onnx(model, X, X)
    check_treelite(deep_sets(1), X[:, :1], X[:, :1])


def test_shared_nodes_that_are_no_intervals():
    """Two tests of different columns that share children are refused in words."""
    pytest.importorskip("onnx")
    nodes = TreeNodes(
        np.array([0, 1, 0, 0, 0]), np.zeros(5, np.int32), np.array([1, 3, 3, -1, -1]), np.array([2, 4, 4, -1, -1]),
        np.zeros(5, bool),
    )  # fmt: skip
    trees, _ = lay_out([nodes], Columns(2))
    values = np.ones((1, trees.n_nodes, 1), np.float32)
    model = AdditiveTrees(trees, jnp.asarray(values), jnp.zeros(1), "identity")
    for write in (to_onnx, to_treelite):
        refuses(ValueError, "several parents that are no test of intervals", write, model)


DAMAGED = [
    "", "[]", "[3]", "[[0", "[[9, true, false, 1.0]]", "[[0, 1, false, 1.0]]", "[[0, true, false, 2, 1]]",
    "[[0, true, false, NaN]]", '[[0, true, false, "a"]]',
]  # fmt: skip


@pytest.mark.parametrize("said", DAMAGED)
def test_damaged_metadata(said):
    pytest.importorskip("onnx")
    model = to_onnx(deep_sets(2))
    next(one for one in model.metadata_props if one.key == "jaxunc.sets").value = said
    refuses(ValueError, r"jaxunc.sets are damaged|no sides of its sets", from_onnx, model)
