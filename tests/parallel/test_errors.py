"""Meshes and forests that are refused, and what is said."""

import pickle

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh

import jaxunc as ju
from jaxunc.inference import READOUTS
from jaxunc.parallel import _shard
from tests._forests import toy_data, toy_forest
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once
MESH = jax.make_mesh((1, 1), ("data", "tree"))


@pytest.fixture(scope="module")
def bound():
    return ju.bind(toy_forest(2), ju.Mean())


def _sharded(mesh):
    return lambda bound: ju.shard(bound, mesh)


def _asked(ask):
    return lambda bound: ask(ju.shard(bound, MESH))


X = toy_data(2)[0][:5]
MESHES = {"None": None, "number": 8, "function": jax.devices, "abstract mesh": AbstractMesh((8, 1), ("data", "tree"))}
AXES = (("data",), ("x", "y"), ("data", "trees"), ("data", "tree", "model"))
WRONG_AXES = r"mesh has the axes \(.*expected the two axes 'data'.*'tree'.*size 1"
test_refusals = refusals(
    *((what, _sharded(mesh), "pass a mesh of devices.*make_mesh", TypeError) for what, mesh in MESHES.items()),
    *((f"axes {names}", _sharded(jax.make_mesh((1,) * len(names), names)), WRONG_AXES) for names in AXES),
    ("no devices", _sharded(Mesh(np.empty((0, 1), object), ("data", "tree"))), "mesh has no devices"),
    ("forest", lambda: ju.shard(toy_forest(2), MESH), "is a Forest; pass a bound forest", TypeError),
    ("vote", lambda: ju.shard(ju.voting.bind_vote(toy_forest(2)), MESH), "BoundVote.*stops early", TypeError),
    (
        "traced forest",
        lambda: jax.eval_shape(lambda forest: ju.shard(ju.bind(forest, ju.Mean()), MESH).bound(X), toy_forest(2)),
        "traced, so its trees cannot be placed",
    ),
    ("traced X", _asked(lambda f: jax.eval_shape(f, X)), "X or tree_mask is traced.*use the bound forest", TypeError),
    ("five columns", _asked(lambda sharded: sharded(X[:, :5])), "X has 5 features"),
    ("three trees", _asked(lambda sharded: sharded(X, tree_mask=np.ones((5, 3), bool))), "tree_mask has shape"),
    ("no booleans", _asked(lambda sharded: sharded(X, tree_mask=np.ones((5, 12)))), "tree_mask has dtype", TypeError),
    ("pickle", _asked(pickle.dumps), "lies on this process's devices.*Pickle its bound forest", TypeError),
    (
        "no probability",
        lambda: ju.shard(ju.bind(toy_forest(2), ju.UncertaintyDecomposition()), MESH).probability(X),
        "this combiner has no probability",
    ),
)


def test_what_a_process_tells_the_others(bound, monkeypatch):
    """Before any runs a program: whether its rows are refused, their number, missing values, a mask, the read-out."""
    told = []
    monkeypatch.setattr(_shard, "exchange_calls", lambda grid, call: told.append(call[:4]) or call.readout)
    ask = ju.shard(bound, MESH)._agree_on_call
    assert READOUTS[ask(X, None, None)[2]] is None
    with_gap = np.where(np.arange(5)[:, None] == 2, np.nan, X)
    assert READOUTS[ask(with_gap, np.ones((5, 12), bool), "probability")[2]] == "probability"
    refuses(ValueError, "X has 5 features", ask, X[:, :5], None, None)
    assert told == [(0, 5, 0, 0), (0, 5, 1, 1), (1, 0, 0, 0)]


@pytest.mark.exhaustive
def test_empty_leaves_that_are_followed():
    X = np.array([["a"], ["b"], ["c"], ["a"], ["b"], ["c"]] * 5, object)
    numbers = np.arange(30)[:, None] % 7
    X = np.hstack([X, numbers.astype(object)])
    forest = ju.grow_random_trees(jax.random.key(0), X, np.arange(30) % 2, n_trees=3, nominal=np.array([True, False]))
    assert forest.follows_forks
    with refuses(ValueError, r"'sum' are followed by the host.*with_empty_leaves\('parent'\)"):
        ju.shard(ju.bind(forest, ju.Mean()), MESH)
    one = ju.bind(forest.with_empty_leaves("parent"), ju.Mean())
    np.testing.assert_array_equal(ju.shard(one, MESH)(X), one(X))
