"""The study of laws by the rows behind an answer: its forms, verdicts, and the committed page."""

import re

import numpy as np
import pytest

from benchmarks.studies.neighbour_law import run as study
from benchmarks.studies.neighbour_law.forms import FORMS, LAW, K, largest, weighted
from benchmarks.studies.neighbour_law.page import CHOSEN_ON, page, table, verdicts
from benchmarks.studies.regression.methods import TAUS
from benchmarks.studies.regression.page import geometric
from benchmarks.studies.regression.problems import PROBLEMS
from tests._claims import Page

pytestmark = pytest.mark.once


def test_quantiles_of_weighted_residuals_by_loops(rng):
    values, weights = rng.normal(size=30), rng.random((4, 30))
    for row, found in zip(weights, weighted(values, weights), strict=True):
        expected = [min(v for v in values if row[values <= v].sum() >= tau * row.sum()) for tau in TAUS]
        np.testing.assert_array_equal(found, expected)
    many = rng.random((3, 2 * K))
    assert ((largest(many) > 0).sum(axis=1) == K).all()
    assert (largest(weights) == weights).all()


def made(score: float) -> dict:
    """Cells in which the law has this score, beside 1 of the learned law."""
    own = {"rows": 10, "covered": 9, "score": 10.0, "loss": 1.0, "seconds": 1.0}
    methods = {name: {**own, "score": 10 * score} if name == LAW else own for name in FORMS}
    return {study.Cell(name, leaf): {"methods": methods} for name in ("friedman1", "a") for leaf in study.LEAVES}


@pytest.mark.parametrize(("score", "kept"), [(0.9, [1, 1, 1, 1]), (0.98, [0, 1, 1, 1]), (1.1, [0, 0, 1, 0])])
def test_verdicts(score, kept):
    assert [is_kept for *_, is_kept in verdicts(table(made(score)))] == kept
    assert ("**missed**" in page(made(score))) == (0 in kept)


def test_what_the_docs_say():
    found = study.kept(study.RESULTS)
    assert list(found) == [study.Cell(name, leaf) for name in PROBLEMS for leaf in study.LEAVES]
    frame = table(found)
    of = {name: verdicts(frame[frame["problem"].isin(CHOSEN_ON) == seen]) for name, seen in (("old", 1), ("new", 0))}
    told = Page("docs/how_to/how_sure_is_a_number.md").said
    words = r"has ([.\d]+) of the .* scores ([.\d]+) of the .* on 18 .* held ([.\d]+), at worst ([.\d]+) on"
    (score, *_), (other, worst, covers, _) = ([value for _, value, _ in rules] for rules in (of["old"], of["new"]))
    assert re.search(words, told).groups() == (score, other, covers, worst)
    losses = frame[frame["method"] == LAW].groupby(~frame["problem"].isin(CHOSEN_ON))["loss"].apply(geometric)
    assert "loss is {:.3f} and {:.3f}.".format(*losses) in told
