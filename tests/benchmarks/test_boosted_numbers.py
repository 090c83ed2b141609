"""The study of boosted numbers: its methods' intervals, verdicts, and the committed page."""

import re

import numpy as np
import pytest

from benchmarks.pages import table_rows
from benchmarks.studies.boosted_numbers import methods as boosted
from benchmarks.studies.boosted_numbers import page
from benchmarks.studies.boosted_numbers import run as study
from benchmarks.studies.regression.page import geometric
from benchmarks.studies.regression.problems import DRAWN
from tests._claims import Page

pytestmark = pytest.mark.once


class Constant:
    """A model of a quantile that answers the quantile of its targets."""

    def __init__(self, tau):
        self.tau = tau

    def fit(self, X, y):
        self.value = np.quantile(y, self.tau)
        return self

    def predict(self, X):
        return np.full(len(X), self.value)


def test_conformalised_quantiles_of_all_rows_by_hand(rng, monkeypatch):
    monkeypatch.setattr("benchmarks.studies.boosted_numbers.methods.booster", lambda library, tau: Constant(tau))
    X, y = np.zeros((50, 1)), rng.normal(size=50)
    fold, beyond = boosted.Fold("any", X, y, np.zeros((3, 1))), []
    assert sorted([*fold.fit, *fold.held]) == list(range(50))
    for fit, held in fold.folds():
        low, high = np.quantile(y[fit], boosted.ENDS)
        beyond += [max(low - value, value - high) for value in y[held]]
    margin = sorted(beyond)[46]  # ⌈.9 · 51⌉ = 46 of 50, and the quantile .92 of them is between the 46th and 47th
    low, high = np.quantile(y, boosted.ENDS)
    np.testing.assert_allclose(boosted.of_all_rows(fold), [[low - margin, high + margin]] * 3)


@pytest.mark.parametrize("name", [*DRAWN, *boosted.DRAWN])
def test_drawn_problems_are_the_same_again(name):
    """Those of the study of regression, too."""
    first, second = boosted.rows_of(name), boosted.rows_of(name)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.X.dtype == np.float32
    assert 400 <= len(first.y) <= 2000


def made(**scores: float) -> dict:
    """Cells in which the law has 9 of 10 rows and a score of .9, and what is named another on one problem."""
    cells = {}
    for name in ("friedman1", "two peaks", "banknote"):
        for library in boosted.LIBRARIES if name in boosted.MADE_ON else boosted.LIBRARIES[:1]:
            of = {"rows": 10, "covered": 9, "score": 10.0, "strata": [[10, 9]]}
            mine = {**of, "score": 10 * scores.get(name.replace(" ", "_"), 0.9)}
            methods = dict.fromkeys(boosted.methods_of(library), of)
            methods |= {method: mine for method in (page.LEARNED, page.FROZEN) if method in methods}
            cells[study.Cell(name, library)] = {"methods": methods, "seconds": 60.0}
    return cells


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ({}, [1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ({"friedman1": 1.2, "two_peaks": 0.6}, [1, 1, 1, 0, 0, 1, 1, 1, 1]),
        ({"friedman1": 0.6, "two_peaks": 1.2}, [1, 1, 1, 0, 1, 1, 1, 1, 1]),
        ({"friedman1": 0.96, "two_peaks": 0.96}, [1, 0, 0, 1, 1, 1, 1, 1, 0]),
    ],
)
def test_verdicts(scores, kept):
    frame = page.table(made(**scores))
    old = frame[frame["problem"].isin(boosted.MADE_ON)]
    assert [is_kept for *_, is_kept in page.verdicts(old)] == kept
    assert page.page(made(**scores)).count("**missed**") == kept.count(0)


def test_what_the_docs_say():
    cells = study.kept(study.RESULTS)
    expected = [study.Cell(name, library) for name in boosted.MADE_ON for library in boosted.LIBRARIES]
    assert [cell for cell in cells if cell.data in boosted.MADE_ON] == expected
    frame = page.table(cells)
    is_old = frame["problem"].isin(boosted.MADE_ON)
    guide, of = Page("docs/how_to/how_sure_is_a_number.md"), frame[is_old]
    assert table_rows(page.parts(of, "library")) in guide.text
    told = guide.said
    scores = re.search(r"libraries. It scores ([.\d]+) of .*? ([.\d]+) of .*? and ([.\d]+) of plain", told).groups()
    others = (page.CQR, page.MAPIE, page.PLAIN)
    assert [*scores] == [f"{geometric(page.ratios(of, page.LEARNED, other)):.3f}" for other in others]
    held = of[of["method"] == page.LEARNED][["coverage", "stratum"]].mean()
    assert "Intervals of 90 % held {:.3f}; in the worst fifth {:.3f}.".format(*held) in told
    assert f"CQR is better on {page.losses(of)}." in told
