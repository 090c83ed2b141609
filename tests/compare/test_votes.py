"""Displays of votes that stop: what they draw is what they were given."""

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from jaxunc import compare

matplotlib.use("Agg")
pytestmark = pytest.mark.once


@pytest.fixture
def ax():
    """Axes of a figure that nobody shows."""
    return Figure().add_subplot()


def test_vote_paths(ax):
    critical = [np.nan, np.nan, 1.0, 0.9, 0.8]
    paths = {"sure": [1.0, 1.0, 1.0], "torn": [0.0, 0.5, 0.4, 0.5, 0.6]}
    display = compare.VotePathsDisplay.from_values(paths, critical, settled_after={"sure": 3}, ax=ax)
    for name, path in paths.items():
        np.testing.assert_allclose(display.lines_[name].get_ydata(), path)
        np.testing.assert_allclose(display.lines_[name].get_xdata(), np.arange(1, len(path) + 1))
    np.testing.assert_allclose([line.get_ydata() for line in display.critical_], [critical, 1 - np.array(critical)])
    assert {name: dot.get_xydata().tolist() for name, dot in display.dots_.items()} == {"sure": [[3.0, 1.0]]}
    assert len(compare.VotePathsDisplay(paths, critical).plot(ax, rival=False).critical_) == 1
    with pytest.raises(ValueError, match="torn has 5 trees, the critical curve 4"):
        compare.VotePathsDisplay(paths, critical[:4])
    with pytest.raises(ValueError, match="settled after 4 trees, but has 3"):
        compare.VotePathsDisplay(paths, critical, {"sure": 4})


def test_trees_needed(ax):
    values = [[6, 7, np.nan], [10, 100, 1000]]
    display = compare.TreesNeededDisplay.from_values([0, 1, 2], [0.0, 0.5], values, ax=ax)
    drawn = display.image_.get_array()
    np.testing.assert_array_equal(drawn.mask, np.isnan(values))
    np.testing.assert_allclose(drawn[~drawn.mask], [6, 7, 10, 100, 1000])
    assert display.image_.get_extent() == [-0.5, 2.5, -0.25, 0.75]
    assert display.image_.origin == "lower"
    assert display.colorbar_.ax.get_ylabel() == "trees polled"
    plain = compare.TreesNeededDisplay([0, 1], [0, 1], np.eye(2), measure="share").plot(
        ax, logarithmic=False, colorbar=False
    )
    assert plain.colorbar_ is None
    assert plain.image_.norm(1.0) == 1
    with pytest.raises(ValueError, match=r"\[vertical horizontal\] = \(2, 3\)"):
        compare.TreesNeededDisplay([0, 1, 2], [0, 1], np.zeros((3, 2)))
    with pytest.raises(ValueError, match="two or more of each"):
        compare.TreesNeededDisplay([0], [0, 1], np.zeros((2, 1)))


def test_settled(ax):
    shares = {"bagging": [1.0, 0.9, 0.7], "forest": [1.0, 0.8, 0.6]}
    display = compare.SettledDisplay.from_values([0.7, 0.9, 0.99], shares, marked=0.99, ax=ax)
    for name, line in display.lines_.items():
        np.testing.assert_allclose(line.get_xdata(), [0.7, 0.9, 0.99])
        np.testing.assert_allclose(line.get_ydata(), shares[name])
    assert set(display.mark_.get_xdata()) == {0.99}
    assert compare.SettledDisplay([0.9], {"one": [0.5]}).plot(ax).mark_ is None
    with pytest.raises(ValueError, match="forest has 3 shares; expected one for each of 2"):
        compare.SettledDisplay([0.9, 0.99], {"forest": [1, 2, 3]})


def test_polled(ax):
    display = compare.PolledDisplay.from_values([0, 6, 2, 0], 2, ax=ax)
    assert [bar.get_height() for bar in display.bars_] == pytest.approx([0, 0.6, 0.2, 0, 0.2])
    assert [bar.get_x() + bar.get_width() / 2 for bar in display.bars_[:4]] == pytest.approx([1, 2, 3, 4])
    assert display.bars_[-1].get_x() > 4
    assert set(display.mean_.get_xdata()) == {2.25}
    nobody = compare.PolledDisplay([0, 0], 3).plot(ax)
    assert nobody.mean_ is None
    assert len(compare.PolledDisplay([1, 0]).plot(ax, mean=False).bars_) == 2
    for wrong in ([[1, 2]], [-1, 2]):
        with pytest.raises(ValueError, match="for each number of trees"):
            compare.PolledDisplay(wrong)
    with pytest.raises(ValueError, match="nothing to draw"):
        compare.PolledDisplay([0, 0])
