"""Ranks and tests: values of SciPy, of Demšar's paper and by hand; what must hold for any values; refusals."""

from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import compare
from jaxunc.compare._significance import corrected_t_test, significant_difference
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once

PRINTED = """.763 .768 .771 .798  .599 .591 .590 .569  .954 .971 .968 .967  .628 .661 .654 .657  .882 .888 .886 .898
.936 .931 .916 .931  .661 .668 .609 .685  .583 .583 .563 .625  .775 .838 .866 .875  1 1 1 1  .940 .962 .965 .962
.619 .666 .614 .669  .972 .981 .976 .975  .957 .978 .946 .970"""
AREAS = np.array(PRINTED.split(), float).reshape(14, 4)
"""Areas under the curve of four variants of C4.5 on 14 data sets: Demšar 2006, table 6. (On "voting" the third is
printed as .975 with the rank 2: it was larger before rounding.)"""

corrected_t = partial(compare.pairwise_corrected_t, larger_is_better=True, test_share=0.1)
of_splits = partial(compare.corrected_t_test, test_share=0.1)
tables = hnp.arrays(np.float64, (7, 4), elements=st.integers(0, 5).map(lambda i: i / 10))


def test_ranks_of_the_paper():
    average = compare.average_ranks(AREAS, larger_is_better=True)
    np.testing.assert_allclose(average, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert compare.ranks(AREAS, larger_is_better=True)[5].tolist() == [1, 2.5, 4, 2.5]


def test_ties_and_no_variance():
    noisy = np.array([[0.3, 0.1 + 0.2], [977 / 1024 - 1e-17, 977 / 1024 + 1e-16], [0.5, 0.5 + 2e-9]])
    assert compare.ranks(noisy, larger_is_better=False).tolist() == [[1.5, 1.5], [1.5, 1.5], [1, 2]]
    assert compare.ranks(noisy, larger_is_better=False, decimals=8)[2].tolist() == [1.5, 1.5]
    differences = np.array([[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [-0.1, -0.1, -0.1]])
    result = compare.corrected_t_test(differences, test_share=0.1)
    assert result.statistic.tolist() == [0, np.inf, -np.inf]
    assert result.p_value.tolist() == [1, 0, 0]
    values = np.array([[0.3, 0.1 + 0.2, 0.5], [0.4, 0.4, 0.6], [0.1, 0.1, 0.3]])
    tests = corrected_t(values)
    assert tests.p_values[0, 1] == 1
    assert tests.wins.tolist() == [[0, 0, 0], [0, 0, 0], [3, 3, 0]]


@given(tables, st.booleans())
def test_ranks_of_scipy(values, larger_is_better):
    ranks = compare.ranks(values, larger_is_better=larger_is_better)
    expected = scipy.stats.rankdata(np.rint(10 * values) * (-1 if larger_is_better else 1), axis=1)
    np.testing.assert_array_equal(ranks, expected)
    np.testing.assert_array_equal(compare.average_ranks(values, larger_is_better=larger_is_better), ranks.mean(0))


def test_corrected_t_by_hand_and_of_scipy(rng):
    """Mean 2, variance 2.5, and 1/5 + 1/4 = 9/20: t = 2 / √1.125. With hardly anything tested on, the plain t-test."""
    result = compare.corrected_t_test(np.array([0, 1, 2, 3, 4]), test_share=0.2)
    assert result.statistic == pytest.approx(2 / 1.125**0.5)
    assert result.p_value == pytest.approx(2 * scipy.stats.t.sf(2 / 1.125**0.5, 4))
    differences = rng.normal(0.5, size=(2, 3, 20))
    result = compare.corrected_t_test(differences, test_share=1e-12)
    expected = scipy.stats.ttest_1samp(differences, 0, axis=-1)
    np.testing.assert_allclose(result.statistic, expected.statistic, rtol=1e-9)
    np.testing.assert_allclose(result.p_value, expected.pvalue, rtol=1e-9)
    cautious = compare.corrected_t_test(differences, test_share=0.1)
    np.testing.assert_allclose(cautious.statistic, result.statistic / (1 + 20 / 9) ** 0.5)


def test_pairwise_properties(rng):
    values = rng.normal(size=(9, 4)) + np.arange(4) / 2
    tests = corrected_t(values)
    np.testing.assert_array_equal(tests.p_values, tests.p_values.T)
    np.testing.assert_array_equal(np.diag(tests.p_values), 1)
    np.testing.assert_array_equal(tests.wins + tests.wins.T, 9 * (1 - np.eye(4, dtype=int)))
    order = np.array([2, 0, 3, 1])
    permuted = corrected_t(values[:, order])
    np.testing.assert_allclose(permuted.p_values, tests.p_values[np.ix_(order, order)], rtol=1e-12)
    np.testing.assert_array_equal(permuted.wins, tests.wins[np.ix_(order, order)])
    # The family is the six pairs, each once.
    upper = np.triu_indices(4, 1)
    plain = [of_splits(values[:, i] - values[:, j]).p_value for i, j in zip(*upper, strict=True)]
    np.testing.assert_allclose(tests.p_values[upper], compare.holm(np.array(plain)), rtol=1e-9)


def test_direction():
    test = partial(compare.pairwise_corrected_t, test_share=0.5)
    up, down = (test(np.array([[0.1, 0.2], [0.3, 0.5], [0.6, 0.4]]), larger_is_better=one) for one in (True, False))
    assert up.wins.tolist() == [[0, 1], [2, 0]]
    np.testing.assert_array_equal(up.wins, down.wins.T)
    np.testing.assert_array_equal(up.p_values, down.p_values)


def test_holm_by_hand():
    p_values = np.array([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(compare.holm(p_values), [0.03, 0.06, 0.06, 0.02])
    assert compare.holm(np.zeros(0)).shape == (0,)


@given(hnp.arrays(np.float64, 6, elements=st.floats(0, 1)), st.permutations(range(6)))
def test_holm_properties(p_values, order):
    holm, bonferroni = compare.holm(p_values), np.minimum(6 * p_values, 1)
    assert np.all(p_values <= holm)
    assert np.all(holm <= bonferroni)
    assert np.all(bonferroni <= 1)
    assert np.all(np.diff(holm[np.argsort(p_values)]) >= 0)
    np.testing.assert_array_equal(compare.holm(p_values[order]), holm[order])


OF_VALUES = {
    "ranks": partial(compare.ranks, larger_is_better=True),
    "average_ranks": partial(compare.average_ranks, larger_is_better=True),
    "pairwise_corrected_t": corrected_t,
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_values_that_are_refused(name):
    test, values = OF_VALUES[name], np.arange(6.0).reshape(3, 2)
    too_few = ((1, 6), (6, 1)) * (not name.endswith("ranks"))
    for shape in (*too_few, (6,), (1, 3, 2)):
        refuses(ValueError, r"values has shape .*; expected \[blocks methods\]", test, values.reshape(shape))
    refuses(ValueError, r"values has shape \(0, 2\)", test, values[:0])
    for broken in (np.nan, np.inf, -np.inf):
        holes = values.copy()
        holes[2, 1] = broken
        refuses(ValueError, f"values holds {broken} at block 2, method 1 .1 such in all.*Leave out", test, holes)
    refuses(TypeError, "values has dtype <U1; expected numbers", test, np.array([["a", "b"], ["c", "d"]]))
    refuses(TypeError, "integer", test, values, decimals=2.5)


SHARES, WORDS, TABLE = (0.0, 1.0, np.nan), np.array(["a", "b"]), np.arange(6.0).reshape(3, 2)


def call(function, *arguments, **options):
    return lambda: function(*arguments, **options)


test_refusals = refusals(
    *((f"share {s}", call(of_splits, TABLE, test_share=s), r"test_share=.*\(0, 1\)") for s in SHARES),
    *((f"pairs' share {s}", call(corrected_t, TABLE, test_share=s), r"test_share=.*\(0, 1\)") for s in SHARES),
    ("one split", call(of_splits, np.zeros((4, 1))), r"differences has shape \(4, 1\).*two splits"),
    ("NaN", call(of_splits, np.array([[0, 0], [np.nan, 0]])), r"differences holds nan at \(1, 0\)"),
    ("words", call(of_splits, WORDS), "differences has dtype <U1", TypeError),
    ("rows", call(compare.holm, np.zeros((2, 2))), r"p_values has shape \(2, 2\)"),
    ("p-values of words", call(compare.holm, WORDS), "p_values has dtype <U1", TypeError),
    *((f"p-value {p}", call(compare.holm, np.array([0.5, p])), r"lie in \[0, 1\]") for p in (-0.1, 1.1, np.nan)),
)


def test_the_least_difference_that_is_told():
    """What scatters as the differences do, and has that mean, has that p-value."""
    differences = np.random.default_rng(0).normal(size=10)
    least = significant_difference(differences, test_share=0.1, p_value=0.02)
    moved = differences - differences.mean() + least
    np.testing.assert_allclose(corrected_t_test(moved, test_share=0.1).p_value, 0.02)
    assert significant_difference(np.ones(4), test_share=0.1, p_value=0.02) == 0
