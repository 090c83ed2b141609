"""Tests over many data sets: values of SciPy, of Demšar's paper and by hand; what must hold for any values."""

import itertools
from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from matplotlib.figure import Figure

from benchmarks import many_sets
from jaxunc import compare
from tests.compare.test_significance import AREAS, tables

pytestmark = pytest.mark.once

wilcoxon = partial(many_sets.pairwise_wilcoxon, larger_is_better=True)


def test_friedman_of_the_paper():
    """It prints Friedman's form without ties, 9.28."""
    statistic = scipy.stats.chi2.isf(many_sets.friedman(AREAS), 3)
    n_ties = 3 * (2**3 - 2) + (4**3 - 4)
    assert statistic * (1 - n_ties / (14 * 4 * (4**2 - 1))) == pytest.approx(9.28, abs=5e-3)


def test_nemenyi_and_wilcoxon_of_the_paper():
    """Table 5(a), the two examples of section 3.2.4, and section 3.1.3: the sums of ranks are 93 and 12, with the two
    zeros' 1.5 for each; here p is counted out."""
    tests = wilcoxon(AREAS, correction="none")
    assert (tests.wins[1, 0], tests.wins[0, 1]) == (10, 2)
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
            difference = many_sets.nemenyi_difference(k, 14, alpha=alpha)
            # The paper's table is off by one in the last digit in places.
            assert difference / (k * (k + 1) / (6 * 14)) ** 0.5 == pytest.approx(quantile, abs=1.1e-3)
    assert many_sets.nemenyi_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert many_sets.nemenyi_difference(4, 14, alpha=0.1) == pytest.approx(1.12, abs=5e-3)
    average = compare.average_ranks(AREAS, larger_is_better=True)
    # "C4.5 is worse than C4.5+m and C4.5+m+cf" at 10 %.
    different = np.abs(average[:, None] - average[None, :]) > many_sets.nemenyi_difference(4, 14, alpha=0.1)
    assert many_sets.cliques(average, different) == [(3, 1, 2), (2, 0)]


@given(tables)
def test_friedman_of_scipy(values):
    p = many_sets.friedman(values)
    assert p == pytest.approx(many_sets.friedman(-values[:, [2, 0, 3, 1]]), rel=1e-9)
    if np.any(np.ptp(values, axis=1) > 0):
        assert p == pytest.approx(scipy.stats.friedmanchisquare(*np.rint(10 * values).T).pvalue, rel=1e-9, abs=1e-9)


def test_friedman_of_the_edges():
    assert many_sets.friedman(np.ones((5, 3))) == 1
    assert many_sets.friedman(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])) == 1
    assert many_sets.friedman(np.tile([0.1, 0.2, 0.3], (5, 1))) == pytest.approx(np.exp(-5))


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
    both = differences, np.append(differences, 0)
    exact, normal = (wilcoxon(np.stack([d, 0 * d], axis=1)).p_values[0, 1] for d in both)
    assert exact == pytest.approx(normal, rel=0.1)
    all_tied = wilcoxon(np.ones((60, 2)))
    np.testing.assert_array_equal(all_tied.p_values, 1)
    np.testing.assert_array_equal(all_tied.wins, 0)


@given(hnp.arrays(np.float64, 6, elements=st.integers(0, 12).map(float)), hnp.arrays(bool, (6, 6)))
def test_cliques_are_the_maximal_runs(average, half):
    different = np.triu(half, 1) | np.triu(half, 1).T
    order = np.argsort(average, kind="stable").tolist()
    parts = [order[a:b] for a in range(6) for b in range(a + 2, 7)]
    runs = [tuple(part) for part in parts if not different[np.ix_(part, part)].any()]
    maximal = [run for run in runs if not any(set(run) < set(other) for other in runs)]
    assert many_sets.cliques(average, different | np.diag(np.diag(half))) == maximal


def test_ties_of_noise():
    noisy = np.array([[0.3, 0.1 + 0.2], [977 / 1024 - 1e-17, 977 / 1024 + 1e-16], [0.5, 0.5 + 2e-9]])
    tests = many_sets.pairwise_wilcoxon(noisy, larger_is_better=False, correction="none")
    assert tests.wins.tolist() == [[0, 1], [0, 0]]
    # Absolute differences that only noise parts have equal ranks: with 2, 2, 2 there are but four sums.
    tests = wilcoxon(np.array([[0.3, 0.2], [0.2, 0.1], [0.4, 0.5]]), correction="none")
    assert tests.p_values[0, 1] == 1


def test_the_family_is_each_pair_once(rng):
    values, upper = rng.normal(size=(9, 4)) + np.arange(4) / 2, np.triu_indices(4, 1)
    plain = wilcoxon(values, correction="none").p_values[upper]
    np.testing.assert_array_equal(wilcoxon(values).p_values[upper], compare.holm(plain))
    adjusted = wilcoxon(values, correction="bonferroni").p_values[upper]
    np.testing.assert_array_equal(adjusted, np.minimum(6 * plain, 1))


def test_critical_difference():
    ax = Figure().add_subplot()
    rng = np.random.default_rng(1)
    values = rng.normal(size=(30, 4)) + np.array([0, 0.1, 3, 3.1])
    found = many_sets.ranking(values, larger_is_better=True)
    many_sets.draw_ranking(ax, found, ["a", "b", "c", "d"], highlight="b")
    assert found.difference == many_sets.nemenyi_difference(4, 30)
    assert sorted(map(sorted, found.groups)) == [[0, 1], [2, 3]]
    texts = {text.get_text(): text.get_fontweight() for text in ax.texts}
    for name, rank in zip("abcd", found.ranks, strict=True):
        (label,) = {f"{name}  {rank:.1f}", f"{rank:.1f}  {name}"} & texts.keys()
        assert (texts[label] == "bold") == (name == "b")
    assert f"critical difference {found.difference:.2f}" in texts
