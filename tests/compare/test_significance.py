"""Ranks, tests and averages: values of SciPy, of Demšar's paper and by hand; what holds for any values; refusals."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import compare
from jaxunc.compare._significance import corrected_t_test, significant_difference
from jaxunc.compare._summary import interval_means
from tests._refusal import refusals
from tests.compare._made_up import made_up_results

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
    # The family is the six pairs, each once.
    upper = np.triu_indices(4, 1)
    plain = [of_splits(values[:, i] - values[:, j]).p_value for i, j in zip(*upper, strict=True)]
    np.testing.assert_allclose(tests.p_values[upper], compare.holm(np.array(plain)), rtol=1e-9)
    # What is larger may be worse.
    turned = partial(compare.pairwise_corrected_t, larger_is_better=False, test_share=0.1)(values)
    np.testing.assert_array_equal(tests.wins, np.sum(values[:, :, None] > values[:, None], axis=0))
    np.testing.assert_array_equal(turned.wins, tests.wins.T)
    np.testing.assert_array_equal(turned.p_values, tests.p_values)


def test_holm_by_hand():
    p_values = np.array([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(compare.holm(p_values), [0.03, 0.06, 0.06, 0.02])
    assert compare.holm(np.zeros(0)).shape == (0,)


@given(hnp.arrays(np.float64, 6, elements=st.floats(0, 1)), st.permutations(range(6)))
def test_holm_properties(p_values, order):
    holm, bonferroni = compare.holm(p_values), np.minimum(6 * p_values, 1)
    assert np.all((p_values <= holm) & (holm <= bonferroni))
    assert np.all(np.diff(holm[np.argsort(p_values)]) >= 0)
    np.testing.assert_array_equal(compare.holm(p_values[order]), holm[order])


OF_VALUES = {
    "ranks": partial(compare.ranks, larger_is_better=True),
    "average_ranks": partial(compare.average_ranks, larger_is_better=True),
    "pairwise_corrected_t": corrected_t,
}
SHARES, TABLE = (0.0, 1.0, np.nan), np.arange(6.0).reshape(3, 2)
SHAPE, LAST = r"values has shape .*; expected \[blocks methods\]", np.array([[0, 0], [0, 0], [0, 1]])
REFUSED = {
    **{f"of shape {shape}": (TABLE.reshape(shape), SHAPE) for shape in ((6,), (1, 3, 2))},
    "that are none": (TABLE[:0], r"values has shape \(0, 2\)"),
    **{
        str(broken): (np.where(LAST, broken, TABLE), f"values holds {broken} at block 2, method 1 .1 such.*Leave out")
        for broken in (np.nan, np.inf, -np.inf)
    },
}

test_refusals = refusals(
    *(
        (f"{name} {how}", partial(test, values), *said)
        for name, test in OF_VALUES.items()
        for how, (values, *said) in REFUSED.items()
    ),
    *((f"pairs of {shape}", partial(corrected_t, TABLE.reshape(shape)), SHAPE) for shape in ((1, 6), (6, 1))),
    *((f"share {s}", partial(of_splits, TABLE, test_share=s), r"test_share=.*\(0, 1\)") for s in SHARES),
    *((f"pairs' share {s}", partial(corrected_t, TABLE, test_share=s), r"test_share=.*\(0, 1\)") for s in SHARES),
    ("one split", partial(of_splits, np.zeros((4, 1))), r"differences has shape \(4, 1\).*two splits"),
    ("NaN", partial(of_splits, np.array([[0, 0], [np.nan, 0]])), r"differences holds nan at \(1, 0\)"),
    ("rows", partial(compare.holm, np.zeros((2, 2))), r"p_values has shape \(2, 2\)"),
    *((f"p-value {p}", partial(compare.holm, np.array([0.5, p])), r"lie in \[0, 1\]") for p in (-0.1, 1.1, np.nan)),
)


def test_the_least_difference_that_is_told():
    """What scatters as the differences do, and has that mean, has that p-value."""
    differences = np.random.default_rng(0).normal(size=10)
    least = significant_difference(differences, test_share=0.1, p_value=0.02)
    moved = differences - differences.mean() + least
    np.testing.assert_allclose(corrected_t_test(moved, test_share=0.1).p_value, 0.02)
    for equal in (1.0, 0.3):  # ten times .3 have a rounded mean
        assert significant_difference(np.full(10, equal), test_share=0.1, p_value=0.02) == 0


def records(*rows) -> pd.DataFrame:
    """Records of (leaf size, fold, combiner, accuracy, Brier score)."""
    columns = ["leaf_size", "fold", "combiner", "accuracy", "brier"]
    return pd.DataFrame(rows, columns=columns).assign(forest="random-forest", repeat=0, auc=0.5, log_loss=1.0)


def test_averages_and_ranks_of_given_records():
    made = records(
        *((1, 0, "vote", 0.9, 0.1), (1, 0, "pooling", 0.8, 0.2)),
        *((1, 1, "vote", 0.7, 0.1), (1, 1, "pooling", 0.7 + 1e-12, 0.2)),
        *((8, 0, "vote", 0.5, 0.3), (8, 0, "pooling", 0.6, 0.1)),
        *((8, 1, "vote", 0.5, 0.3), (8, 1, "pooling", 0.6, 0.1)),
    )
    ranks = compare.table_of_ranks(made)
    assert ranks.loc["vote", "accuracy"] == pytest.approx((1 + 1.5 + 2 + 2) / 4)
    assert ranks.loc["pooling", "brier"] == 1.5
    assert ranks.loc["vote", "auc"] == ranks.loc["pooling", "log_loss"] == 1.5, "equals share their ranks"
    assert list(ranks.index) == ["pooling", "vote"], "best first"
    mean = compare.averages(made).loc[("random-forest", "vote"), "accuracy"]
    assert mean["mean"] == pytest.approx(0.65)
    assert mean["std"] == pytest.approx(np.std([0.7, 0.6], ddof=1)), "over folds, leaf sizes averaged first"
    assert dict(compare.best_leaf_sizes(made)["random-forest"]) == {"pooling": 8, "vote": 1}


def test_a_ranking_tells_apart_what_differs_steadily():
    rows = [
        (1, fold, combiner, accuracy + 0.01 * np.sin(fold) + 0.001 * np.cos(7 * fold + len(combiner)), 0.2)
        for fold in range(5)
        for combiner, accuracy in (("vote", 0.8), ("pooling", 0.9), ("evidence", 0.9005))
    ]
    found = compare.ranking(records(*rows), "accuracy", n_folds=5)
    assert found.combiners[2] == "vote"
    assert found.ranks[2] == 3
    assert found.different.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    assert found.from_best[0] == 1
    assert found.from_best[2] < 0.01
    alone = compare.ranking(records(*rows[:1], rows[3]), "accuracy", n_folds=5)
    assert alone.combiners == ("vote",)
    assert not alone.different.any()


def test_bins_of_several_folds_are_one():
    settings = compare.Settings(("random-forest",), ("vote",), (4,), n_trees=3, n_repeats=1, n_folds=2)
    first, second = made_up_results(compare.breast_cancer(), settings, ("vote",)).outcomes.values()
    second.intervals["size"][:2], second.intervals["hits"][:2] = [30, 0], [3, 0]
    second.intervals["lower"][:2] = [0.3, 0.0]
    found = interval_means([first, second])
    assert found["size"] == [40, 10, *[20] * 7], "the last bin is empty and left out"
    assert found["hits"] == pytest.approx([8 / 40, 0.5, *[0.5] * 7])
    assert found["lower"][:2] == pytest.approx([0.3 / 40, 0.1])
