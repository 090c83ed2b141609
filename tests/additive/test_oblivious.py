"""Oblivious trees: the sums of the leaves that a walk finds, to the last bit."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc._numerics import order_key_at_or_below
from jaxunc.additive import AdditiveTrees, _oblivious
from jaxunc.forest import TreeNodes, lay_out
from jaxunc.tables import Columns

from ..interop._rows import reached
from ..interop._rows import walked as walk
from .test_additive_trees import X as OTHERS
from .test_additive_trees import model as of_other_trees

N_FEATURES = 5


BORDERS = (-0.5, 0.0, 0.25, 1e-40)


def model(depths=(3, 0, 1, 3, 2), each: int = 1, seed: int = 0, borders=BORDERS) -> AdditiveTrees:
    """Trees of several depths, whose missing values go either way."""
    rng, nodes = np.random.default_rng(seed), []
    for depth in depths:
        place = np.arange(2 ** (depth + 1) - 1)
        level = np.floor(np.log2(place + 1)).astype(int)
        inner = level < depth
        feature, right = rng.integers(0, N_FEATURES, depth + 1), rng.random(depth + 1) < 0.5
        threshold = order_key_at_or_below(rng.choice(borders, depth + 1))
        children = (np.where(inner, 2 * place + side, -1) for side in (1, 2))
        nodes.append(TreeNodes(feature[level], threshold[level], *children, right[level]))
    trees, _ = lay_out(nodes, Columns(N_FEATURES))
    values = rng.standard_normal((len(depths), trees.n_nodes, each)) * 10.0 ** rng.integers(-3, 3, (len(depths), 1, 1))
    base = jnp.zeros(each, jnp.result_type(float))
    return AdditiveTrees(trees, jnp.asarray(values, base.dtype), base, "identity")


def rows(n: int) -> np.ndarray:
    values = [-0.5, 0.0, 0.25, 1e-40, -1e-40, np.inf, -np.inf, np.nan, np.nextafter(np.float32(0.25), 1), 3.0]
    return np.random.default_rng(1).choice(np.array(values, np.float32), (n, N_FEATURES))


def walked(made: AdditiveTrees, monkeypatch) -> AdditiveTrees:
    """The same model, walked as other trees are."""
    monkeypatch.setattr("jaxunc.additive._additive_trees.levels_of", lambda *_: None)
    other = dataclasses.replace(made, values=made.values + 0)
    assert all(isinstance(one, ju.BoundForest) for one in other._bound(other.trees))
    return other


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.exhaustive
def test_sums_are_those_of_a_walk(each, monkeypatch):
    made, X = model(each=each), rows(2600)
    assert all(isinstance(one, _oblivious.ObliviousSums) for one in made._bound(made.trees))
    batches = (X, X[:1], X[:70], np.nan_to_num(X), X[:0])
    found = [np.asarray(made.raw(batch)) for batch in batches]
    other = walked(made, monkeypatch)
    for own, batch in zip(found, batches, strict=True):
        np.testing.assert_array_equal(own, other.raw(batch))


@pytest.mark.parametrize(
    ("depths", "borders", "codes"),
    [((9, 2, 8), np.linspace(-0.5, 3, 99), np.uint8), ((5,) * 700, np.linspace(-0.5, 3, 4000), np.uint16)],
    ids=["leaves of two bytes", "codes of two bytes"],
)
@pytest.mark.exhaustive(keep=1)
def test_numbers_are_as_wide_as_they_have_to_be(depths, borders, codes, monkeypatch):
    monkeypatch.setattr(_oblivious, "MOST_TOGETHER", 40)
    made = model(depths, borders=borders)
    X = np.random.default_rng(2).uniform(-1, 3.5, (300, N_FEATURES)).astype(np.float32)
    X[::7, 1] = borders[:43]
    bound = made._bound(made.trees)[0]
    assert isinstance(bound, _oblivious.ObliviousSums)
    assert bound._levels.rank.dtype == codes
    found = np.asarray(made.raw(X))
    np.testing.assert_array_equal(found, walked(made, monkeypatch).raw(X))


@pytest.mark.room
def test_few_rows_are_walked():
    made, X = model((3,) * 40), rows(2100)
    bound = made._bound(made.trees)[0]
    assert isinstance(bound, _oblivious.ObliviousSums)
    assert bound.walk_for(25) is not None
    assert bound.walk_for(26) is None
    many = np.asarray(made.raw(X)), np.asarray(made.predict(X))
    for n in (1, 25, 26, 100):
        for found, wanted in zip((made.raw(X[:n]), made.predict(X[:n])), many, strict=True):
            np.testing.assert_array_equal(found, wanted[:n])


@pytest.mark.room
def test_outputs_of_their_own():
    one = model((2, 1, 3, 3))
    made = dataclasses.replace(one, base=jnp.zeros(2, one.base.dtype), trees_per_stage=2)
    X = rows(50)
    values = reached(one, walk(one.trees, X))[:, :, 0]
    wanted = np.stack([values[:, ::2].sum(axis=1), values[:, 1::2].sum(axis=1)], axis=1)
    np.testing.assert_allclose(made.raw(X), wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.room
@pytest.mark.once
def test_other_trees_are_walked():
    assert isinstance(of_other_trees()._bound(of_other_trees().trees)[0], ju.BoundForest)
    assert of_other_trees().raw(OTHERS).shape == (len(OTHERS), 3)
    made = model((2, 2))
    for name, change in (
        ("feature", lambda own: (own + 1) % N_FEATURES),
        ("threshold", lambda own: own + 1),
        ("missing_right", lambda own: ~own),
    ):
        part = np.array(getattr(made.trees, name))
        part[1, 1] = change(part[1, 1])
        trees = dataclasses.replace(made.trees, **{name: jnp.asarray(part)})
        assert _oblivious.levels_of(trees, made.values) is None, name
    assert _oblivious.levels_of(made.trees, jnp.zeros((2, made.trees.n_nodes, 33))) is None
    levels = _oblivious.levels_of(model((0, 1)).trees, model((0, 1)).values)
    assert levels is not None
    assert levels.rank[0, 0, 0] == 255, "no code is above"
