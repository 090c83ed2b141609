"""The page of the benchmark of rules: the winners and their tests, on made-up means."""

import re

import numpy as np
import pandas as pd
import pytest

from benchmarks import rules
from benchmarks.rules_page import rules_page, winner
from jaxunc import report

pytestmark = pytest.mark.once

GAIN = {"probability": 0.0, "better": 0.02, "worse": -0.03}


def made_up(n_sets=12, noise=0.01, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    keys = pd.MultiIndex.from_product(
        [[f"set-{i}" for i in range(n_sets)], rules.COUNTS, ["random-forest", "extra-trees"], [1, 4], GAIN],
        names=["set", "counts", "forest", "leaf_size", "rule"],
    )
    frame = keys.to_frame(index=False).assign(n_classes=n_classes)
    for measure in report.MEASURES:
        sign = 1 if measure in ("auc", "accuracy") else -1
        frame[measure] = 0.5 + sign * frame["rule"].map(GAIN) + noise * rng.normal(size=len(frame))
    return frame


def test_the_winner():
    values = made_up().query("counts == 'oob' and leaf_size == 4")
    values = values.pivot_table(index="set", columns="rule", values="auc")[list(GAIN)]
    best = winner(values, larger=True)
    gains = values["better"] - values["probability"]
    assert best.name == "better"
    assert (best["better"], best["worse"]) == ((gains > 0).sum(), (gains < 0).sum())
    assert best["gain"] == pytest.approx(gains.median(), abs=1e-6)
    assert best["p"] < 0.05
    assert winner(values, larger=False).name == "worse"


def test_without_a_difference_nothing_is_bold():
    page = rules_page(made_up(noise=0.0))
    assert "**`better`** (12:0, +0.0200)" in page
    assert "| `better` | 10 | 0 | 10 | 0 | 10 | 0 |" in page
    assert "| `worse` | 0 | 10 | 0 | 10 | 0 | 10 |" in page
    alike = made_up(noise=0.0)
    alike[list(report.MEASURES)] = 0.5
    assert "**`" not in rules_page(alike)


def test_the_page_and_its_pictures(tmp_path):
    everything = pd.concat(
        [made_up(), made_up(n_classes=3, seed=1).replace({"set": "set-"}, {"set": "more-"}, regex=True)]
    )
    rules.write(everything, tmp_path)
    page = (tmp_path / "rules.md").read_text(encoding="utf-8")
    assert "nan" not in page
    for picture in ("rules-auc.svg", "rules-brier.svg"):
        assert picture in page
        assert (tmp_path / picture).stat().st_size > 1000
    again = tmp_path / "again"
    rules.write(everything, again)
    for path in again.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_the_advice_of_the_readme_is_that_of_the_results():
    page = (rules.RESULTS / "rules.md").read_text(encoding="utf-8")
    readme = (rules.RESULTS.parents[1] / "README.md").read_text(encoding="utf-8")
    quoted = re.findall(r"\S*`[a-z-]+`\S* \(\d+:\d+, [+-][\d.]+\)", readme)
    assert len(quoted) >= 10
    assert [cell for cell in quoted if cell not in page] == []
