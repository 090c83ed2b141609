"""Ranks and tests: values of SciPy, of Demšar's paper and by hand; what must hold for any values; refusals."""

import itertools
from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import compare
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once

PRINTED = """.763 .768 .771 .798  .599 .591 .590 .569  .954 .971 .968 .967  .628 .661 .654 .657  .882 .888 .886 .898
.936 .931 .916 .931  .661 .668 .609 .685  .583 .583 .563 .625  .775 .838 .866 .875  1 1 1 1  .940 .962 .965 .962
.619 .666 .614 .669  .972 .981 .976 .975  .957 .978 .946 .970"""
AREAS = np.array(PRINTED.split(), float).reshape(14, 4)
"""Areas under the curve of four variants of C4.5 on 14 data sets: Demšar 2006, table 6. (On "voting" the third is
printed as .975 with the rank 2: it was larger before rounding.)"""

wilcoxon = partial(compare.pairwise_wilcoxon, larger_is_better=True)
corrected_t = partial(compare.pairwise_corrected_t, larger_is_better=True, test_share=0.1)
of_splits = partial(compare.corrected_t_test, test_share=0.1)
tables = hnp.arrays(np.float64, (7, 4), elements=st.integers(0, 5).map(lambda i: i / 10))


def test_ranks_and_friedman_of_the_paper():
    """It prints Friedman's forms without ties, 9.28 and 3.69."""
    average = compare.average_ranks(AREAS, larger_is_better=True)
    np.testing.assert_allclose(average, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert compare.ranks(AREAS, larger_is_better=True)[5].tolist() == [1, 2.5, 4, 2.5]
    result = compare.friedman(AREAS)
    n_ties = 3 * (2**3 - 2) + (4**3 - 4)
    plain = result.statistic * (1 - n_ties / (14 * 4 * (4**2 - 1)))
    assert plain == pytest.approx(9.28, abs=5e-3)
    assert 13 * plain / (14 * 3 - plain) == pytest.approx(3.69, abs=5e-3)
    assert result.f_statistic == pytest.approx(13 * result.statistic / (14 * 3 - result.statistic))
    assert result.f_p_value == pytest.approx(scipy.stats.f.sf(result.f_statistic, 3, 39))


def test_nemenyi_and_wilcoxon_of_the_paper():
    """Table 5(a), the two examples of section 3.2.4, and section 3.1.3: the sums of ranks are 93 and 12, with the two
    zeros' 1.5 for each; here p is counted out."""
    tests = wilcoxon(AREAS, correction="none")
    assert tests.wins[1, 0] == 10
    assert tests.wins[0, 1] == 2
    ranked = np.array([3.5, 7, 9, 12, 5, 3.5, 6, 14, 11, 13, 8, 10])
    negative = np.array([False, True, False, False, False, True] + 6 * [False])
    assert (ranked[~negative].sum() + 1.5, ranked[negative].sum() + 1.5) == (93, 12)
    splits = np.array(list(itertools.product([0, 1], repeat=12))) @ ranked
    assert tests.p_values[0, 1] == pytest.approx(2 * np.mean(splits <= ranked[negative].sum()), rel=1e-12)
    table = {
        0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
        0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
    }
    for alpha, quantiles in table.items():
        for k, quantile in enumerate(quantiles, start=2):
            difference = compare.nemenyi_difference(k, 14, alpha=alpha)
            # The paper's table is off by one in the last digit in places.
            assert difference / (k * (k + 1) / (6 * 14)) ** 0.5 == pytest.approx(quantile, abs=1.1e-3)
    assert compare.nemenyi_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert compare.nemenyi_difference(4, 14, alpha=0.1) == pytest.approx(1.12, abs=5e-3)
    average = compare.average_ranks(AREAS, larger_is_better=True)
    # "C4.5 is worse than C4.5+m and C4.5+m+cf" at 10 %.
    different = np.abs(average[:, None] - average[None, :]) > compare.nemenyi_difference(4, 14, alpha=0.1)
    assert compare.cliques(average, different) == [(3, 1, 2), (2, 0)]


def test_ties_and_no_variance():
    noisy = np.array([[0.3, 0.1 + 0.2], [977 / 1024 - 1e-17, 977 / 1024 + 1e-16], [0.5, 0.5 + 2e-9]])
    assert compare.ranks(noisy, larger_is_better=False).tolist() == [[1.5, 1.5], [1.5, 1.5], [1, 2]]
    assert compare.ranks(noisy, larger_is_better=False, decimals=8)[2].tolist() == [1.5, 1.5]
    tests = compare.pairwise_wilcoxon(noisy, larger_is_better=False, correction="none")
    assert tests.wins.tolist() == [[0, 1], [0, 0]]
    # Absolute differences that only noise parts have equal ranks: with 2, 2, 2 there are but four sums.
    tests = wilcoxon(np.array([[0.3, 0.2], [0.2, 0.1], [0.4, 0.5]]), correction="none")
    assert tests.p_values[0, 1] == 1
    differences = np.array([[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [-0.1, -0.1, -0.1]])
    result = compare.corrected_t_test(differences, test_share=0.1)
    assert result.statistic.tolist() == [0, np.inf, -np.inf]
    assert result.p_value.tolist() == [1, 0, 0]
    values = np.array([[0.3, 0.1 + 0.2, 0.5], [0.4, 0.4, 0.6], [0.1, 0.1, 0.3]])
    tests = corrected_t(values, correction="none")
    assert tests.p_values[0, 1] == 1
    assert tests.wins.tolist() == [[0, 0, 0], [0, 0, 0], [3, 3, 0]]


@given(tables, st.booleans())
def test_ranks_of_scipy(values, larger_is_better):
    ranks = compare.ranks(values, larger_is_better=larger_is_better)
    expected = scipy.stats.rankdata(np.rint(10 * values) * (-1 if larger_is_better else 1), axis=1)
    np.testing.assert_array_equal(ranks, expected)
    np.testing.assert_array_equal(compare.average_ranks(values, larger_is_better=larger_is_better), ranks.mean(0))


@given(tables)
def test_friedman_of_scipy(values):
    result = compare.friedman(values)
    assert result == compare.friedman(-values)
    np.testing.assert_allclose(result, compare.friedman(values[:, [2, 0, 3, 1]]), rtol=1e-12)
    if np.any(np.ptp(values, axis=1) > 0):
        expected = scipy.stats.friedmanchisquare(*np.rint(10 * values).T)
        np.testing.assert_allclose(result[:2], [expected.statistic, expected.pvalue], rtol=1e-9, atol=1e-9)


def test_friedman_of_the_edges():
    assert compare.friedman(np.ones((5, 3))) == (0, 1, 0, 1)
    assert compare.friedman(np.array([[1.0, 2.0], [2.0, 1.0]])) == (0, 1, 0, 1)
    agreed = compare.friedman(np.tile([0.1, 0.2, 0.3], (5, 1)))
    assert agreed.statistic == 10
    assert agreed.p_value == pytest.approx(np.exp(-5))
    assert (agreed.f_statistic, agreed.f_p_value) == (np.inf, 0)
    two = compare.friedman(np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]))
    assert two.statistic == pytest.approx(1)  # (3 - 1)² / 4, the sign test


