"""Values, edges, precision, transformations and refusals of every metric."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import metrics
from tests._golden import golden
from tests._refusal import refusals
from tests.conftest import TYPED
from tests.metrics import _reference as reference

N = 36
"""Instances of most tests, so that they share compiled programs. (A multiple of the sizes of the reference data: every
metric stays as it is if all instances come twice.)"""


def _log(probs):
    with np.errstate(divide="ignore"):
        return jnp.log(probs) if isinstance(probs, jax.Array) else np.log(probs)


def many(*columns) -> list[np.ndarray]:
    """The same instances several times, so that they are N."""
    return [np.tile(column, (N // len(column), *[1] * (np.ndim(column) - 1))) for column in columns]


OF_PROBABILITIES = {
    "accuracy": metrics.accuracy,
    "auc": metrics.auc,
    "brier_score": metrics.brier_score,
    "log_loss": metrics.log_loss,
    "log_loss_from_logs": lambda probs, y: metrics.log_loss_from_logs(_log(probs), y),
    "calibration_error": metrics.calibration_error,
    "calibration_error_quantile": partial(metrics.calibration_error, strategy="quantile", norm="l2"),
}


@lru_cache
def predictions(n_classes: int, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with many ties (float32, multiples of 1/16) and labels that follow them."""
    rng = np.random.default_rng([n_classes, seed])
    cuts = np.sort(rng.integers(0, 17, size=(n, n_classes - 1)), axis=1)
    probs = np.diff(cuts, axis=1, prepend=0, append=16) / 16
    y = np.array([rng.choice(n_classes, p=p) for p in probs])
    return probs.astype(np.float32), y


@pytest.mark.parametrize("number", range(5))
@pytest.mark.exhaustive(keep=1)
def test_reference_values(number, tolerance):
    entry = golden("metrics")["classification"][number]
    ratios, y = np.array(entry["probabilities_num_den"], float), np.array(entry["y"])
    times = N // len(y)
    probs, y = np.tile(ratios[..., 0] / ratios[..., 1], (times, 1)), np.tile(y, times)
    correct = probs.argmax(axis=-1) == y
    np.testing.assert_array_equal(probs.argmax(axis=-1), np.tile(entry["predicted"], times))
    n_classes = probs.shape[1]
    values = {
        "brier_sum_over_classes": metrics.brier_score(probs, y),
        "brier_mean_over_classes": 2 / n_classes * float(metrics.brier_score(probs, y, scale_by_half=True)),
        "auc_macro": metrics.auc(probs, y),
        "auc_reliability": metrics.auc(probs.max(axis=-1), correct),
        "log_loss": metrics.log_loss(probs, y),
    }
    for name, value in values.items():
        tolerance.check(value, float(entry[name]), what=name)
    tolerance.check(metrics.log_loss_from_logs(_log(probs), y), float(entry["log_loss"]))
    areas = [float(metrics.auc(probs[:, c], y == c)) for c in range(n_classes)]
    tolerance.check(areas, entry["auc_one_vs_rest"])
    tolerance.check(metrics.accuracy(probs, y), np.mean(correct))


small_scores = hnp.arrays(np.float32, 12, elements=st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1e-40, 2e-40, 0.5, 3e38]))


@given(small_scores, hnp.arrays(bool, 12))
def test_auc_of_any_scores(score, y):
    np.testing.assert_allclose(metrics.auc(score, y), reference.auc(score, y), rtol=2e-7)
    mirrored = metrics.auc(-score, ~y)
    np.testing.assert_allclose(mirrored, reference.auc(score, y), rtol=2e-7)


@given(hnp.arrays(np.int32, (12, 4), elements=st.integers(0, 5)), hnp.arrays(np.int8, 12, elements=st.integers(0, 3)))
def test_auc_of_any_class_scores(scores, y):
    """Classes that nobody has, or everybody, are left out."""
    result = metrics.auc(scores, y)
    np.testing.assert_allclose(result, reference.auc_one_vs_rest(scores, y), rtol=5e-7)


SUBNORMAL = np.array([[1e-40, 2e-40], [2e-40, 1e-40]], np.float32)


