"""Sets of the highest expected utility, against all sets."""

from itertools import chain, combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.decisions import expected_utility_set
from tests._refusal import refuses


def utility(size: int, kind: int) -> float:
    """Of a set of that size which holds the truth."""
    return {50: 1 / size, 65: 1.6 / size - 0.6 / size**2, 80: 2.2 / size - 1.2 / size**2}[kind]


@pytest.mark.parametrize("kind", [50, 65, 80])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.exhaustive(keep=2)
def test_no_set_is_better(kind, n_classes, rng):
    probs = rng.dirichlet(np.ones(n_classes), 60).astype(np.float32)
    found = np.asarray(expected_utility_set(probs, kind))
    sets = list(chain.from_iterable(combinations(range(n_classes), k) for k in range(1, n_classes + 1)))
    for p, members in zip(probs, found, strict=True):
        best = max(utility(len(s), kind) * p[list(s)].sum() for s in sets)
        assert utility(members.sum(), kind) * p[members].sum() == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("kind", [65, 80])
def test_a_matrix_of_the_same_utilities_says_the_same(kind, rng):
    probs = rng.dirichlet(np.ones(4), 50)
    sets = (np.arange(1, 16)[:, None] >> np.arange(4)) & 1 == 1
    matrix = np.where(sets, [[utility(s.sum(), kind)] for s in sets], 0.0)
    np.testing.assert_array_equal(expected_utility_set(probs, matrix), expected_utility_set(probs, kind))


def test_half_and_half():
    probs = jnp.array([[0.5, 0.5], [0.66, 0.34], [1.0, 0.0]])
    np.testing.assert_array_equal(expected_utility_set(probs), [[True, True], [True, False], [True, False]])
    np.testing.assert_array_equal(expected_utility_set(probs, 50)[0], [True, False])
    np.testing.assert_array_equal(jax.jit(expected_utility_set)(probs), expected_utility_set(probs))


def test_it_is_what_the_metric_measures(rng):
    probs = rng.dirichlet(np.ones(3), 4000)
    y = np.array([rng.choice(3, p=p) for p in probs])
    reached = [float(ju.metrics.discounted_utility(expected_utility_set(probs, k), y, kind=65)) for k in (50, 65, 80)]
    assert np.argmax(reached) == 1


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"utility": 70}, "utility=70 is unknown"),
        ({"utility": np.ones(2)}, "a finite number for each size"),
        ({"utility": np.ones((3, 3))}, "for each of 7 sets"),
        ({"utility": 65, "sets": np.eye(3, dtype=bool)}, "belong to a matrix"),
        ({"utility": np.ones((1, 3)), "sets": np.zeros((1, 3), bool)}, "a class at least"),
    ],
)
def test_bad_utilities(arguments, match):
    with refuses(ValueError, match):
        expected_utility_set(np.full((1, 3), 1 / 3), **arguments)
    with refuses(ValueError, "negative"):
        expected_utility_set(np.array([[-0.5, 1.5]]))
