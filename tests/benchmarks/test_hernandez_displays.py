"""Displays of votes: what they draw is what they were given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.studies.hernandez_lobato2011 import displays

pytestmark = pytest.mark.once


def test_vote_paths():
    ax = Figure().add_subplot()
    critical = [np.nan, np.nan, 1.0, 0.9, 0.8]
    paths = {"sure": [1.0, 1.0, 1.0], "torn": [0.0, 0.5, 0.4, 0.5, 0.6]}
    display = displays.VotePathsDisplay(paths, critical, settled_after={"sure": 3}).plot(ax)
    for name, path in paths.items():
        np.testing.assert_allclose(display.lines_[name].get_ydata(), path)
        np.testing.assert_allclose(display.lines_[name].get_xdata(), np.arange(1, len(path) + 1))
    np.testing.assert_allclose([line.get_ydata() for line in display.critical_], [critical, 1 - np.array(critical)])
    assert {name: dot.get_xydata().tolist() for name, dot in display.dots_.items()} == {"sure": [[3.0, 1.0]]}
    assert len(displays.VotePathsDisplay(paths, critical).plot(ax, rival=False).critical_) == 1


def test_trees_needed():
    ax = Figure().add_subplot()
    values = [[6, 7, np.nan], [10, 100, 1000]]
    display = displays.TreesNeededDisplay([0, 1, 2], [0.0, 0.5], values).plot(ax)
    drawn = display.image_.get_array()
    np.testing.assert_array_equal(drawn.mask, np.isnan(values))
    np.testing.assert_allclose(drawn[~drawn.mask], [6, 7, 10, 100, 1000])
    assert display.image_.get_extent() == [-0.5, 2.5, -0.25, 0.75]
    assert display.image_.origin == "lower"
    assert display.colorbar_.ax.get_ylabel() == "trees polled"
    plain = displays.TreesNeededDisplay([0, 1], [0, 1], np.eye(2), measure="share").plot(
        ax, logarithmic=False, colorbar=False
    )
    assert plain.colorbar_ is None
    assert plain.image_.norm(1.0) == 1


def test_settled():
    ax = Figure().add_subplot()
    shares = {"bagging": [1.0, 0.9, 0.7], "forest": [1.0, 0.8, 0.6]}
    display = displays.SettledDisplay([0.7, 0.9, 0.99], shares, marked=0.99).plot(ax)
    for name, line in display.lines_.items():
        np.testing.assert_allclose(line.get_xdata(), [0.7, 0.9, 0.99])
        np.testing.assert_allclose(line.get_ydata(), shares[name])
    assert set(display.mark_.get_xdata()) == {0.99}
    assert displays.SettledDisplay([0.9], {"one": [0.5]}).plot(ax).mark_ is None


def test_polled():
    ax = Figure().add_subplot()
    display = displays.PolledDisplay([0, 6, 2, 0], 2).plot(ax)
    assert [bar.get_height() for bar in display.bars_] == pytest.approx([0, 0.6, 0.2, 0, 0.2])
    assert [bar.get_x() + bar.get_width() / 2 for bar in display.bars_[:4]] == pytest.approx([1, 2, 3, 4])
    assert display.bars_[-1].get_x() > 4
    assert set(display.mean_.get_xdata()) == {2.25}
    nobody = displays.PolledDisplay([0, 0], 3).plot(ax)
    assert nobody.mean_ is None
    assert len(displays.PolledDisplay([1, 0]).plot(ax, mean=False).bars_) == 2