def test_differences_that_a_float_does_not_see(x64):
    y, step = np.array([0, 0, 1, 1]), np.arange(4)
    wide = 1 + step * 1e-12
    for score in (wide, np.stack([-wide, wide], axis=-1), 2**40 + step, 2**24 + step.astype(np.int32)):
        assert metrics.auc(*many(score, y)) == 1
    for scores in ([[0.5, 0.5 + 1e-9], [0.5 + 1e-9, 0.5]], [[1, 2**33], [2**33 + 1, 2**33]], SUBNORMAL):
        assert metrics.accuracy(*many(np.array(scores), np.array([1, 0]))) == 1
    if x64:
        assert metrics.auc(jnp.asarray(wide), y) == 1
        assert metrics.auc(jnp.asarray(step * 5e-324), y) == 1


def test_degenerate_probabilities_and_undefined_areas():
    certain, y = many(np.eye(2), np.array([0, 1]))
    for name, value in {"accuracy": 1, "auc": 1, "brier_score": 0, "log_loss": 0, "calibration_error": 0}.items():
        assert float(OF_PROBABILITIES[name](certain, y)) == value, name
    for name, value in {"accuracy": 0, "auc": 0, "brier_score": 2, "calibration_error": 1}.items():
        assert float(OF_PROBABILITIES[name](certain, 1 - y)) == value, name
    assert float(metrics.brier_score(certain, 1 - y, scale_by_half=True)) == 1
    assert float(metrics.log_loss(certain, 1 - y)) == np.inf
    assert float(metrics.log_loss_from_logs(_log(certain), 1 - y)) == np.inf
    # Too small for a probability, but not for its logarithm.
    logs = np.tile(np.array([0.0, -800.0]), (N, 1))
    assert float(metrics.log_loss(np.exp(logs).astype(np.float32), y)) == np.inf
    assert float(metrics.log_loss_from_logs(logs, y)) == 400
    # Every class vetoed, or two alike: ties, which the lowest index wins.
    (tied,) = many(np.array([[-np.inf, -np.inf], [0.5, 0.5]]))
    for label in (0, 1):
        assert float(metrics.accuracy(tied, np.full(N, label))) == 1 - label
    score = np.arange(N)
    for y in (np.zeros(N, int), np.ones(N, bool)):
        for area in (metrics.auc(score, y), metrics.auc(np.stack([-score, score], axis=-1), y)):
            assert np.isnan(area)


@pytest.mark.parametrize("name", OF_PROBABILITIES)
def test_order_of_instances_does_not_matter(name, rng):
    probs, y = predictions(3)
    probs, order = (probs.astype(float) + 0.125) / 1.375, rng.permutation(N)
    shuffled = OF_PROBABILITIES[name](probs[order], y[order])
    np.testing.assert_allclose(shuffled, OF_PROBABILITIES[name](probs, y), rtol=3e-7)


@pytest.mark.once
@pytest.mark.parametrize("name", OF_PROBABILITIES)
@pytest.mark.exhaustive(keep=1)
def test_transformations(name, x64):
    metric = OF_PROBABILITIES[name]
    probs, y = (np.stack(a) for a in zip(*(predictions(3, seed=s) for s in (0, 1, 2, 0, 0, 0)), strict=True))
    probs = ((probs + 0.125) / 1.375).astype(float)
    eager = [metric(p, labels) for p, labels in zip(probs, y, strict=True)]
    for value in eager:
        assert value.shape == ()
        assert value.dtype == (np.float64 if x64 else np.float32)
    # Where nothing can be raised, what is no label makes NaN, and so does NaN.
    y[3, 5], y[4, 5], probs[5, 5] = 3, -1, np.nan
    np.testing.assert_allclose(
        jax.jit(jax.vmap(metric))(jnp.asarray(probs), jnp.asarray(y)), [*eager[:3], *[np.nan] * 3], rtol=1e-6
    )


def test_precision_of_the_answer_and_lists():
    """It is that of the predictions, float32 at least; labels do not matter. Lists and frames are taken."""
    probs, y = predictions(3)
    for dtype in (np.float16, np.float32):
        for labels in (np.uint8, np.int32, np.int64):
            assert metrics.brier_score(probs.astype(dtype), y.astype(labels)).dtype == np.float32
    if not TYPED:  # the type hook refuses them
        pandas = pytest.importorskip("pandas")
        assert metrics.accuracy([[0.25, 0.75], [0.5, 0.5]], [1, 1]) == 0.5
        assert metrics.auc(pandas.Series([0.1, 0.2]), pandas.Series([0, 1])) == 1


def test_transformations_of_auc(x64):
    reliability, correct = np.arange(2 * N).reshape(2, N) % 5 / 4, np.arange(2 * N).reshape(2, N) % 3 > 0
    result = jax.jit(jax.vmap(metrics.auc))(reliability, correct)
    assert result.dtype == (np.float64 if x64 else np.float32)
    for together, of, right in zip(np.asarray(result), reliability, correct, strict=True):
        np.testing.assert_allclose([together, metrics.auc(of, right)], reference.auc(of, right), rtol=1e-6)