@pytest.mark.parametrize("n_blocks", [8, 50, 51])
def test_wilcoxon_of_scipy(n_blocks, rng):
    """Without ties SciPy is exact up to 50 pairs."""
    values = rng.normal(size=(n_blocks, 3)) + np.array([0, 0.3, 0.6])
    tests = wilcoxon(values, correction="none")
    for i, j in itertools.combinations(range(3), 2):
        expected = scipy.stats.wilcoxon(values[:, i], values[:, j]).pvalue
        assert tests.p_values[i, j] == pytest.approx(expected, rel=1e-9)
        assert tests.wins[i, j] == np.sum(values[:, i] > values[:, j])


@given(hnp.arrays(np.int64, 7, elements=st.integers(-3, 3)))
def test_wilcoxon_of_all_signs(differences):
    """With ties and zeros: every assignment of signs to the ranks, one by one."""
    values = np.stack([differences / 10, np.zeros(7)], axis=1)
    ranked = scipy.stats.rankdata(np.abs(differences))[differences != 0]
    sums = np.array(list(itertools.product([0, 1], repeat=len(ranked)))).reshape(2 ** len(ranked), -1) @ ranked
    smaller = min(ranked[differences[differences != 0] > 0].sum(), ranked[differences[differences != 0] < 0].sum())
    expected = min(1, 2 * np.mean(sums <= smaller))
    tests = wilcoxon(values, correction="none")
    assert tests.p_values[0, 1] == pytest.approx(expected, rel=1e-12)


