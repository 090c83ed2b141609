"""What is structure of a scorer with settings and what is a leaf: declared, not read from annotations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.scorers._declaration import reads_sizes, score_width
from jaxunc.scorers._settings import as_partial
from tests._refusal import refuses
from tests.scorers import _postponed

COUNTS = jnp.array([[[3, 1], [0, 4]], [[2, 2], [1, 8]]])


def annotated(counts, *, power: int, scale: float = 1.0, centred: bool = False):
    return _postponed.power_of_lead(counts, power=power, scale=scale, centred=centred)


def bare(counts, *, power, scale=1.0, centred=False):
    return _postponed.power_of_lead(counts, power=power, scale=scale, centred=centred)


OWN = [annotated, bare, _postponed.power_of_lead]


@pytest.mark.once
@pytest.mark.parametrize("function", OWN)
def test_annotations_say_nothing(function):
    rule = ju.Mean(Partial(function, power=3, scale=2.0, centred=True))
    assert jax.tree.leaves(rule) == [2.0]
    expected = 2 * np.mean(np.asarray(ju.scorers.probability(COUNTS)) ** 3, axis=-1) - 0.1
    np.testing.assert_allclose(rule.score(COUNTS), expected, rtol=1e-5)
    slope = jax.grad(lambda scale: jnp.sum(ju.Mean(Partial(function, power=3, scale=scale)).score(COUNTS)))(2.0)
    np.testing.assert_allclose(slope, np.sum((expected + 0.1) / 2), rtol=1e-5)


@pytest.mark.once
def test_arrays_are_leaves():
    for power in (jnp.asarray(3), np.array([3.0]), 3.0):
        assert len(jax.tree.leaves(as_partial(Partial(bare, power=power)))) == 1


@pytest.mark.once
def test_what_is_declared():
    scorer = Partial(_postponed.declared, steps=(1, 2), weight=2)
    rule = ju.Mean(scorer)
    assert jax.tree.leaves(rule) == [2]
    np.testing.assert_allclose(rule.score(COUNTS), 3 * ju.Mean().score(COUNTS), rtol=1e-6)
    assert score_width(rule.scorer) == 4
    assert rule.reads_sizes
    assert reads_sizes(functools.partial(scorer, weight=1.0))
    again = ju.Mean(rule.scorer)
    assert jax.tree.structure(again) == jax.tree.structure(rule)


@pytest.mark.once
def test_the_librarys_own():
    grid = as_partial(Partial(ju.scorers.plausibility, method="grid", grid_size=101))
    assert jax.tree.leaves(grid) == []
    assert jax.tree.leaves(as_partial(Partial(ju.scorers.confidence_bounds, weighted=False))) == []
    assert jax.tree.leaves(as_partial(Partial(ju.scorers.m_estimate, m=2, prior=0.5))) == [2, 0.5]
    assert jax.tree.leaves(as_partial(Partial(ju.scorers.ucb, n_samples=100))) == [100]


@pytest.mark.once
def test_what_cannot_be_declared():
    with refuses(TypeError, "static='steps' is a word"):
        ju.scorers.scorer(static="steps")
    with refuses(TypeError, r"steps=\[1, 2\] is a static setting of the scorer, but has no hash"):
        ju.Mean(Partial(_postponed.declared, steps=[1, 2], weight=1.0))
