"""Metrics of set-valued predictions."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc.metrics import accuracy, determinacy, discounted_utility, set_size, single_set_accuracy
from tests._golden import golden
from tests._refusal import refuses

ALL = (
    *(lambda sets, y, kind=kind: discounted_utility(sets, y, kind=kind) for kind in (50, 65, 80)),
    *(determinacy, single_set_accuracy, set_size),
    lambda sets, y: set_size(sets, y, indeterminate_only=True),
)
N, C = 12, 4


def by_loops(sets, y) -> list[float]:
    """All of them, in their order, straight from the definitions."""
    hit = [1 / own.sum() if own[label] else 0.0 for own, label in zip(sets, y, strict=True)]
    sizes = [int(own.sum()) for own in sets]
    single, several = [i for i, size in enumerate(sizes) if size == 1], [size for size in sizes if size > 1]
    return [
        np.mean(hit),
        np.mean([1.6 * x - 0.6 * x * x for x in hit]),
        np.mean([2.2 * x - 1.2 * x * x for x in hit]),
        len(single) / len(sizes),
        np.mean([bool(sets[i][y[i]]) for i in single]) if single else np.nan,
        np.mean(sizes),
        np.mean(several) if several else np.nan,
    ]


def test_golden(tolerance):
    entries = golden("idm")["utilities"]
    n_classes = max(entry["set_size"] for entry in entries) + 1
    for entry in entries:
        size = entry["set_size"]
        sets = jnp.asarray([[True] * size + [False] * (n_classes - size)])
        y = jnp.array([0 if entry["correct"] else sets.shape[1] - 1])
        for kind in (50, 65, 80):
            tolerance.check(discounted_utility(sets, y, kind=kind), entry[f"u{kind}"])


@given(hnp.arrays(bool, (N, C)), hnp.arrays(np.int64, N, elements=st.integers(0, C - 1)))
def test_against_loops(sets, y):
    sets[~sets.any(axis=1)] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = by_loops(sets, y)
    found = [float(metric(sets, y)) for metric in ALL]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_single_classes_and_a_million_sets(rng):
    """Single ones are worth their accuracy. Sums keep their digits: a third has none that float32 could add a million
    times."""
    scores, y = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    sets = np.eye(3, dtype=bool)[scores.argmax(axis=1)]
    for metric in (*ALL[:3], single_set_accuracy):
        np.testing.assert_allclose(metric(sets, y), accuracy(scores, y), rtol=1e-6)
    assert determinacy(sets) == set_size(sets) == 1
    assert np.isnan(set_size(sets, indeterminate_only=True))
    assert np.isnan(single_set_accuracy(np.ones((4, 3), bool), np.zeros(4, int)))
    sets = np.tile(np.array([[True, True, True, False]]), (10**6, 1))
    np.testing.assert_allclose(discounted_utility(sets, np.zeros(10**6, int), kind=50), 1 / 3, rtol=2e-7)
    assert set_size(sets) == 3


@pytest.mark.once
@pytest.mark.parametrize("metric", ALL)
def test_under_a_trace_what_cannot_be_refused_is_nan(metric, rng):
    sets, y = rng.random((N, C)) < 0.5, rng.integers(0, C, N)
    sets[:, 0] = True
    sets[0] = np.eye(C, dtype=bool)[1]
    compiled = jax.jit(metric)
    np.testing.assert_array_equal(compiled(sets, y), metric(sets, y))
    empty = sets.copy()
    empty[3] = False
    assert np.isnan(compiled(empty, y))
    if metric not in (determinacy, set_size, ALL[-1]):
        assert np.isnan(compiled(sets, np.where(np.arange(N) == 2, C, y)))


SETS, Y = np.ones((3, 2), bool), np.array([0, 1, 1])
REFUSED = [
    (ValueError, "1 empty sets .the first in row 1", np.array([[True, True], [False, False], [True, False]]), Y),
    (TypeError, "expected booleans", np.ones((3, 2)), Y),
    (ValueError, "membership has shape", np.ones(3, bool), Y),
    (ValueError, "is empty", np.ones((0, 2), bool), np.zeros(0, int)),
]
OF_LABELS = [
    (ValueError, "y holds 2, but class indices", SETS, np.array([0, 2, 1])),
    (ValueError, "y has shape", SETS, Y[:2]),
    (TypeError, "class indices, integer or bool", SETS, Y.astype(float)),
]


@pytest.mark.once
@pytest.mark.parametrize("metric", ALL)
def test_what_is_refused(metric):
    reads_labels = metric not in (determinacy, set_size, ALL[-1])
    for error, match, sets, y in [*REFUSED, *OF_LABELS * reads_labels]:
        with refuses(error, match):
            metric(sets, y)
    with refuses(ValueError, "kind=70 is unknown. Choose one of 50, 65, 80"):
        discounted_utility(SETS, Y, kind=70)