def test_exact_and_normal_meet(rng):
    """Across the limit of 50 blocks, with ties and zeros."""
    differences = rng.integers(-3, 5, size=50)
    exact, normal = (
        wilcoxon(np.stack([d, 0 * d], axis=1)).p_values[0, 1] for d in (differences, np.append(differences, 0))
    )
    assert exact == pytest.approx(normal, rel=0.1)
    all_tied = wilcoxon(np.ones((60, 2)))
    np.testing.assert_array_equal(all_tied.p_values, 1)
    np.testing.assert_array_equal(all_tied.wins, 0)


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


@pytest.mark.parametrize("test", [wilcoxon, corrected_t])
def test_pairwise_properties(test, rng):
    values = rng.normal(size=(9, 4)) + np.arange(4) / 2
    tests = test(values)
    np.testing.assert_array_equal(tests.p_values, tests.p_values.T)
    np.testing.assert_array_equal(np.diag(tests.p_values), 1)
    np.testing.assert_array_equal(tests.wins + tests.wins.T, 9 * (1 - np.eye(4, dtype=int)))
    order = np.array([2, 0, 3, 1])
    permuted = test(values[:, order])
    np.testing.assert_allclose(permuted.p_values, tests.p_values[np.ix_(order, order)], rtol=1e-12)
    np.testing.assert_array_equal(permuted.wins, tests.wins[np.ix_(order, order)])
    # The family is the six pairs, each once.
    plain, upper = test(values, correction="none").p_values, np.triu_indices(4, 1)
    for correction in (compare.holm, compare.bonferroni):
        adjusted = test(values, correction=correction.__name__).p_values
        np.testing.assert_array_equal(adjusted[upper], correction(plain[upper]))


@pytest.mark.parametrize(
    "test", [compare.pairwise_wilcoxon, partial(compare.pairwise_corrected_t, test_share=0.5)], ids=["wilcoxon", "t"]
)
def test_direction(test):
    up, down = (test(np.array([[0.1, 0.2], [0.3, 0.5], [0.6, 0.4]]), larger_is_better=one) for one in (True, False))
    assert up.wins.tolist() == [[0, 1], [2, 0]]
    np.testing.assert_array_equal(up.wins, down.wins.T)
    np.testing.assert_array_equal(up.p_values, down.p_values)


