"""What is structure of a scorer with settings and what is a leaf: declared, not read from annotations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.combiners import combiner_by_name
from jaxunc.scorers import as_partial, reads_sizes, score_width
from tests._compilations import compilations
from tests._refusal import refuses
from tests.scorers import _postponed

pytestmark = pytest.mark.once

COUNTS = jnp.array([[[3, 1], [0, 4]], [[2, 2], [1, 8]]])


def annotated(counts, *, power: int, scale: float = 1.0, centred: bool = False):
    return _postponed.power_of_lead(counts, power=power, scale=scale, centred=centred)


def bare(counts, *, power, scale=1.0, centred=False):
    return _postponed.power_of_lead(counts, power=power, scale=scale, centred=centred)


OWN = [annotated, bare, _postponed.power_of_lead]


@pytest.mark.parametrize("function", OWN)
@pytest.mark.exhaustive
def test_annotations_say_nothing(function):
    rule = ju.Mean(Partial(function, power=3, scale=2.0, centred=True))
    assert jax.tree.leaves(rule) == [2.0]
    expected = 2 * np.mean(np.asarray(ju.scorers.probability(COUNTS)) ** 3, axis=-1) - 0.1
    np.testing.assert_allclose(rule.score(COUNTS), expected, rtol=1e-5)
    slope = jax.grad(lambda scale: jnp.sum(ju.Mean(Partial(function, power=3, scale=scale)).score(COUNTS)))(2.0)
    np.testing.assert_allclose(slope, np.sum((expected + 0.1) / 2), rtol=1e-5)


def test_which_settings_are_leaves():
    for power in (jnp.asarray(3), np.array([3.0]), 3.0):
        assert len(jax.tree.leaves(as_partial(Partial(bare, power=power)))) == 1
    grid = as_partial(Partial(ju.scorers.plausibility, method="grid", grid_size=101))
    assert jax.tree.leaves(grid) == []
    assert jax.tree.leaves(as_partial(Partial(ju.scorers.confidence_bounds, weighted=False))) == []
    assert jax.tree.leaves(as_partial(Partial(ju.scorers.m_estimate, m=2, prior=0.5))) == [2, 0.5]
    assert jax.tree.leaves(as_partial(Partial(ju.scorers.ucb, n_samples=100))) == [100]


def test_what_is_declared():
    scorer = Partial(_postponed.declared, steps=(1, 2), weight=2)
    rule = ju.Mean(scorer)
    assert jax.tree.leaves(rule) == [2]
    np.testing.assert_allclose(rule.score(COUNTS), 3 * ju.Mean().score(COUNTS), rtol=1e-6)
    assert score_width(rule.scorer) == 4
    assert rule.reads_sizes
    assert reads_sizes(partial(scorer, weight=1.0))
    again = ju.Mean(rule.scorer)
    assert jax.tree.structure(again) == jax.tree.structure(rule)


def test_widths():
    """What makes a probability of a score: the width of its range, also through settings."""
    bounds, signed = ju.scorers.confidence_bounds, partial(ju.scorers.confidence_bounds, weighted=False)
    m_estimate, ucb = Partial(ju.scorers.m_estimate, m=2.0, prior=0.5), Partial(ju.scorers.ucb, n_samples=5)
    ones = (ju.scorers.probability, ju.scorers.laplace, m_estimate, bounds, partial(bounds, family="beta"))
    for width, scorers in (
        (1, (*ones, partial(signed, weighted=True))),
        (2, (ju.scorers.plausibility, Partial(ju.scorers.plausibility), Partial(signed))),
        (np.inf, (ju.scorers.linear, ucb)),
    ):
        assert {score_width(scorer) for scorer in scorers} == {width}


@ju.scorers.scorer(width=lambda scale=1.0, **_: scale)
def scaled(counts, *, scale):
    return scale * ju.scorers.probability(counts)


def test_widths_of_settings_that_are_leaves():
    """Traced in the combiner's program: the probability does not depend on the scale."""
    rule = ju.Mean(Partial(scaled, scale=3.0))
    for counts in (np.array([[3, 1], [0, 4]]), np.array([[3, 1, 2], [0, 4, 1]])):
        shares = counts / counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(rule.probability(counts), shares.mean(axis=0), rtol=1e-6)
    assert (score_width(rule.scorer), score_width(Partial(scaled, scale=np.inf))) == (3, np.inf)


