"""The charts of engines: what they show is what the files of results hold."""

import numpy as np
import pytest

from tests._claims import results

pytest.importorskip("matplotlib")
from benchmarks.speed import shares_chart

pytestmark = pytest.mark.once


def test_shares_are_those_of_the_files():
    forests = shares_chart.of_forests(results("speed-cpu"))
    assert len(forests) == 4
    first = results("speed-cpu")["workloads"][0]
    own = next(one for one in first["engines"] if one["name"] == "jaxunc")["ratio_to_scikit_learn"]
    assert next(iter(forests.values()))["jaxunc"] == (own["median"], own["first_quartile"], own["third_quartile"])
    assert all("scikit-learn" not in of for of in forests.values())
    models = shares_chart.of_models(results("imported-cpu"))
    assert len(models) == len(results("imported-cpu")["models"])
    assert {name for of in models.values() for name in of} <= {"jaxunc", *shares_chart.OTHERS}


def test_every_mark_lies_within_the_axes(tmp_path, monkeypatch):
    monkeypatch.setattr(shares_chart, "RESULTS", tmp_path)
    shares = shares_chart.of_models(results("imported-cpu"))
    low, high = shares_chart._around(shares)
    assert all(low < value < high for of in shares.values() for one in of.values() for value in np.ravel(one))
    shares_chart.draw(shares, "1", "drawn")
    drawn = (tmp_path / "drawn.svg").read_text()
    assert all(name in drawn for name in ("jaxunc", "oneDAL", "CatBoost"))