@pytest.mark.exhaustive
def test_gradients(rng, x64):
    """Along a random direction, against differences of the definitions in float64."""
    y = predictions(3)[1]
    bins = [(5, "l1", "uniform"), (5, "l2", "quantile"), (5, "max", "uniform")]
    logits, direction = rng.normal(size=(2, N, 3)) + 2 * np.eye(3)[y] * np.array([1, 0])[:, None, None]

    def of_logits(x):
        probs = jax.nn.softmax(x)
        errors = [metrics.calibration_error(probs, y, n_bins=b, norm=n, strategy=s) for b, n, s in bins]
        logs = metrics.log_loss_from_logs(jax.nn.log_softmax(x), y)
        return jnp.stack([metrics.brier_score(probs, y), metrics.log_loss(probs, y), logs, *errors])

    def defined(x):
        probs = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
        errors = [reference.calibration_error(probs, y, *options) for options in bins]
        loss = reference.log_loss(probs, y)
        return np.array([reference.brier_score(probs, y), loss, loss, *errors])

    jacobian = jax.jit(jax.jacrev(of_logits))(jnp.asarray(logits))
    slope = np.sum(np.asarray(jacobian, float) * direction, axis=(1, 2))
    step = 1e-6
    expected = (defined(logits + step * direction) - defined(logits - step * direction)) / (2 * step)
    assert np.all(np.abs(expected) > 1e-3)
    np.testing.assert_allclose(slope, expected, rtol=1e-6 if x64 else 1e-4)


@pytest.mark.exhaustive
def test_gradients_at_the_edges():
    certain, y = jnp.eye(2), np.array([1, 1])

    @jax.jit
    def gradients(probs, score):
        of_norm = [partial(metrics.calibration_error, norm=norm) for norm in ("l1", "l2", "max")]
        calibrated = [jax.grad(error)(probs, np.array([0, 1])) for error in of_norm]
        flat = [jax.grad(metrics.accuracy)(probs, y), jax.grad(metrics.auc)(probs, np.array([0, 1]))]
        flat += [jax.grad(metrics.auc)(score, np.array([0, 1]))]
        return jax.grad(metrics.log_loss)(probs, y), calibrated, flat

    loss, calibrated, flat = gradients(certain, jnp.arange(2.0))
    assert np.all(np.isfinite(loss))
    assert loss[0, 1] < -1e15
    for one in calibrated:
        assert np.all(np.isfinite(one))
    for one in flat:
        np.testing.assert_array_equal(one, 0)


HALVES, Y = np.full((4, 2), 0.5), np.array([0, 1, 0, 1])
LABELS = {
    "labels as floats": (HALVES, np.zeros(4), "y has dtype float.*class indices", TypeError),
    "words": (HALVES, np.array(["no", "ye", "no", "no"]), "y has dtype <U2.*searchsorted", TypeError),
    "label beyond": (HALVES, np.array([0, 1, 2, 1]), r"y holds 2, but class indices lie in \[0, 2\)"),
    "negative label": (HALVES, np.array([0, 1, -1, 1]), "y holds -1"),
    "fewer labels": (HALVES, Y[:3], r"y has shape \(3,\); expected \(4,\)"),
    "a column": (HALVES, Y[:, None], r"y has shape \(4, 1\)"),
    "nothing": (HALVES[:0], Y[:0], "empty"),
}
SUMS = "probabilities.*adding to 1.*use the combiner's"
NO_PROBABILITIES = {
    **{f"sums of {2 * wrong}": (np.full((4, 2), wrong), Y, SUMS) for wrong in (0.45, np.nan, 1e30)},
    "one class": (np.ones((4, 1)), Y, r"expected \[instances classes\]"),
    "one axis": (HALVES[:, 0], Y, r"expected \[instances classes\].*stack"),
}


test_refusals = refusals(
    *(
        (f"{name}, {what}", partial(metric, probs, y), *words)
        for name, metric in (OF_PROBABILITIES | {"reliability_curve": metrics.reliability_curve}).items()
        for what, (probs, y, *words) in (LABELS | ({} if name in ("auc", "accuracy") else NO_PROBABILITIES)).items()
    ),
    ("three axes", lambda: metrics.auc(np.zeros((4, 2, 2)), Y), "score has shape"),
)
