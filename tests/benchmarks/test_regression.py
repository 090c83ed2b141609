"""The study of regression: its problems, its measures, and its page."""

import itertools
import re

import numpy as np
import pytest

from benchmarks.studies.regression import run as study
from benchmarks.studies.regression.methods import METHODS, MISS, TAUS, measured
from benchmarks.studies.regression.page import page, ratios, table, verdicts
from tests._claims import Page, page_of
from tests.metrics import _reference as reference

pytestmark = pytest.mark.once


def test_measures_of_quantiles_by_loops(rng):
    y, quantiles = rng.normal(size=40), np.sort(rng.normal(size=(40, 19)), axis=1)
    found, ends = measured(quantiles, y), quantiles[:, [0, -1]]
    assert (found.rows, found.covered) == (40, np.sum((ends[:, 0] <= y) & (y <= ends[:, 1])))
    assert found.score / 40 == pytest.approx(reference.interval_score(ends, y, 1 - MISS))
    assert found.loss / 40 == pytest.approx(reference.pinball_loss(quantiles, y, TAUS))
    assert np.sum(found.strata, axis=0).tolist() == [40, found.covered]
    assert measured(ends, y)._replace(loss=found.loss) == found
    with pytest.raises(ValueError, match="1 rows have no finite quantiles"):
        measured(np.where(np.arange(40)[:, None] == 3, np.nan, quantiles), y)


def made(score_of_ours: float) -> dict:
    """Cells in which the learned law has this score, beside 1 of quantile-forest's."""
    own = {"rows": 10, "covered": 9, "loss": 1.0, "strata": [[2, 2]] * 4 + [[2, 1]], "seconds": 1.0}
    scores = {name: {**own, "score": 10.0} for name in METHODS} | {"learned law": {**own, "score": 10 * score_of_ours}}
    cells = [study.Cell(*of) for of in itertools.product("ab", (1, 5), (100, 500), (0, 1))]
    return {cell: {"methods": {name: scores[name] for name in study.methods_of(cell)}} for cell in cells}


@pytest.mark.parametrize(
    ("score", "kept"), [(0.9, [1, 1, 1, 1, 1, 1]), (0.97, [0, 1, 1, 1, 1, 1]), (1.1, [0, 0, 0, 1, 1, 1])]
)
def test_verdicts(score, kept):
    frame = table(made(score))
    assert ratios(frame, "score")["learned law"].to_numpy() == pytest.approx(score)
    assert [is_kept for *_, is_kept in verdicts(frame)] == kept
    text = page(made(score))
    assert ("**missed**" in text) == (0 in kept)
    assert f"| learned law | 0.900 | 0.500 | {score:.3f} |" in text


def test_what_the_guide_and_the_readme_say():
    page, guide = page_of("regression"), Page("docs/how_to/how_sure_is_a_number.md").text
    cells = lambda line: [cell.strip() for cell in line.strip("| ").split("|")]
    rows = {row[0]: row for row in map(cells, page.splitlines()) if len(row) == 8}
    told = guide.split("## How good are they?")[1].split("## Noise")[0]
    shown = [row for row in map(cells, told.splitlines()) if row[0] in rows and row[0][:1].isalpha()]
    assert len(shown) == 8
    for row in shown:
        assert row == rows[row[0]][:6]
    found = study.kept(study.RESULTS)
    assert len(found) == 500
    spambase = re.search(r"^\| spambase \| ([\d.]+) \|", page, re.MULTILINE)[1]
    assert f"it has {spambase} of quantile-forest's score there" in " ".join(told.split())
    assert all(is_kept for *_, is_kept in verdicts(table(found)))
    assert f"score [{float(rows['learned law'][3]):.2f}".replace("[0.", "[.") in Page("README.md").text
