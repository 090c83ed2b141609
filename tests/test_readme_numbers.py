"""Each number that the README claims is that of a committed file of results."""

import re

import numpy as np
import pytest

from tests._claims import Page, page_of, ratios, results, rounded, same

pytestmark = pytest.mark.once

PAGE = Page("README.md")
README = PAGE.text
ENGINES = ("jaxunc", "oneDAL", "ONNX Runtime", "YDF", "treelite GTIL")
claimed, spread_of = PAGE.claimed, PAGE.spread


@pytest.mark.parametrize("page", ["README.md", "docs/speed.md"])
def test_shares_of_scikit_learns_time(page):
    rows = Page(page).table("forest")
    assert len(rows) == 4
    for engine, cells in zip(ENGINES, list(zip(*rows, strict=True))[1:], strict=False):
        assert rounded(cells, ratios("speed-cpu", engine)), engine


def test_speed_elsewhere_and_of_other_calls():
    spread_of(ratios("speed-cpu-xeon", "jaxunc"), "): # to #). oneDAL is", 2)
    assert all(results(name)["machine"]["cpu"] == "AMD EPYC" for name in ("speed-cpu", "rows-cpu"))
    sections = results("speed-cpu")["sections"]
    spread_of([one["first_call_s"] for one in sections["first-calls"]], "A first prediction compiles for # to #", 2)
    beyond = {"median", "generalized mixture", "beta aggregation, maximum", "mean", "uncertainty, entropy"}
    cost = {one["rule"]: one["ratio_to_mean"]["median"] for one in sections["rule-costs"]}
    merged = [value for rule, value in cost.items() if rule not in beyond]
    spread_of(merged, "Rules that merge by sums, minima or maxima cost # to #", 2)
    assert same(claimed("cost up to # times the mean")[0], cost["median"], 1)
    measured = results("rows-cpu")["sections"]["batch-sizes"]
    taken = {
        name: [1e3 * one["steady_s"]["median"] for one in measured if (one["engine"], one["rows"]) == (name, 1)]
        for name in ("jaxunc", "scikit-learn")
    }
    spread_of(taken["jaxunc"], "One row of 100 trees takes # to # ms", 2)
    spread_of(taken["scikit-learn"], "ms, where scikit-learn takes # to #", 0)
    grown = [one for one in measured if (one["engine"], one["shape"]) == ("oneDAL", "grown out") and one["rows"] >= 64]
    spread_of([one["ratio_to_jaxunc"]["median"] for one in grown], "and more it takes # to # times the time", 1)


def test_boosted_models():
    of = {}
    for model in results("imported-cpu")["models"]:
        own = next(one for one in model["engines"] if one["name"] == "jaxunc")
        of[model["library"]] = own["cpu_ratio_to_own"]["median"]
        assert model["trees"] == (100 if "forest" in model["library"] else 1000)
    others = [of[name] for name in ("XGBoost", "LightGBM", "YDF", "HistGradientBoosting")]
    spread_of(others, "XGBoost, LightGBM, YDF and scikit-learn take # to #", 2)
    assert same(claimed("CatBoost's take # times theirs")[0], of["CatBoost"], 1)


def test_votes_that_stop():
    votes = [
        one for one in results("stopping-cpu")["votes"] if one["instances"] == 100_000 and "200" not in one["forest"]
    ]
    spread_of([one["speedup"]["settled"]["wall"]["median"] for one in votes], "Votes that stop are # to # times", 1)
    spread_of([one["mean_polled"] for one in votes], "if one takes # to # of them", 0)


def test_the_learned_pool():
    """Its table is that of the page that its study writes: fresh sets, then those of development."""
    page = page_of("learning")
    parts = [
        page.partition(f"### {title}\n")[2]
        for title in ("On sets that nothing here was developed on", "On the sets of development")
    ]
    lines = [line.split(" | ") for line in README.splitlines() if line.startswith("| ") and " %" in line]
    told = [[cell.strip("| ") for cell in line[1:]] for line in lines if len(line) == 3]
    names = ("mean", "isotonic", "P", "tuned mean", "tuned mean, calibrated", "tuned mean, P", "Venn-Abers")
    assert len(told) == len(names)
    for name, cells in zip(names, told, strict=True):
        for part, cell in zip(parts, cells, strict=True):
            wins, gain, bold = re.search(
                rf"^\| `{name}` \| (?:\*\*)?([\d:]+) ([-+][\d.]+) %(\*\*)? \|", part, re.M
            ).groups()
            assert cell == f"{wins}, {gain.lstrip('+')} %" + ("" if bold else ", not told apart"), name
    assert [
        int(n)
        for n in re.search(r"\| (\d+) sets that it was not developed on \| (\d+) sets that it was \|", README).groups()
    ] == [int(part.strip().split()[0]) for part in parts]


def test_which_rule_when():
    page = page_of("rules")
    for size in (1, 4, 16):
        assert (
            re.search(rf"^\| in-bag, {size} (\| .*)$", page, re.M)[1]
            == re.search(rf"^\| {size} (\| .*)$", README, re.M)[1]
        )
    of, better, worse = claimed("Of # comparisons with the mean, the test finds it better in # and worse in #")
    row = re.search(r"^\| `plausibility` \| (\d+) \| (\d+) \|", page.partition("against the mean of prob")[2], re.M)
    assert (of, better, worse) == (15, float(row[1]), float(row[2]))
    assert claimed("measured on # data sets") == [35]
    assert "35 data sets (23 of two classes)" in page
    assert claimed("Measured on # data sets of two classes") == [23]


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
    most, by_log_loss = claimed(
        "gains more than # in the median by AUC, accuracy or Brier score. By log loss rules gain up to #"
    )
    assert max(max(gained[name]) for name in ("auc", "accuracy", "brier")) < most + 0.0005
    assert same(by_log_loss, max(gained["log_loss"]), 2)


def test_it_is_short():
    assert README.count("\n") < 250


def test_random_models_of_other_libraries():
    libraries = results("importers-fuzz")["libraries"].values()
    assert not [fault for own in libraries for fault in own["faults"]]
    answered, refused = (sum(own["models"].get(name, 0) for own in libraries) for name in ("answered", "refused"))
    assert claimed("Of # random ones none answers otherwise") == [answered + refused]
    assert claimed("and # are refused in words") == [refused]
