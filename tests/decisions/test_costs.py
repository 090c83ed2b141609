"""Sets of the highest expected utility, against all sets."""

from fractions import Fraction
from itertools import chain, combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.decisions import expected_utility_set
from tests._refusal import refusals


def in_a_program(probs, utility, **options) -> np.ndarray:
    """What eager calls, of many programs for each shape, would answer."""
    return np.asarray(jax.jit(lambda probs: expected_utility_set(probs, utility, **options))(probs))


def utility(size: int, kind: int) -> float:
    """Of a set of that size which holds the truth."""
    return {50: 1 / size, 65: 1.6 / size - 0.6 / size**2, 80: 2.2 / size - 1.2 / size**2}[kind]


@pytest.mark.parametrize("kind", [50, 65, 80])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.exhaustive(keep=5)
def test_no_set_is_better(kind, n_classes, rng):
    probs = rng.dirichlet(np.ones(n_classes), 60).astype(np.float32)
    found = in_a_program(probs, kind)
    sets = list(chain.from_iterable(combinations(range(n_classes), k) for k in range(1, n_classes + 1)))
    for p, members in zip(probs, found, strict=True):
        best = max(utility(len(s), kind) * p[list(s)].sum() for s in sets)
        assert utility(members.sum(), kind) * p[members].sum() == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("kind", [65, 80])
def test_a_matrix_of_the_same_utilities_says_the_same(kind, rng):
    probs = rng.dirichlet(np.ones(4), 50)
    sets = (np.arange(1, 16)[:, None] >> np.arange(4)) & 1 == 1
    matrix = np.where(sets, [[utility(s.sum(), kind)] for s in sets], 0.0)
    np.testing.assert_array_equal(in_a_program(probs, matrix), in_a_program(probs, kind))


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("signs", ["costs", "gains and costs", "few values"])
def test_no_set_is_better_whatever_the_signs(n_classes, signs, rng):
    """Sixteenths, so that sums are exact and ties are ties; costs have the least probable classes named."""
    low, high = {"costs": (-16, 0), "gains and costs": (-16, 17), "few values": (-1, 2)}[signs]
    probs = rng.multinomial(16, np.ones(n_classes) / n_classes, 50) / 16
    sets = [s for k in range(1, n_classes + 1) for s in combinations(range(n_classes), k)]
    listed = (np.arange(1, 2**n_classes)[:, None] >> np.arange(n_classes)) & 1 == 1
    for _ in range(5):
        gains, matrix = (rng.integers(low, high, shape) / 16 for shape in (n_classes, listed.shape))
        for p, by_size, of_all in zip(
            probs, *(np.asarray(expected_utility_set(probs, u)) for u in (gains, matrix)), strict=True
        ):
            share = [Fraction(float(one)) for one in p]
            worth = {s: Fraction(float(gains[len(s) - 1])) * sum(share[c] for c in s) for s in sets}
            best = max(worth.values())
            found = tuple(np.flatnonzero(by_size).tolist())
            assert worth[found] == best, (p, gains)
            assert len(found) == min(len(s) for s in sets if worth[s] == best), (p, gains)
            worths = [sum(q * Fraction(float(u)) for q, u in zip(share, row, strict=True)) for row in matrix]
            np.testing.assert_array_equal(of_all, listed[worths.index(max(worths))])


@pytest.mark.room
def test_ties_and_what_the_metric_measures(rng):
    """.1 + .2 - .3 is nothing, whatever rounding makes of it: of equal sets the first is taken. Half and half: both."""
    probs, sets = np.array([[0.1, 0.2, 0.7]], np.float32), np.eye(3, dtype=bool)
    matrix = np.array([[0, 0, 0], [3e4, 3e4, -9e4 / 7], [-1, -1, -1]])
    np.testing.assert_array_equal(in_a_program(probs, matrix, sets=sets), [[True, False, False]])
    probs = jnp.array([[0.5, 0.5], [0.66, 0.34], [1.0, 0.0]])
    np.testing.assert_array_equal(expected_utility_set(probs), [[True, True], [True, False], [True, False]])
    np.testing.assert_array_equal(expected_utility_set(probs, 50)[0], [True, False])
    for kind in (50, 65, 80):
        named, host = expected_utility_set(probs, f"u{kind}"), expected_utility_set(np.asarray(probs), kind)
        assert isinstance(named, jax.Array)
        assert isinstance(host, np.ndarray)
        np.testing.assert_array_equal(host, named)
    np.testing.assert_array_equal(jax.jit(expected_utility_set)(probs), expected_utility_set(probs))
    probs = rng.dirichlet(np.ones(3), 4000)
    y = np.array([rng.choice(3, p=p) for p in probs])
    reached = [float(ju.metrics.discounted_utility(in_a_program(probs, k), y, kind=65)) for k in (50, 65, 80)]
    assert np.argmax(reached) == 1


def choose(utility="u65", probs=(1 / 3, 1 / 3, 1 / 3), **options):
    return lambda: expected_utility_set(np.array([probs]), utility, **options)


test_refusals = refusals(
    ("a number", choose(70), "utility=70 is unknown"),
    ("a name", choose("u66"), "utility='u66' is unknown. Did you mean 'u65'"),
    ("sizes", choose(np.ones(2)), "a finite number for each size"),
    ("rows", choose(np.ones((3, 3))), "for each of 7 sets"),
    ("sets of a kind", choose(65, sets=np.eye(3, dtype=bool)), "belong to a matrix"),
    ("an empty set", choose(np.ones((1, 3)), sets=np.zeros((1, 3), bool)), "a class at least"),
    ("negative", choose(probs=(-0.5, 1.5)), "negative"),
)
