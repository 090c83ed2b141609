"""The same answer, bit for bit, whatever stands beside it: every rule, every counting, every way in.

Sizes, trees, classes and the cells of the table that the quick suite tries are drawn; `JAXUNC_TEST_SEED` repeats them.
"""

import random
from functools import lru_cache
from itertools import pairwise

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc._numerics import shares_of
from jaxunc.inference._by_rows import ByRows
from tests._exhaustive import SEED
from tests._forests import forest_of_leaves, random_counts
from tests._rules import RULES
from tests.inference._same import FURTHER, rule_of

pytestmark = pytest.mark.room

NEWER = jax.__version_info__ >= (0, 11)  # until jax 0.11: its compiler rounds exponentials alike in every place
ROUNDED = {"counts": 64, "by rows": 64, "levels": 1024}
COUNTS = ("own", "oob", "weighted", "held out")


def size_of(*key, low: int, high: int) -> int:
    """A number that belongs to the seed and a key."""
    return random.Random(f"{SEED} {key}").randint(low, high)


N = size_of("rows", low=300, high=700)
CLASSES = (2, 3, size_of("classes", low=4, high=9), size_of("many", low=33, high=40))
TREES = {n: size_of("trees", n, low=3, high=40) for n in CLASSES}
RAGGED = [size_of("ragged", i, low=1, high=99) for i in range(N)]


@lru_cache
def leaves(n_classes: int, counts: str) -> tuple[ju.Forest, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([SEED, n_classes])
    if counts in ("own", "weighted"):
        drawn = random_counts(rng, (N, TREES[n_classes]), n_classes).astype(float)
        drawn = drawn * rng.uniform(0.1, 3, drawn.shape) if counts == "weighted" else drawn
        return *forest_of_leaves(drawn), drawn.astype(jnp.result_type(float) if counts == "weighted" else np.int32)
    X = rng.normal(size=(N, 6)).astype(np.float32)
    y = np.argmax(X[:, :2] @ rng.normal(size=(2, n_classes)) + rng.normal(size=(N, n_classes)), axis=1)
    y[:n_classes] = np.arange(n_classes)
    model = RandomForestClassifier(TREES[n_classes], min_samples_leaf=2, random_state=SEED).fit(X, y)
    forest, held = ju.from_sklearn(model), rng.normal(size=(N, 6)).astype(np.float32)
    out_of_bag = counts == "oob"
    mask = ju.counting.oob_mask(model, len(X)) if out_of_bag else None
    forest = ju.count_leaves(forest, X if out_of_bag else held, y, tree_mask=mask)
    return forest, X, np.asarray(ju.leaf_counts(forest, X))


def parts_of(answer) -> dict[str, np.ndarray]:
    parts = jax.tree_util.tree_leaves_with_path(answer)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(part) for path, part in parts}


def batches(ask, X: np.ndarray, sizes: list[int]) -> dict[str, np.ndarray]:
    ends = np.cumsum([0, *sizes])
    found = [parts_of(ask(X[a:b])) for a, b in pairwise(ends) if a < len(X)]
    joined = lambda parts: np.concatenate(parts) if parts[0].ndim else parts[0]
    return {name: joined([one[name] for one in found]) for name in found[0]}


many = lambda X: np.resize(X, (size_of("many rows", low=2100, high=9000), X.shape[1]))


def exported(bound: ju.BoundForest, X: np.ndarray):
    answer = jax.jit(jax.export.deserialize(bound.export(None).serialize()).call)(X)
    return answer if isinstance(answer, dict) else {"": answer}


_mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
EXPLICIT = jax.sharding.NamedSharding(_mesh, jax.sharding.PartitionSpec("data"))
over = lambda bound, engine: ju.inference.BoundForest(engine, bound.combiner, 2)
# Answers of a bound forest for the rows X, whose leaves hold these counts, or for the first of them.
WAYS = {
    "whole": lambda bound, X, counts: bound.answer(many(X)),
    "one by one": lambda bound, X, counts: batches(bound.answer, X[:9], [1] * 9),
    "ragged": lambda bound, X, counts: batches(bound.answer, X, RAGGED),
    "threads": lambda bound, X, counts: ju.bind(bound.forest, bound.combiner, threads=3).answer(many(X)),
    "jax": lambda bound, X, counts: bound.answer(jnp.asarray(X)),
    "traced": lambda bound, X, counts: jax.jit(bound.answer)(X),
    "explicit": lambda bound, X, counts: jax.jit(bound.answer)(jax.device_put(X, EXPLICIT)),
    "mapped": lambda bound, X, counts: jax.tree.map(lambda p: p[:, 0], jax.vmap(lambda x: bound.answer(x[None]))(X)),
    "counts": lambda bound, X, counts: bound.combiner.answer(counts),
    "by rows": lambda bound, X, counts: over(bound, ByRows.of(bound.forest, bound.combiner, "blocks")).answer(X),
    "levels": lambda bound, X, counts: ju.bind(bound.forest, bound.combiner, walk="levels").answer(X),
    "shard": lambda bound, X, counts: ju.shard(bound, jax.make_mesh((1, 1), ("data", "tree"))).answer(X),
    "sparse": lambda bound, X, counts: bound.answer(scipy.sparse.csr_array(X)),
    "export": lambda bound, X, counts: exported(bound, X),
    "many": lambda bound, X, counts: bound.answer(many(X)),
}


