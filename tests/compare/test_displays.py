"""Displays: what they draw is what they were given. The map of two uncertainties: what it counts, and where."""

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import binom

from jaxunc import compare, metrics
from jaxunc.compare import uncertainty_map
from jaxunc.compare._displays import PALETTE
from tests._refusal import refusals

matplotlib.use("Agg")

pytestmark = pytest.mark.once


@pytest.fixture
def ax():
    return Figure().add_subplot()


@pytest.fixture(scope="module")
def many():
    """Many predictions: confidences, hits, two uncertainties."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 20_000).astype(np.float32)
    probs = np.stack([1 - confidence, confidence], axis=1)
    right = rng.random(len(confidence)) < confidence
    return probs, right, rng.random((2, len(confidence)), dtype=np.float32) / 2


def texts(labels) -> list[str]:
    return [label.get_text() for label in labels]


def assert_lines(display, values: dict):
    for name, line in display.lines_.items():
        np.testing.assert_allclose(line.get_ydata(), values[name])


@pytest.mark.exhaustive
def test_reliability(ax, many):
    probs, right, _ = many
    display = compare.ReliabilityDisplay.from_predictions(probs, right.astype(int), name="honest", ax=ax, color="k")
    curve = metrics.reliability_curve(probs, right.astype(int))
    filled = np.asarray(curve.size) > 0
    np.testing.assert_allclose(display.line_.get_data(), np.stack([curve.confidence, curve.accuracy])[:, filled], 1e-6)
    assert display.ax_ is ax
    assert display.line_.get_label() == "honest"
    assert len(ax.lines) == 2, "the diagonal, and one point per filled bin"
    empty = compare.ReliabilityDisplay(metrics.ReliabilityCurve(*np.zeros((3, 2)))).plot(ax, reference=False)
    assert len(empty.line_.get_xdata()) == 0


@pytest.mark.exhaustive
def test_rejection_and_risk(ax, many):
    probs, right, _ = many
    certainty = probs[:, 1]
    kept = compare.RejectionDisplay.from_predictions(certainty, right, ax=ax)
    assert len(kept.line_.get_xdata()) == 200, "however many instances"
    assert kept.line_.get_ydata()[0] == pytest.approx(right.mean(), abs=1e-6)
    risk = compare.RiskCoverageDisplay.from_predictions(certainty, right, n_points=10, ax=ax)
    assert risk.line_.get_ydata()[-1] == pytest.approx(1 - right.mean(), abs=1e-6)
    assert risk.line_.get_xdata()[0] == pytest.approx(0.1)


def test_uncertainty(ax, many):
    _, right, (aleatoric, epistemic) = many
    display = compare.UncertaintyDisplay.from_predictions(aleatoric, epistemic, right, n_bins=8, ax=ax)
    assert len(display.squares_.get_paths()) == 16, "half of each axis is filled"
    counted = uncertainty_map(aleatoric, epistemic, right, n_bins=8)
    size, errors = np.asarray(counted.size), np.asarray(counted.errors)
    np.testing.assert_allclose(display.squares_.get_array(), (errors / np.maximum(size, 1))[size > 0])
    assert display.colorbar_ is not None
    nothing = compare.UncertaintyMap(*np.zeros((2, 8, 8), int), *np.tile(np.linspace(0, 1, 9), (2, 1)))
    assert compare.UncertaintyDisplay(nothing).plot(ax, colorbar=False).colorbar_ is None


def test_leaf_sizes_and_new_axes(ax):
    values = {f"combiner {i}": [0.1 * i, 0.2 * i] for i in range(9)}
    display = compare.LeafSizeDisplay.from_values((1, 8), values, measure="accuracy", ax=ax)
    assert texts(ax.get_xticklabels()) == ["1", "8"]
    assert_lines(display, values)
    colours = {line.get_color() for line in display.lines_.values()}
    assert len(colours) == len(PALETTE) + 1, "seven stand out, the others are grey"
    looks = {(line.get_marker(), line.get_linestyle()) for line in list(display.lines_.values())[-7:]}
    assert len(looks) > 3, "without colours too"
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    again = compare.LeafSizeDisplay((1, 2), {"vote": [1.0, 2.0]}, measure="AUC")
    assert again.plot().ax_ is ax
    assert again.plot().ax_ is plt.gca() is not ax
    plt.close("all")


def test_complexity(ax):
    values = {"before": [0.5, 0.4], "after": [0.3, 0.35]}
    display = compare.ComplexityDisplay.from_values(("0", "pruned"), values, [0.2, 0.3], [0.6, 0.5], measure="x", ax=ax)
    assert_lines(display, values)
    ends = display.band_.get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == (0.2, 0.6)
    assert texts(ax.get_xticklabels()) == ["0", "pruned"]
    assert ax.get_xlabel() == "trees, the largest on the left (cp)"
    leaves = compare.ComplexityDisplay(("1", "8"), values, [0.2, 0.3], [0.6, 0.5], measure="x", axis="leaf").plot(ax)
    assert leaves.ax_.get_xlabel() == "leaf"


INTERVALS = ([0.2, 0.7], [0.1, 0.8], [0.1, 0.6], [0.3, 0.8])
"""The mean in a bin, the share that came true, and the ends."""


def test_interval_reliability(ax):
    display = compare.IntervalReliabilityDisplay.from_values(*INTERVALS, name="tree", ax=ax)
    np.testing.assert_allclose(display.line_.get_xdata(), INTERVALS[0])
    bars = [[[0.1, 0.1], [0.3, 0.1]], [[0.6, 0.8], [0.8, 0.8]]]
    assert [segment.tolist() for segment in display.bars_.get_segments()] == bars
    assert len(ax.lines) == 2
    sized = compare.IntervalReliabilityDisplay.from_values(*INTERVALS, size=[30, 90], ax=ax, band=False)
    assert sized.band_ is None
    assert ax.collections[-1].get_sizes().tolist() == [30, 90], "dots grow with the bins"


def test_strength(ax):
    values = {"equal": [0.8, 0.7], "averaged": [0.75, 0.6]}
    display = compare.StrengthDisplay.from_values((0.5, 10), values, measure="u65", reference={"mean": 0.72}, ax=ax)
    assert_lines(display, values)
    assert set(display.references_["mean"].get_ydata()) == {0.72}
    assert texts(ax.get_xticklabels()) == ["0.5", "10"]


def test_set_sizes(ax):
    shares = [[0.9, 0.1, 0.0], [0.5, 0.3, 0.2]]
    display = compare.SetSizeDisplay.from_values((1, 5), shares, ax=ax)
    np.testing.assert_allclose([[bar.get_height() for bar in bars] for bars in display.bars_], np.transpose(shares))
    assert [round(bar.get_y(), 9) for bar in display.bars_[2]] == [1.0, 0.8], "each on top of the smaller ones"
    assert texts(ax.get_legend().get_texts()) == ["1", "2", "3"]


ENDS, TRUTH = np.array([[0.0, 4.0], [1.0, 2.0], [2.0, 5.0]]), np.array([5.0, 1.5, 2.0])


def test_prediction_intervals(ax):
    display = compare.PredictionIntervalDisplay.from_predictions(ENDS, TRUTH, name="law", ax=ax)
    assert [bar.tolist() for bar in display.bars_.get_segments()] == [
        [[i, low], [i, high]] for i, (low, high) in enumerate(ENDS[[1, 2, 0]])
    ], "the narrowest first"
    assert display.held_.get_xydata().tolist() == [[0, 1.5], [1, 2.0]], "an end is held"
    assert display.missed_.get_xydata().tolist() == [[2, 5.0]]
    assert display.bars_.get_label() == "law"
    many = compare.PredictionIntervalDisplay(np.sort(np.random.default_rng(0).normal(size=(5000, 2))), np.zeros(5000))
    drawn = np.ptp([bar[:, 1] for bar in many.plot(ax, most=50, color="k").bars_.get_segments()], axis=1).ravel()
    assert len(drawn) == 50
    assert np.all(np.diff(drawn) >= 0)
    widths = np.ptp(many.interval, axis=1)
    assert (drawn[0], drawn[-1]) == (widths.min(), widths.max())


class Asked:
    """What answers with intervals of as many numbers on both sides as their coverage in tenths."""

    def predict_interval(self, X, coverage=0.9):
        return X[:, :1] + np.array([-10, 10]) * coverage


def test_coverage(ax):
    y = np.arange(10.0)
    display = compare.CoverageDisplay.from_estimator(Asked(), np.zeros((10, 1)), y, name="law", ax=ax)
    np.testing.assert_allclose(display.line_.get_xdata(), np.arange(1, 10) / 10)
    np.testing.assert_allclose(display.line_.get_ydata(), np.arange(2, 11) / 10, err_msg="0 to 10 c are held")
    assert display.n == 10
    band = display.band_.get_paths()[0].vertices
    at_half = band[np.isclose(band[:, 0], 0.5), 1]
    np.testing.assert_allclose([at_half.min(), at_half.max()], binom.ppf([0.025, 0.975], 10, 0.5) / 10)
    again = compare.CoverageDisplay.from_predictions(ENDS[None], TRUTH, coverages=[0.5], ax=ax, color="k", marker="s")
    assert again.line_.get_ydata().tolist() == [2 / 3]
    assert compare.CoverageDisplay([0.5], [0.4]).plot(ax, reference=False).band_ is None
    shown = compare.PredictionIntervalDisplay.from_estimator(Asked(), np.zeros((10, 1)), y, coverage=0.3, ax=ax)
    assert len(shown.held_.get_xdata()) == 4


def test_map_of_the_definition_and_of_one_instance(rng):
    values, correct = rng.integers(-1, 11, size=(2, 36)) / 8, rng.random(36) < 0.5
    values = values.astype(np.float32)
    drawn = uncertainty_map(*values, correct, n_bins=4, upper=(1.0, 0.5))
    edges = (np.arange(5) / 4, np.arange(5) / 8)
    inside = np.clip(values, 0, np.array([[1.0], [0.5]]))
    np.testing.assert_array_equal(drawn.size, np.histogram2d(*inside, bins=edges)[0])
    np.testing.assert_array_equal(drawn.errors, np.histogram2d(*inside[:, ~correct], bins=edges)[0])
    np.testing.assert_array_equal((drawn.aleatoric_edges, drawn.epistemic_edges), edges)
    assert drawn.size.dtype == drawn.errors.dtype == np.int32

    folds = [uncertainty_map(*values[:, i::2], correct[i::2], n_bins=4, upper=(1.0, 0.5)) for i in (0, 1)]
    np.testing.assert_array_equal(folds[0].size + folds[1].size, drawn.size)
    np.testing.assert_array_equal(folds[0].errors + folds[1].errors, drawn.errors)
    drawn = uncertainty_map(np.float32([7]), np.float32([-1e-9]), np.array([0]), n_bins=2)
    np.testing.assert_array_equal(drawn.size, [[0, 0], [1, 0]])
    np.testing.assert_array_equal(drawn.errors, drawn.size)


@pytest.mark.exhaustive
def test_transformations_of_a_map(x64):
    certainty, correct = np.arange(24).reshape(2, 12) % 5 / 4, np.arange(24).reshape(2, 12) % 3 > 0
    draw = lambda s, c: uncertainty_map(s, 1 - s, c, n_bins=3)
    together = jax.jit(jax.vmap(draw))(jnp.asarray(certainty), jnp.asarray(correct))
    for i in range(2):
        for a, b in zip(draw(jnp.asarray(certainty[i]), correct[i]), together, strict=True):
            assert a.dtype == b.dtype == (np.int32 if a.ndim == 2 else np.float64 if x64 else np.float32)
            np.testing.assert_allclose(a, b[i], rtol=1e-6)


def test_what_is_unknown_in_a_trace_is_left_out_and_strict_promotion():
    values, correct = jnp.arange(12.0), jnp.arange(12) % 2
    draw = jax.jit(lambda v, c: uncertainty_map(v, v, c, n_bins=3))
    assert np.sum(draw(values, correct).size) == 12
    for broken in (draw(values.at[3].set(jnp.nan), correct), draw(values, correct.at[3].set(2))):
        assert np.sum(broken.size) == 11
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        assert jax.eval_shape(uncertainty_map, values, values, correct).size.shape == (20, 20)


LINES, SHARES = {"equal": [0.8, 0.7], "averaged": [0.5]}, np.array([[0.9, 0.1], [0.5, 0.5]])
MEAN, HITS, _, UPPER = INTERVALS
V, CORRECT = np.arange(4.0), np.array([0, 1, 0, 1])


def drawn(aleatoric=V, epistemic=V, correct=CORRECT, **options):
    return partial(uncertainty_map, aleatoric, epistemic, correct, **options)


def covered(nominal, shares, **settings):
    return partial(compare.CoverageDisplay, nominal, shares, **settings)


test_refusals = refusals(
    ("trees", partial(compare.ComplexityDisplay, "012", LINES, MEAN, UPPER, measure="x"), "each of 3 trees"),
    ("bins", partial(compare.IntervalReliabilityDisplay, MEAN, HITS, [0.1], UPPER), "2, 2, 1, 2 bins"),
    ("strengths", partial(compare.StrengthDisplay, (1, 2), LINES, measure="u65"), "averaged has 1 values; expected"),
    ("set sizes", partial(compare.SetSizeDisplay, (1, 2, 3), SHARES), r"\[strengths sizes\] with 3 rows"),
    ("set shares", partial(compare.SetSizeDisplay, (1, 2), SHARES * 10), "do not add to 1"),
    ("ends", partial(compare.PredictionIntervalDisplay, ENDS, TRUTH[:2]), r"interval has shape \(3, 2\) and y \(2,\)"),
    ("no intervals", partial(compare.PredictionIntervalDisplay, ENDS[:0], []), "each of the numbers in y"),
    ("NaN", partial(compare.PredictionIntervalDisplay, ENDS, TRUTH * np.nan), "holds NaN"),
    ("coverages", covered([0.1, 0.9], [0.5]), "a share for each coverage"),
    *((f"coverage {share}", covered([share], [0.5]), "nominal") for share in (0, 1, np.nan)),
    ("no shares", covered([0.5], [1.5]), r"no shares in \[0, 1\]"),
    ("no rows", covered([0.5], [0.5], n=0), "n=0 is below 1"),
    ("axes", lambda: compare.CoverageDisplay.from_predictions(ENDS, TRUTH, coverages=[0.5]), "intervals has shape"),
    (
        "no target",
        lambda: compare.CoverageDisplay.from_predictions(ENDS[None], TRUTH * np.nan, coverages=[0.5]),
        "intervals or y holds NaN",
    ),
    ("no law", lambda: compare.CoverageDisplay.from_estimator(3, TRUTH, TRUTH), "is a int without predict", TypeError),
    ("NaN in a map", drawn(V * np.nan), "aleatoric holds NaN"),
    ("epistemic NaN", drawn(V, V * np.nan), "epistemic holds NaN"),
    ("classes", drawn(np.zeros((4, 2))), r"aleatoric has shape \(4, 2\).*summed over the classes"),
    ("epistemic of classes", drawn(V, np.zeros((4, 2))), r"epistemic has shape \(4, 2\).*summed over the classes"),
    ("lengths", drawn(V, V[:3]), r"epistemic has shape \(3,\) and aleatoric \(4,\)"),
    ("length of correct", drawn(correct=CORRECT[:3]), r"correct has shape \(3,\)"),
    ("correct", drawn(correct=2 * CORRECT), "correct holds 2"),
    ("no instances", drawn(V[:0], V[:0], CORRECT[:0]), "correct is empty"),
    ("floats", drawn(correct=CORRECT.astype(float)), "correct has dtype float", TypeError),
    ("no bins", drawn(n_bins=0), "n_bins=0 must be at least 1"),
    ("half a bin", drawn(n_bins=2.5), "integer", TypeError),
    *(
        (f"upper {upper}", drawn(upper=upper), "upper.*two positive numbers")
        for upper in ((1.0, 0.0), (np.inf, 1.0), (np.nan, 1.0), (1.0,))
    ),
)
