"""The page of the benchmark of rules: the winners and their tests, on made-up means."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from benchmarks.many_sets import against
from benchmarks.studies.rules import run as rules
from benchmarks.studies.rules.abstaining import Bags, bags_of, conformity, proximities
from benchmarks.studies.rules.page import by_set, rules_page, told_apart, winner
from jaxunc import compare
from tests._claims import Page, page_of, results

pytestmark = pytest.mark.once

GAIN = {"probability": 0.0, "better": 0.02, "worse": -0.03}


def made_up(n_sets=12, noise=0.01, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    keys = pd.MultiIndex.from_product(
        [[f"set-{i}" for i in range(n_sets)], rules.COUNTS, ["random-forest", "extra-trees"], [1, 4], GAIN],
        names=["set", "counts", "forest", "leaf_size", "rule"],
    )
    frame = keys.to_frame(index=False).assign(n_classes=n_classes)
    for measure in compare.COMPARED_MEASURES:
        sign = 1 if measure in ("auc", "accuracy") else -1
        frame[measure] = 0.5 + sign * frame["rule"].map(GAIN) + noise * rng.normal(size=len(frame))
    return frame


def test_the_winner():
    found = by_set(made_up(), "auc", "oob", 4)
    best, gains = winner(found, larger=True), found["better"] - found["probability"]
    assert best.name == "better"
    assert (best["won"], best["lost"]) == ((gains > 0).sum(), (gains < 0).sum())
    assert best["gain"] == pytest.approx(gains.median(), abs=1e-6)
    assert best["p"] < 0.05
    assert winner(found, larger=False).name == "worse"


def test_without_a_difference_nothing_is_bold():
    page = rules_page(made_up(noise=0.0))
    assert "**`better`** (12:0, +0.0200)" in page
    assert "| `better` | 10 | 0 | 10 | 0 | 10 | 0 |" in page
    assert "| `worse` | 0 | 10 | 0 | 10 | 0 | 10 |" in page
    alike = made_up(noise=0.0)
    alike[list(compare.COMPARED_MEASURES)] = 0.5
    assert "**`" not in rules_page(alike)


def test_the_page_and_its_pictures(tmp_path):
    more = made_up(n_classes=3, seed=1).replace({"set": "set-"}, {"set": "more-"}, regex=True)
    everything = pd.concat([made_up(), more])
    rules.write(everything, tmp_path)
    rules.write_page(tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "nan" not in page
    for picture in ("rules-auc.svg", "rules-brier.svg"):
        assert picture in page
        assert (tmp_path / picture).stat().st_size > 1000
    again = tmp_path / "again"
    rules.write(everything, again)
    rules.write_page(again)
    for path in again.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


@pytest.fixture(scope="module")
def advice():
    return Page("docs/combiners.md").text.split("## Which combiner when")[1].split("## The one idea")[0]


def cells(line):
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_the_table_of_the_docs_is_that_of_the_page(advice):
    page = page_of("rules").split("## More than two")[0]
    found = [cells(line) for line in advice.splitlines() if re.match(r"\| \d+ \|", line)]
    expected = [cells(line) for line in page.splitlines() if line.startswith("| in-bag, ")]
    assert [["in-bag, " + row[0], *row[1:]] for row in found] == expected
    heads = [cells(line) for text in (advice, page) for line in text.splitlines() if "to rank (AUC)" in line]
    assert heads[0][1:] == heads[1][1:]


def test_what_the_docs_advise_follows_from_the_numbers(advice):
    document = results("rules")
    measured = pd.DataFrame(document["rows"], columns=document["columns"])
    two, more = measured[measured["n_classes"] == 2], measured[measured["n_classes"] > 2]
    assert f"Measured on {two['set'].nunique()} data sets of two classes" in advice
    told = {cells(line)[0]: list(map(int, cells(line)[1:])) for line in told_apart(two).splitlines()[2:]}
    assert f"better in {told['`plausibility`'][0]} and worse in {told['`plausibility`'][1]}" in advice
    assert max(told, key=lambda rule: told[rule][0] - told[rule][1]) == "`plausibility`"
    assert told["`mixture`"][3] == told["`mixture`"][5] == 0, "the safe choice with other counts"

    def apart(rows, measure, leaf_size):
        found = against(by_set(rows, measure, "inbag", leaf_size), "probability", larger=measure in ("auc", "accuracy"))
        found = found[found["p"] < 0.05]
        return set(found.index[found["gain"] > 0]), set(found.index[found["gain"] < 0])

    assert apart(two, "auc", 1)[0] == {"m-estimate", "epistemic", "beta", "plausibility", "plausibility-p"}
    for leaf_size in (1, 4, 16):
        better, worse = apart(two, "auc", leaf_size)
        assert leaf_size == 1 or not better
        assert {"maximum", "cautious", "median"} <= worse
        assert not {"evidence", "dempster"} & worse
        assert {"evidence", "dempster"} <= apart(two, "log_loss", leaf_size)[1]
    assert "dempster-p" in apart(two, "accuracy", 16)[0]
    forests = two[two["forest"] == "random-forest"]
    for measure, most in (("auc", 0.00105), ("accuracy", 0.001), ("brier", 0.001), ("log_loss", 0.0225)):
        values = forests.pivot_table(index="set", columns=["rule", "counts", "leaf_size"], values=measure)
        usual = values["probability", "inbag", 1]
        gain = values.sub(usual, axis=0).median() * (1 if measure in ("auc", "accuracy") else -1)
        assert gain.max() <= most, "little is left against the default"
    for leaf_size in (4, 16):
        assert {"mixture", "median"} <= apart(more, "brier", leaf_size)[0]
        assert "mixture" in apart(more, "log_loss", leaf_size)[0]


def test_proximities_weigh_the_labels_as_the_forest_does(rng):
    X, y = rng.normal(size=(150, 4)), rng.integers(0, 3, 150)
    X[:, 0] += y
    for leaf in (1, 5):
        model = RandomForestClassifier(30, min_samples_leaf=leaf, random_state=0).fit(X[:100], y[:100])
        near = proximities(bags_of(model, X[:100]), model.apply(X[100:]))
        np.testing.assert_allclose(near.sum(axis=1), 1)
        np.testing.assert_allclose(near @ np.eye(3)[y[:100]], model.predict_proba(X[100:]), atol=1e-12)


def test_proximities_and_conformity_of_a_case_by_hand():
    bags = Bags(leaves=np.array([[0, 1], [0, 2], [1, 2]]), times=np.array([[2, 1], [1, 0], [0, 3]]))
    near = proximities(bags, np.array([[0, 2]]))
    np.testing.assert_allclose(near, [[1 / 3, 1 / 6, 1 / 2]])
    # The five largest of a class that has fewer rows are all of it.
    np.testing.assert_allclose(conformity(near, np.array([0, 0, 1]), np.array([0])), [1 - (1 / 2) / (1 / 4)])


def test_what_is_said_of_trust_by_proximities(advice):
    page = page_of("rules").split("## Which rows to leave open")[1]
    won = {
        line[0].strip("*"): re.findall(r"\(\**(\d+:\d+)", line[1])
        for line in map(cells, page.splitlines())
        if len(line) == 7 and line[0].startswith("*")
    }
    better, worse = won["pool"][0].split(":")
    for text in (
        f"smaller than the mean's on {better} sets of two classes and larger on {worse}",
        f"{won['RF-ICE'][0]} by the neighbours that are right, {won['conformity'][0]} by conformity",
    ):
        assert text in " ".join(advice.split())