def check(name: str, n_classes: int, counts: str, ways: list[str]) -> None:
    """Whatever way rows come, the first of them have the bits of the whole."""
    forest, X, of_rows = leaves(n_classes, counts)
    bound = ju.bind(forest, rule_of(name, n_classes, TREES[n_classes]), threads=1)
    expected = parts_of(bound.answer(X))
    for way in ways:
        found = parts_of(WAYS[way](bound, X, of_rows))
        assert set(found) == set(expected) or len(expected) == 1
        for part, whole in expected.items():
            one = found.get(part, found.get(""))
            rows = slice(min(len(whole), len(one))) if whole.ndim else ()
            message = f"JAXUNC_TEST_SEED={SEED}: {name}, {n_classes} classes, {counts}, {way}: {part}"
            # What leaves say is compiled for the shape of counts, and rounds otherwise; levels merge trees in another
            # order. Compilers from JAX 0.11 on round exponentials by their place.
            units = ROUNDED.get(way, 64 * (NEWER and not part.endswith("class_scores")))
            if way != "levels" or whole.dtype.kind == "f":
                eps = units * np.finfo(whole.dtype).eps if whole.dtype.kind == "f" else 0
                np.testing.assert_allclose(one[rows], whole[rows], rtol=eps, atol=eps, err_msg=message)
            else:  # a vote or a set that hangs on the last bit
                assert np.mean(one[rows] != whole[rows]) < 0.01, message


def suits(name: str, n_classes: int) -> bool:
    """Whether the rule takes so many classes, in a time that a test has."""
    if name == "one vs rest, a list":  # a program for each class
        return n_classes < 10
    return n_classes == 2 or not (RULES[name].binary_only if name in RULES else name == "uncertainty, plausibility")


@pytest.mark.parametrize("name", [*RULES, *FURTHER])
@pytest.mark.exhaustive(keep=2)
def test_an_answer_stands_alone(name):
    draw = random.Random(f"{SEED} {name}")
    n_classes = draw.choice([n for n in CLASSES if suits(name, n)])
    check(name, n_classes, draw.choice(COUNTS), draw.sample(list(WAYS), 4))


@pytest.mark.parametrize("n_classes", [4, 10, 33])
def test_shares_of_many_classes_stand_alone(n_classes, rng):
    """Sums over classes, which a compiler reorders from 32768 numbers on."""
    stat = rng.uniform(size=(8192, n_classes)).astype(jnp.result_type(float))
    finish = jax.jit(lambda stat: ju.combiners.Answer.from_log_evidence(stat).probability + shares_of(stat))
    whole = np.asarray(finish(stat))
    for rows in (2, 64, 2048):
        np.testing.assert_array_equal(finish(stat[:rows]), whole[:rows])


@pytest.mark.parametrize(("depth", "masked"), [(2, False), (3, True), (4, False), (4, True), (5, True)])
@pytest.mark.parametrize("name", ["mean", "evidence"])
@pytest.mark.exhaustive(keep=2)
def test_shallow_trees_in_batches_of_any_size(name, depth, masked):
    """Few rows select leaf values or walk, one by one or some together; many rows select them."""
    rng = np.random.default_rng([SEED, depth])
    X = rng.normal(size=(400, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = RandomForestClassifier(23, max_depth=depth, random_state=SEED).fit(X, np.nan_to_num(X[:, 0]) > 0.3)
    forest = ju.from_sklearn(model)
    mask = rng.random((len(X), forest.n_trees)) < 0.7 if masked else None
    bound = ju.bind(forest, {"mean": ju.Mean(), "evidence": ju.EvidenceAccumulation(forest.prior)}[name], threads=2)
    whole = bound.answer(X, tree_mask=mask).class_scores
    if not masked:
        by_counts = bound.combiner.answer(np.asarray(ju.leaf_counts(forest, X))).class_scores
        np.testing.assert_allclose(whole, by_counts, rtol=2e-5, atol=1e-5)
    sizes = (1, 2, 3, 7, 8, 13, 16, 31, 40, 64, 100)
    for size, end in zip(sizes, np.cumsum(sizes), strict=True):
        rows = slice(end - size, end)
        part = bound.answer(X[rows], tree_mask=None if mask is None else mask[rows]).class_scores
        np.testing.assert_array_equal(part, whole[rows], f"JAXUNC_TEST_SEED={SEED}, {size} rows")