def test_holm_and_cliques_by_hand():
    p_values = np.array([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(compare.holm(p_values), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(compare.bonferroni(p_values), [0.04, 0.16, 0.12, 0.02])
    assert compare.holm(np.zeros(0)).shape == compare.bonferroni(np.zeros(0)).shape == (0,)
    different = np.zeros((4, 4), bool)
    average = np.array([4.0, 1.0, 3.0, 2.0])
    assert compare.cliques(average, different) == [(1, 3, 2, 0)]
    assert compare.cliques(average, ~different) == []
    # Methods 1 and 2 differ, with method 3 between them.
    different[1, 2] = different[2, 1] = True
    assert compare.cliques(average, different) == [(1, 3), (3, 2, 0)]
    different[3, :] = different[:, 3] = True
    assert compare.cliques(average, different) == [(2, 0)]


@given(hnp.arrays(np.float64, 6, elements=st.floats(0, 1)), st.permutations(range(6)))
def test_holm_properties(p_values, order):
    holm, bonferroni = compare.holm(p_values), compare.bonferroni(p_values)
    assert np.all(p_values <= holm)
    assert np.all(holm <= bonferroni)
    assert np.all(bonferroni <= 1)
    assert np.all(np.diff(holm[np.argsort(p_values)]) >= 0)
    np.testing.assert_array_equal(compare.holm(p_values[order]), holm[order])


@given(hnp.arrays(np.float64, 6, elements=st.integers(0, 12).map(float)), hnp.arrays(bool, (6, 6)))
def test_cliques_are_the_maximal_runs(average, half):
    different = np.triu(half, 1) | np.triu(half, 1).T
    order = np.argsort(average, kind="stable").tolist()
    runs = [
        tuple(order[a:b])
        for a in range(6)
        for b in range(a + 2, 7)
        if not different[np.ix_(order[a:b], order[a:b])].any()
    ]
    maximal = [run for run in runs if not any(set(run) < set(other) for other in runs)]
    assert compare.cliques(average, different) == maximal


OF_VALUES = {
    "ranks": partial(compare.ranks, larger_is_better=True),
    "average_ranks": partial(compare.average_ranks, larger_is_better=True),
    "friedman": compare.friedman,
    "pairwise_wilcoxon": wilcoxon,
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


SHARES, ADJUSTED = (0.0, 1.0, np.nan), (compare.holm, compare.bonferroni)
TABLE, WORDS, AVERAGE, ALIKE = np.arange(6.0).reshape(3, 2), np.array(["a", "b"]), np.array([1.0, 2.0]), np.eye(2) > 1
UNKNOWN = "correction='sidak' is unknown. Choose one of 'holm', 'bonferroni', 'none'"


def call(function, *arguments, **options):
    return lambda: function(*arguments, **options)


def join(order_values=AVERAGE, different=ALIKE):
    return call(compare.cliques, order_values, different)


def nemenyi(n_methods=3, n_blocks=10, **options):
    return call(compare.nemenyi_difference, n_methods, n_blocks, **options)


test_refusals = refusals(
    ("wilcoxon's correction", call(wilcoxon, TABLE, correction="sidak"), UNKNOWN),
    ("the t-test's correction", call(corrected_t, TABLE, correction="sidak"), UNKNOWN),
    *((f"share {s}", call(of_splits, TABLE, test_share=s), r"test_share=.*\(0, 1\)") for s in SHARES),
    *((f"pairs' share {s}", call(corrected_t, TABLE, test_share=s), r"test_share=.*\(0, 1\)") for s in SHARES),
    *((f"alpha {alpha}", nemenyi(alpha=alpha), r"alpha=.*\(0, 1\)") for alpha in (-0.1, *SHARES)),
    ("one method", nemenyi(1), "n_methods=1 must be at least 2"),
    ("one block", nemenyi(3, 1), "n_blocks=1 must be at least 2"),
    ("half a method", nemenyi(3.5), "integer", TypeError),
    ("one split", call(of_splits, np.zeros((4, 1))), r"differences has shape \(4, 1\).*two splits"),
    ("NaN", call(of_splits, np.array([[0, 0], [np.nan, 0]])), r"differences holds nan at \(1, 0\)"),
    ("words", call(of_splits, WORDS), "differences has dtype <U1", TypeError),
    ("one value", join(AVERAGE[:1]), "order_values=.*finite numbers"),
    ("values NaN", join(AVERAGE * np.nan), "order_values=.*finite numbers"),
    ("rows of values", join(AVERAGE[None]), "order_values=.*finite numbers"),
    ("values of words", join(WORDS), "order_values has dtype <U1", TypeError),
    ("floats", join(different=ALIKE * 1.0), "different has dtype float64; expected bool", TypeError),
    ("size", join(different=np.eye(3) > 1), r"different has shape \(3, 3\); expected \(2, 2\)"),
    ("one way", join(different=np.array([[False, True], [False, False]])), "symmetric"),
    *((f"{f.__name__} of rows", call(f, np.zeros((2, 2))), r"p_values has shape \(2, 2\)") for f in ADJUSTED),
    *((f"{f.__name__} of words", call(f, WORDS), "p_values has dtype <U1", TypeError) for f in ADJUSTED),
    *(
        (f"{f.__name__} of {p}", call(f, np.array([0.5, p])), r"lie in \[0, 1\]")
        for f in ADJUSTED
        for p in (-0.1, 1.1, np.nan)
    ),
)
