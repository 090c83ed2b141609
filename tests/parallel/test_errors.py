"""Meshes and forests that are refused, and what is said."""

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh

import jaxunc as ju
from tests._forests import toy_data, toy_forest
from tests._refusal import refuses

pytestmark = pytest.mark.once
MESH = jax.make_mesh((1, 1), ("data", "tree"))


@pytest.fixture(scope="module")
def bound():
    return ju.bind(toy_forest(2), ju.Mean())


@pytest.mark.parametrize(
    ("mesh", "error", "match"),
    [
        *((wrong, TypeError, "pass a mesh of devices.*make_mesh") for wrong in (None, 8, jax.devices)),
        (AbstractMesh((8, 1), ("data", "tree")), TypeError, "pass a mesh of devices.*make_mesh"),
        *(
            (names, ValueError, r"mesh has the axes \(.*expected the two axes 'data'.*'tree'.*size 1")
            for names in (("data",), ("x", "y"), ("data", "trees"), ("data", "tree", "model"))
        ),
        (Mesh(np.empty((0, 1), object), ("data", "tree")), ValueError, "mesh has no devices"),
    ],
)
def test_meshes(mesh, error, match, bound):
    mesh = jax.make_mesh((1,) * len(mesh), mesh) if isinstance(mesh, tuple) else mesh
    with refuses(error, match):
        ju.shard(bound, mesh)


def test_what_is_no_bound_forest(bound):
    vote = ju.voting.bind_vote(toy_forest(2))
    for other, match in ((toy_forest(2), "is a Forest; pass a bound forest"), (vote, "BoundVote.*stops early")):
        with refuses(TypeError, match):
            ju.shard(other, MESH)


def test_traced_forests_and_instances(bound):
    program = lambda forest: ju.shard(ju.bind(forest, ju.Mean()), MESH).bound(toy_data(2)[0])
    with refuses(ValueError, "traced, so its trees cannot be placed"):
        jax.jit(program)(toy_forest(2))
    sharded = ju.shard(bound, MESH)
    with refuses(TypeError, "X or tree_mask is traced.*use the bound forest"):
        jax.jit(lambda X: sharded(X))(toy_data(2)[0])


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


@pytest.mark.exhaustive
def test_data_as_a_bound_forest_refuses_them(bound):
    sharded, X = ju.shard(bound, MESH), toy_data(2)[0][:5]
    with refuses(ValueError, "X has 5 features"):
        sharded(X[:, :5])
    with refuses(ValueError, "tree_mask has shape"):
        sharded(X, tree_mask=np.ones((5, 3), bool))
    with refuses(TypeError, "tree_mask has dtype"):
        sharded(X, tree_mask=np.ones((5, 12)))
    with refuses(ValueError, "this combiner has no probability"):
        ju.shard(ju.bind(toy_forest(2), ju.UncertaintyDecomposition()), MESH).probability(X)
