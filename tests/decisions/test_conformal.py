"""Conformal sets against a plain loop, and their promise against the exact distribution of ranks."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc.decisions import conformal_sets
from tests._refusal import refusals, refuses


def by_hand(p, calibration, labels, coverage, by_class) -> np.ndarray:
    """A class is in if it leads, or if fewer than k rows are surer of their own; those whose own leads are surest."""
    sets = np.zeros(p.shape, bool)
    for i, row in enumerate(p):
        for c, share in enumerate(row):
            rows = [j for j, y in enumerate(labels) if not by_class or y == c]
            own = [1.0 if np.argmax(calibration[j]) == labels[j] else calibration[j, labels[j]] for j in rows]
            surer = sum(one > share for one in own)
            sets[i, c] = surer < math.ceil(round((len(own) + 1) * coverage, 9))
        sets[i, np.argmax(row)] = True
    return sets


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_they_are_those_of_a_plain_loop(by_class, coverage, rng):
    """Tenths, so that many are equal."""
    draw = lambda n: rng.multinomial(10, np.ones(3) / 3, n) / 10
    for _ in range(5):
        p, own, labels = draw(40), draw(60), rng.integers(0, 3, 60)
        found = conformal_sets(p, own, labels, coverage=coverage, by_class=by_class)
        np.testing.assert_array_equal(found, by_hand(p, own, labels, coverage, by_class))


@pytest.mark.parametrize("n", [9, 10, 19, 37])
def test_the_rank_is_the_finite_sample_one(n, rng):
    """Of n + 1 exchangeable rows the last one is kept with a probability of k/(n + 1) exactly: each in its turn."""
    for coverage in (0.5, 0.7, 0.9):
        own = rng.permutation(n + 1) / (4 * n)  # distinct, below one half: the other class is the most probable one
        p, kept = np.stack([own, 1 - own], axis=1), 0
        for i in range(n + 1):
            kept += conformal_sets(p[i], np.delete(p, i, axis=0), np.zeros(n, int), coverage=coverage)[0]
        assert kept == math.ceil(round((n + 1) * coverage, 9))


def held(probability_of_1, coverage, n, rng, dtype=float, own=float):
    """How often sets of a hundred rows hold the truth, by the other rows; each has the most probable class."""
    truth = rng.integers(0, 2, n)
    p1 = probability_of_1(truth)
    p, rows = np.stack([1 - p1, p1], axis=1), np.arange(100)
    sets = conformal_sets(p[:100].astype(dtype), p[100:].astype(own), truth[100:], coverage=coverage)
    assert sets[rows, p[:100].astype(dtype).argmax(axis=1)].all()
    return sets[rows, truth[:100]].mean()


def test_ties_keep_the_promise(rng):
    """Forest probabilities have few values: coverage is kept on each class of the draws."""
    draw = lambda truth: np.clip(np.round(truth * 0.3 + 0.35 + 0.2 * rng.normal(size=130), 1), 0, 1)
    assert 0.8 <= np.mean([held(draw, 0.8, 130, rng) for _ in range(200)]) < 0.9


@pytest.mark.once
@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32), (np.float64, np.float64)])
def test_probabilities_that_tie_in_one_precision_alone(kinds, rng):
    draw = lambda truth: 0.5 + 1e-9 * rng.integers(-3, 4, 119) * (2 * truth - 1)
    assert np.mean([held(draw, 0.9, 119, rng, *kinds) for _ in range(40)]) >= 0.9


def test_shapes_kinds_and_transformations(rng):
    p, own, labels = rng.dirichlet(np.ones(3), (2, 4)), rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 50)
    host, device = conformal_sets(p, own, labels), conformal_sets(jnp.asarray(p), own, labels)
    assert isinstance(host, np.ndarray)
    assert isinstance(device, jax.Array)
    assert host.shape == p.shape
    np.testing.assert_array_equal(host, device)
    np.testing.assert_array_equal(jax.jit(lambda p: conformal_sets(p, own, labels))(jnp.asarray(p)), device)
    assert conformal_sets(np.zeros((0, 3)), own, labels).shape == (0, 3)
    assert host.any(axis=-1).all()


EVEN, OWN, ROWS = np.full((1, 2), 0.5), np.random.default_rng(0).dirichlet([1, 1], 20), np.arange(20) % 2


def sets(p=EVEN, calibration=OWN, labels=ROWS, **settings):
    return lambda: conformal_sets(p, calibration, labels, **settings)


test_refusals = refusals(
    ("coverage 1", sets(coverage=1.0), r"coverage=1.0 must lie in \(0, 1\): how often"),
    ("few", sets(coverage=0.99), "coverage=0.99 needs 99 calibration rows, and there are 20; pass more of them, or"),
    ("few of a class", sets(coverage=0.95, by_class=True), "needs 19 .* of class 0, and there are 10.*by_class=False"),
    ("classes", sets(calibration=np.ones((20, 3))), r"calibration has shape \(20, 3\), for 20 labels and 2 classes"),
    ("axes", sets(calibration=OWN[:, 0]), r"calibration has shape \(20,\).*probabilities of shape \(20, 2\)"),
    ("shares", sets(calibration=OWN * 2), r"calibration holds values outside \[0, 1\]"),
    ("labels", sets(labels=ROWS + 1), "labels holds 1 to 2; positions are 0 to 1"),
    ("positions", sets(labels=ROWS * 1.0), "labels has shape .* pass positions of classes"),
    ("sum", sets(p=np.array([[0.5, 0.6]])), "p has rows that do not add to 1"),
)


def test_traced_sets_are_ranked_in_the_coarser_precision_too(rng):
    calibration, labels = rng.dirichlet([1, 1], 50).astype(np.float16), rng.integers(0, 2, 50)
    p = rng.dirichlet([1, 1], 200).astype(np.float32)
    p[:50] = calibration[:50]  # ties
    sets = lambda p: conformal_sets(p, calibration, labels, coverage=0.78)
    np.testing.assert_array_equal(jax.jit(sets)(p), sets(p))


def test_bfloat16_is_the_coarser_precision():
    """0.45 is rounded down, and stays equal to the calibration's."""
    rows = np.full((20, 2), [0.45, 0.55], np.float32)
    assert conformal_sets(rows[:1].astype(jnp.bfloat16), rows, ROWS).all()


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_rows_in_half_precision_add_to_one_within_it(dtype, rng):
    p, labels = rng.dirichlet(np.ones(10), 200).astype(dtype), rng.integers(0, 10, 200)
    sets = conformal_sets(p, p, labels)
    np.testing.assert_array_equal(sets, conformal_sets(p.astype(float) / p.sum(1, dtype=float)[:, None], p, labels))
    refuses(ValueError, "p has rows that do not add to 1", conformal_sets, p / 2, p, labels)
