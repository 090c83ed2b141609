"""What programs do to all arrays of a tree of arrays changes nothing of a bound forest, or is refused."""

import copy
import io
import pickle
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._refusal import refuses
from tests.inference._same import assert_equal

X, y = load_breast_cancer(return_X_y=True)
_SEVERAL = {
    "vote": ju.Vote(),
    "pooling": ju.Pooling(),
    "evidence": ju.EvidenceAccumulation(np.array([0.4, 0.6])),
    "dempster": ju.DempsterRule(),
    "median": ju.Median(),
}
RULES = {"mean": ju.Mean(), "several": ju.combiners.Together(**_SEVERAL)}
"""One rule, and statistics of all kinds beside each other."""


@pytest.fixture(scope="module")
def forest():
    return ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))


def is_float(leaf) -> bool:
    return eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def updated(tree):
    """After a step of an optimiser whose gradients are zero."""
    params, static = eqx.partition(tree, eqx.is_inexact_array)
    optimizer, zeros = optax.sgd(0.1), jax.tree.map(jnp.zeros_like, params)
    return eqx.combine(optax.apply_updates(params, optimizer.update(zeros, optimizer.init(params))[0]), static)


def of_floats(function):
    return lambda tree: jax.tree.map(lambda leaf: function(leaf) if is_float(leaf) else leaf, tree)


KEEP = {
    "identity": lambda tree: jax.tree.map(lambda leaf: leaf, tree),
    "jit": lambda tree: jax.jit(lambda same: same)(tree),
    "nothing added": of_floats(lambda leaf: leaf + 0),
    "zero update": updated,
    "zero update, compiled": lambda tree: eqx.filter_jit(updated)(tree),
    "copy": copy.deepcopy,
    "pickle": lambda tree: pickle.loads(pickle.dumps(tree)),
    "on the host": jax.device_get,
    "NumPy's": lambda tree: jax.tree.map(np.asarray, tree),
    "on the host, pickle": lambda tree: pickle.loads(pickle.dumps(jax.device_get(tree))),
    "on the host and back": lambda tree: jax.tree.map(jax.device_put, jax.device_get(tree)),
}


@pytest.mark.room(keep=4)
@pytest.mark.parametrize("operation", KEEP)
@pytest.mark.parametrize("name", RULES)
def test_kept(forest, name, operation, tmp_path):
    bound = ju.bind(forest, RULES[name])
    kept = KEEP[operation](bound)
    assert_equal(kept.probability(X[:70]), bound.probability(X[:70]))
    if operation == "on the host":
        ju.save(tmp_path / "model", kept)
        assert_equal(ju.load(tmp_path / "model").probability(X[:70]), bound.probability(X[:70]))


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("walk", ["levels", "blocks"])
def test_on_the_host(forest, walk):
    """In programs, by missing values, and in files of Equinox, which are read in the 64-bit mode."""
    bound, rows = ju.bind(forest, ju.Mean(), walk=walk), X[:40]
    host, gaps = jax.device_get(bound), np.where(rows > 20, np.nan, rows)
    assert_equal(host.probability(gaps), bound.probability(gaps))
    program = jax.jit(lambda bound, X: bound.probability(X))
    assert_equal(program(jax.device_get(bound), rows), program(bound, rows))
    inside = jax.device_get(bound)
    found = jax.jit(lambda X: inside.probability(X))(rows)  # another program: the forest is a constant
    np.testing.assert_allclose(found, program(bound, rows), rtol=1e-6)
    assert_equal(inside.probability(rows), bound.probability(rows))
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, bound)
    file.seek(0)
    with jax.enable_x64(True):
        again = eqx.tree_deserialise_leaves(file, bound)
    assert_equal(again.probability(rows), bound.probability(rows))


@pytest.mark.parametrize("name", RULES)
def test_what_was_packed_is_no_float(forest, name):
    """A moving average, or half precision and back, rounds a rule's own numbers; nodes and leaf tables it leaves."""
    engine = ju.bind(forest, RULES[name]).engine
    assert not [leaf for leaf in jax.tree.leaves((engine.packed.plan, engine.packed.tables)) if is_float(leaf)]


@pytest.mark.parametrize(
    "operation", [lambda a: a + 0, lambda a: a.astype(jnp.bfloat16), lambda a: a.astype(jnp.int32)]
)
def test_arithmetic_with_bits_is_refused(forest, operation):
    bound = ju.bind(forest, ju.Mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX says that integers of 64 bits are cut
        nodes = operation(bound.engine.packed.plan.nodes)
    broken = eqx.tree_at(lambda bound: bound.engine.packed.plan.nodes, bound, nodes)
    if nodes.dtype == jnp.int64:  # nothing added, in the 64-bit mode
        assert_equal(broken.probability(X[:9]), bound.probability(X[:9]))
    else:
        refuses(TypeError, "bits", broken.probability, X[:9])