def test_arrays_of_the_host_are_copied():
    given = [np.array([0.25, 0.75]), np.array(2.0)]
    rule = ju.Mean(partial(bare, *given[:1], scale={"all": given}))
    for array in given:
        array[...] = 0
    assert [np.max(leaf) for leaf in jax.tree.leaves(rule)] == [0.75, 0.75, 2.0]


def test_what_cannot_be_declared():
    refuses(TypeError, "static='steps' is a word", ju.scorers.scorer, static="steps")
    with refuses(TypeError, r"steps=\[1, 2\] is a static setting of the scorer, but has no hash"):
        ju.Mean(Partial(_postponed.declared, steps=[1, 2], weight=1.0))


FRESH = {
    "m-estimate": lambda m: partial(ju.scorers.m_estimate, m=m, prior=0.5),
    "nested": lambda m: Partial(partial(ju.scorers.m_estimate, prior=0.3), m=m),
    "outer": lambda m: partial(Partial(ju.scorers.m_estimate, m=9.0), m=m, prior=0.5),
    "bounds": lambda m: partial(ju.scorers.confidence_bounds, family="beta", weighted=m < 0),
    "own": lambda m: partial(bare, power=2, scale=m / 50, centred=True),
    "by place": lambda m: partial(lambda_like, m / 50),
}


def lambda_like(scale, counts):
    return scale * ju.scorers.probability(counts)


@pytest.mark.parametrize("name", FRESH)
@pytest.mark.exhaustive
def test_fresh_partials_of_python_are_one_program(name):
    X, forest = np.arange(40.0, dtype=np.float32)[:, None], _forest()
    answers = lambda m: np.asarray(ju.bind(forest, ju.Mean(FRESH[name](m))).score(X))
    first = answers(1.0)
    with compilations() as compiled:
        rest = [answers(1.0 + i) for i in range(1, 50)]
    assert not compiled
    plain = ju.bind(forest, ju.Mean(lambda counts: FRESH[name](50.0)(counts)))
    np.testing.assert_allclose(rest[-1], plain.score(X), rtol=1e-6)
    assert name == "bounds" or not np.allclose(rest[-1], first)


def _forest():
    X, y = np.arange(40.0)[:, None], np.arange(40) // 3 % 2
    return ju.from_sklearn(DecisionTreeClassifier(min_samples_leaf=4, random_state=0).fit(X, y))


by_name = lambda scorer: combiner_by_name("median", {"scorer": scorer}, prior=None)


@pytest.mark.parametrize("make", [ju.Mean, ju.Median, ju.Maximum, ju.GeneralizedMixture, by_name])
@pytest.mark.exhaustive(keep=1)
def test_partials_of_python_are_taken_everywhere(make, tmp_path):
    ours, meant = (make(of(ju.scorers.m_estimate, m=2, prior=0.5)) for of in (partial, Partial))
    assert jax.tree.structure(ours) == jax.tree.structure(meant)
    assert jax.tree.leaves(ours) == [2.0, 0.5]
    slope = jax.grad(lambda rule: jnp.sum(rule.score(COUNTS)), allow_int=True)(ours)
    assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(slope))
    ju.save(tmp_path / "rule.npz", ours)
    again = ju.load(tmp_path / "rule.npz")
    assert jax.tree.structure(again) == jax.tree.structure(ours)
    np.testing.assert_array_equal(again.score(COUNTS), ours.score(COUNTS))


def test_settings_that_are_no_numbers():
    def shifted(counts, *, by, table):
        return by(ju.scorers.probability(counts)) + table["one"]

    rule = ju.Mean(partial(shifted, by=jnp.negative, table={"one": 0.5}))
    assert jax.tree.leaves(rule) == [0.5]
    np.testing.assert_allclose(rule.score(COUNTS), 0.5 - ju.Mean().score(COUNTS), rtol=1e-6)
    word = ju.Mean(partial(lambda word, counts: ju.scorers.probability(counts), "beta"))
    np.testing.assert_allclose(word.score(COUNTS), ju.Mean().score(COUNTS))
    refuses(TypeError, r"names=\['a'\] is a static setting", ju.Mean, partial(shifted, names=["a"]))
