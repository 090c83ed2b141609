"""Metrics of set-valued predictions."""

import warnings
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc.metrics import accuracy, determinacy, discounted_utility, set_size, single_set_accuracy
from tests._golden import golden
from tests._refusal import refusals

ALL = (
    *(lambda sets, y, kind=kind: discounted_utility(sets, y, kind=kind) for kind in (50, 65, 80)),
    *(determinacy, single_set_accuracy, set_size),
    lambda sets, y: set_size(sets, y, indeterminate_only=True),
)
N, C = 12, 6
"""Instances and classes of all tests, which so share their programs."""


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
    for entry in golden("idm")["utilities"]:
        sets = np.tile(np.arange(C) < entry["set_size"], (N, 1))
        y = np.full(N, 0 if entry["correct"] else C - 1)
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
    scores, y = rng.normal(size=(N, C)), rng.integers(0, C, N)
    sets = np.eye(C, dtype=bool)[scores.argmax(axis=1)]
    for metric in (*ALL[:3], single_set_accuracy):
        np.testing.assert_allclose(metric(sets, y), accuracy(scores, y), rtol=1e-6)
    assert float(determinacy(sets)) == float(set_size(sets)) == 1
    assert np.isnan(set_size(sets, indeterminate_only=True))
    assert np.isnan(single_set_accuracy(np.ones((N, C), bool), np.zeros(N, int)))
    sets = np.tile(np.array([[True, True, True, False]]), (10**6, 1))
    np.testing.assert_allclose(discounted_utility(sets, np.zeros(10**6, int), kind=50), 1 / 3, rtol=2e-7)
    assert set_size(sets) == 3


@jax.jit
def all_of(sets, y):
    return [metric(sets, y) for metric in ALL]


READS_LABELS = [metric not in (determinacy, set_size, ALL[-1]) for metric in ALL]


@pytest.mark.once
def test_under_a_trace_what_cannot_be_refused_is_nan(rng):
    sets, y = rng.random((N, C)) < 0.5, rng.integers(0, C, N)
    sets[:, 0] = True
    sets[0] = np.eye(C, dtype=bool)[1]
    np.testing.assert_allclose(all_of(sets, y), [metric(sets, y) for metric in ALL], rtol=1e-6)
    empty = sets.copy()
    empty[3] = False
    assert np.isnan(all_of(empty, y)).all()
    np.testing.assert_array_equal(np.isnan(all_of(sets, np.where(np.arange(N) == 2, C, y))), READS_LABELS)


SETS, Y = np.ones((3, 2), bool), np.array([0, 1, 1])
REFUSED = {
    "an empty set": (np.array([[1, 1], [0, 0], [1, 0]]) > 0, Y, "1 empty sets .the first in row 1"),
    "numbers": (np.ones((3, 2)), Y, "expected booleans", TypeError),
    "one axis": (np.ones(3, bool), Y, "membership has shape"),
    "nothing": (np.ones((0, 2), bool), np.zeros(0, int), "is empty"),
}
OF_LABELS = {
    "label beyond": (SETS, np.array([0, 2, 1]), "y holds 2, but class indices"),
    "fewer labels": (SETS, Y[:2], "y has shape"),
    "fractions": (SETS, Y.astype(float), "class indices, integer or bool", TypeError),
}


test_refusals = pytest.mark.once(
    refusals(
        *(
            (f"{number}, {what}", partial(metric, sets, y), *words)
            for number, (metric, reads_labels) in enumerate(zip(ALL, READS_LABELS, strict=True))
            for what, (sets, y, *words) in (REFUSED | (OF_LABELS if reads_labels else {})).items()
        ),
        ("kind", lambda: discounted_utility(SETS, Y, kind=70), "kind=70 is unknown. Choose one of 50, 65, 80"),
    )
)
