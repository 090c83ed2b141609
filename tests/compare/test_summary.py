"""Averages, ranks, and what tests make of them."""

import numpy as np
import pandas as pd
import pytest

from jaxunc import compare
from jaxunc.compare._summary import interval_means
from tests.compare._made_up import made_up_results

pytestmark = pytest.mark.once


def given(*rows) -> pd.DataFrame:
    """Records of (leaf size, fold, combiner, accuracy, Brier score)."""
    columns = ["leaf_size", "fold", "combiner", "accuracy", "brier"]
    return pd.DataFrame(rows, columns=columns).assign(forest="random-forest", repeat=0, auc=0.5, log_loss=1.0)


def test_averages_and_ranks_of_given_records():
    records = given(
        (1, 0, "vote", 0.9, 0.1),
        (1, 0, "pooling", 0.8, 0.2),
        (1, 1, "vote", 0.7, 0.1),
        (1, 1, "pooling", 0.7 + 1e-12, 0.2),
        (8, 0, "vote", 0.5, 0.3),
        (8, 0, "pooling", 0.6, 0.1),
        (8, 1, "vote", 0.5, 0.3),
        (8, 1, "pooling", 0.6, 0.1),
    )
    ranks = compare.table_of_ranks(records)
    assert ranks.loc["vote", "accuracy"] == pytest.approx((1 + 1.5 + 2 + 2) / 4)
    assert ranks.loc["pooling", "brier"] == 1.5
    assert ranks.loc["vote", "auc"] == ranks.loc["pooling", "log_loss"] == 1.5, "equals share their ranks"
    assert list(ranks.index) == ["pooling", "vote"], "best first"
    mean = compare.averages(records).loc[("random-forest", "vote"), "accuracy"]
    assert mean["mean"] == pytest.approx(0.65)
    assert mean["std"] == pytest.approx(np.std([0.7, 0.6], ddof=1)), "over folds, leaf sizes averaged first"
    best = compare.best_leaf_sizes(records)
    assert best["random-forest", "vote"] == 1
    assert best["random-forest", "pooling"] == 8


def test_a_ranking_tells_apart_what_differs_steadily():
    rows = [
        (1, fold, combiner, accuracy + 0.01 * np.sin(fold) + 0.001 * np.cos(7 * fold + len(combiner)), 0.2)
        for fold in range(5)
        for combiner, accuracy in (("vote", 0.8), ("pooling", 0.9), ("evidence", 0.9005))
    ]
    found = compare.ranking(given(*rows), "accuracy", n_folds=5)
    assert found.combiners[2] == "vote"
    assert found.ranks[2] == 3
    assert found.different.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    assert found.from_best[0] == 1
    assert found.from_best[2] < 0.01
    alone = compare.ranking(given(*rows[:1], rows[3]), "accuracy", n_folds=5)
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
