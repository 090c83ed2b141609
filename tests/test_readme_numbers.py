"""Each number that the README and the page of rules claim is that of a committed file of results."""

import re

import numpy as np
import pytest

from tests._claims import Page, page_of, ratios, results, rounded, same

pytestmark = pytest.mark.once

PAGE, RULES = Page("README.md"), Page("docs/combiners.md")
ENGINES = ("jaxunc", "oneDAL", "ONNX Runtime", "YDF", "treelite GTIL")


def test_shares_of_scikit_learns_time():
    rows = Page("docs/speed.md").table("forest")
    assert len(rows) == 4
    for engine, cells in zip(ENGINES, list(zip(*rows, strict=True))[1:], strict=True):
        assert rounded(cells, ratios("speed-cpu", engine)), engine
    shallow = [cells[0] for cells in rows].index("100 trees, depth 8, 100 000 × 30")
    own, other = ratios("speed-cpu", "jaxunc"), ratios("speed-cpu", "oneDAL")
    PAGE.spread(own, "Of scikit-learn's time it takes # to # on", 2)
    PAGE.spread([one for i, one in enumerate(other) if i != shallow], "takes # to # where trees are deep", 2)
    PAGE.says("and # against # at depth 8", (other[shallow], own[shallow]), 2)


def test_the_learned_pool():
    """Its table is that of the page that its study writes, of the sets that nothing was developed on."""
    page = page_of("learning").partition("### On sets that nothing here was developed on\n")[2]
    assert PAGE.claimed("the learned pool on # data sets") == [int(page.strip().split()[0])]
    rows = PAGE.table("against")
    for name, cells in zip(("mean", "P", "tuned mean, P"), rows, strict=True):
        told = re.search(rf"^\| `{name}` \| (?:\*\*)?([\d:]+) ([-+][\d.]+) %(\*\*)? \|", page, re.M)
        wins, gain, bold = told.groups()
        assert cells[1:] == [wins, f"{gain.lstrip('+')} %" + ("" if bold else ", not told apart")], name


def test_where_it_loses():
    """On two sets; the page of learning names them, with the study's numbers."""
    assert "On two of these sets its log loss is above" in PAGE.said
    assert "two of the 26 its log loss is above that of the best calibrator by a tenth" in Page("docs/learning.md").said


def test_which_combiner_when():
    page = page_of("rules")
    for size in (1, 4, 16):
        assert (
            re.search(rf"^\| in-bag, {size} (\| .*)$", page, re.M)[1]
            == re.search(rf"^\| {size} (\| .*)$", RULES.text, re.M)[1]
        )
    words = (
        "Of # comparisons with the mean (five measures, three leaf sizes), the test finds it better in # and worse in #"
    )
    of, better, worse = RULES.claimed(words)
    row = re.search(r"^\| `plausibility` \| (\d+) \| (\d+) \|", page.partition("against the mean of prob")[2], re.M)
    assert (of, better, worse) == (15, float(row[1]), float(row[2]))
    assert "35 data sets (23 of two classes)" in page
    assert RULES.claimed("Measured on # data sets of two classes") == [23]


def test_little_is_gained_by_the_choice():
    """The medians of what each of 180 choices gains over scikit-learn's default, as `rules.md` tells of the best."""
    columns, rows = results("rules")["columns"], results("rules")["rows"]
    gained = {"auc": [], "accuracy": [], "brier": [], "log_loss": []}
    by: dict[tuple, dict[str, dict]] = {}
    for row in (dict(zip(columns, values, strict=True)) for values in rows):
        if row["n_classes"] == 2 and row["forest"] == "random-forest":
            by.setdefault((row["counts"], row["leaf_size"], row["rule"]), {})[row["set"]] = row
    default = by["inbag", 1, "probability"]
    for measure, gains in gained.items():
        sign = 1 if measure in ("auc", "accuracy") else -1
        for found in by.values():
            gains.append(sign * np.median([found[one][measure] - default[one][measure] for one in default]))
    assert len(by) == 180
    words = "gains more than # in the median by AUC, accuracy or Brier score. By log loss combiners gain up to #"
    most, by_log_loss = RULES.claimed(words)
    assert max(max(gained[name]) for name in ("auc", "accuracy", "brier")) < most + 0.0005
    assert same(by_log_loss, max(gained["log_loss"]), 2)


def test_it_is_short():
    assert len(PAGE.text.split()) <= 700


def test_random_models_of_other_libraries():
    libraries = results("importers-fuzz")["libraries"].values()
    assert not [fault for own in libraries for fault in own["faults"]]
    answered, refused = (sum(own["models"].get(name, 0) for own in libraries) for name in ("answered", "refused"))
    assert PAGE.claimed("Of # random ones none answers otherwise") == [answered + refused]
    assert PAGE.claimed("and # are refused in words") == [refused]
