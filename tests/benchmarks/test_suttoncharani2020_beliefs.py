"""Belief functions of leaves, distances, and bounds of log loss and AUC: reference values, definitions, and by hand."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.suttoncharani2020.beliefs import (
    interval_auc,
    interval_log_loss,
    jousselme_distance,
    predictive_mass,
)
from jaxunc import belief, metrics
from jaxunc.scorers import Interval
from jaxunc.smoothing import BetaPrior
from tests._golden import golden
from tests.belief._powerset import as_sets, random_masses
from tests.smoothing.test_fit_prior import GOLDEN_NAMES, leaves

pytestmark = pytest.mark.once


def test_masses_of_the_reference():
    for entry in golden("empirical_bayes"):
        for fit in (entry[name] for name in GOLDEN_NAMES.values() if entry[name]):
            mass = predictive_mass(leaves(entry), BetaPrior(fit["alpha"], fit["beta"], 0))
            for column, key in enumerate(("mass_0", "mass_1", "mass_omega"), start=1):
                expected = [leaf[key] for leaf in fit["leaves"]]
                np.testing.assert_allclose(mass[:, column], expected, rtol=1e-12, atol=1e-15)
    empty = predictive_mass(np.zeros((1, 2)), BetaPrior(3.0, 1.0, 0))
    np.testing.assert_array_equal(empty, [[0, 0, 0, 1]])


def test_bounds_of_the_reference():
    for entry in golden("interval_metrics")["per_instance"]:
        interval, y = Interval(np.array(entry["lower"], float), np.array(entry["upper"], float)), np.array(entry["y"])
        expected = [float(entry[f"log_loss_{end}_clip1e_15"]) for end in ("min", "max")]
        np.testing.assert_allclose(interval_log_loss(interval, y, clip=1e-15), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(interval_auc(interval, y), [entry["auc_min"], entry["auc_max"]], rtol=1e-6)
        published = sorted(entry[f"published_auc_of_{end}"] for end in ("lower", "upper"))
        np.testing.assert_allclose(interval_auc(interval, y, method="published"), published, rtol=1e-6)


def test_no_choice_is_beyond_the_bounds(rng):
    lower, upper = np.sort(rng.integers(0, 9, (2, 40)) / 8, axis=0)
    p, y = rng.uniform(lower, upper), rng.integers(0, 2, 40)
    low, high = interval_auc(Interval(lower, upper), y)
    assert low <= metrics.auc(p, y) <= high
    low, high = interval_log_loss(Interval(lower, upper), y, clip=1e-15)
    assert low <= metrics.log_loss(np.stack([1 - p, p], axis=1), y) <= high


def _square(first, second) -> Fraction:
    """½ (m - m')ᵀ D (m - m') over all subsets, exactly."""
    first, second = as_sets(first), as_sets(second)
    apart = {a: Fraction(first[a]) - Fraction(second[a]) for a in first}

    def overlap(a, b):
        return Fraction(len(a & b), len(a | b)) if a | b else Fraction(1)

    return sum((overlap(a, b) * apart[a] * apart[b] for a, b in itertools.product(apart, apart)), Fraction(0)) / 2


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_distances_by_the_definition(n_classes, rng):
    first, second = random_masses(rng, (2, 12), n_classes)
    expected = [float(_square(a, b)) ** 0.5 for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(jousselme_distance(first, second), expected, rtol=1e-10)


def test_squared_distance_to_the_class_that_came(rng):
    """For two classes: the Brier score of the pignistic probability, and a quarter of the squared ignorance."""
    counts, y = rng.integers(0, 30, (40, 2)), rng.integers(0, 2, 40)
    masses = predictive_mass(counts, BetaPrior(1.5, 2.5, 0))
    square = jousselme_distance(masses, np.eye(4)[1 + y]) ** 2
    p, ignorance = np.asarray(belief.pignistic(masses), float)[:, 1], masses[:, 3]
    np.testing.assert_allclose(square, (p - y) ** 2 + ignorance**2 / 4, atol=1e-6)
