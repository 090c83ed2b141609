"""What is minimised, and its gradient by a rule's numbers, on many honest rows: against NumPy in float64."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.forest import DEFAULT_COUNTS
from jaxunc.learning import AucLoss, OobDataset, UtilityLoss, brier_loss_of, log_loss_of, loss_on
from jaxunc.learning._dataset import make_histograms
from jaxunc.learning._fit import _evaluate_loss
from tests._forests import forest_of_leaves
from tests._rules import PRIORS
from tests.many_rows._drawn import DISTINCT, SIZES, TREES, distinct_leaves, drawn

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]

C = 3
PRIOR = PRIORS[C]


def pool_scores(size_power=0.5, mean_power=0.75, strength=1.5, scale=1.25, bias=(0.0, 0.25, 0.5)) -> np.ndarray:
    """The learned pool's class scores of the distinct rows."""
    counts = distinct_leaves(C).astype(float)
    size = counts.sum(axis=2, keepdims=True) + strength
    share, weight = (counts + strength * PRIOR) / size, size**size_power
    mean = np.sum(weight * share**mean_power, axis=1) / weight.sum(axis=1)
    return scale / mean_power * np.log(mean) + np.asarray(bias)


def evidence_scores(smoothing=0.5) -> np.ndarray:
    """Those of the accumulation of evidence."""
    counts = distinct_leaves(C) + float(smoothing)
    return np.sum(np.log(counts / counts.sum(axis=2, keepdims=True)) - np.log(PRIOR), axis=1) + np.log(PRIOR)


POOL = {"size_power": 0.5, "mean_power": 0.75, "strength": 1.5, "scale": 1.25, "bias": np.array([0.0, 0.25, 0.5])}
RULES = {
    "pool": (lambda: ju.LearnedPool(PRIOR, **POOL), pool_scores, POOL),
    "evidence": (lambda: ju.EvidenceAccumulation(PRIOR, smoothing=0.5), evidence_scores, {"smoothing": 0.5}),
}


def shares_of(scores):
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def log_losses(scores) -> np.ndarray:
    """The loss of each distinct row for each label ``[distinct classes]``."""
    return -np.log(shares_of(scores))


def brier_losses(scores) -> np.ndarray:
    return np.sum((shares_of(scores)[:, None] - np.eye(C)) ** 2, axis=2)


def utility_losses(scores, temperature=0.05) -> np.ndarray:
    share, size = shares_of(scores), np.arange(1, C + 1)
    by_size = 1.6 / size - 0.6 / size**2
    falling = -np.sort(-share, axis=1)
    chosen = shares_of(np.cumsum(falling, axis=1) * by_size / temperature)
    middle = (falling[:, :-1] + falling[:, 1:]) / 2
    inside = 1 / (1 + np.exp(-(share[:, :, None] - middle[:, None]) / temperature))
    holds = np.concatenate([inside, np.ones((*share.shape, 1))], axis=2)
    return 1 - np.sum(chosen[:, None] * holds * by_size, axis=2)


LOSSES = {"log": (log_loss_of, log_losses), "brier": (brier_loss_of, brier_losses), "utility": (None, utility_losses)}


@lru_cache
def oob_dataset(n_rows: int) -> OobDataset:
    """Rows that show the leaves of the distinct ones, with labels and weights."""
    rng = np.random.default_rng(n_rows)
    table = distinct_leaves(C).reshape(-1, C)
    code = np.arange(len(table), dtype=np.int32).reshape(DISTINCT, TREES)[drawn(n_rows)]
    held = make_histograms(table, code, None)
    forest, _ = forest_of_leaves(distinct_leaves(C), PRIOR)
    y, weight = np.zeros(len(held.code), np.int32), np.zeros(len(held.code), np.float32)
    y[:n_rows], weight[:n_rows] = rng.integers(0, C, n_rows), rng.integers(0, 4, n_rows) / 2
    return OobDataset(
        *(held, jnp.asarray(y), jnp.asarray(weight), n_rows, TREES, tuple(range(C)), (DEFAULT_COUNTS,), "made up"),
        *(np.asarray(PRIOR), forest),
    )


@lru_cache
def weights(n_rows: int) -> np.ndarray:
    """How much each label of each distinct row counts ``[distinct classes]``."""
    rows = oob_dataset(n_rows)
    place = drawn(n_rows) * C + np.asarray(rows.y)[:n_rows]
    total = np.bincount(place, weights=np.asarray(rows.weight, float)[:n_rows], minlength=DISTINCT * C)
    return total.reshape(DISTINCT, C) / total.sum()


def slope(scores, loss, n_rows: int, numbers: dict, name: str, step: float = 1e-6) -> np.ndarray:
    """By one number, or by each of several: central differences."""
    value = np.asarray(numbers[name], float)
    found = np.empty(value.shape)
    for place in np.ndindex(value.shape):
        moved = np.zeros(value.shape)
        moved[place] = step
        above, below = (loss(scores(**{**numbers, name: value + way})) for way in (moved, -moved))
        found[place] = np.sum(weights(n_rows) * (above - below)) / (2 * step)
    return found


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rule", RULES)
def test_losses_and_gradients(rule, loss, n_rows):
    make, scores, numbers = RULES[rule]
    rows, (function, by_label) = oob_dataset(n_rows), LOSSES[loss]
    expected = np.sum(weights(n_rows) * by_label(scores(**numbers)))
    np.testing.assert_allclose(loss_on(make(), rows, loss=loss), expected, rtol=1e-5)
    function = UtilityLoss.of(C) if function is None else jax.tree_util.Partial(function)
    data = rows.data_for(make())
    gradient = jax.grad(_evaluate_loss)(make(), data, rows.y, rows.weight, float(TREES), function)
    for name in numbers:
        wanted = slope(scores, by_label, n_rows, numbers, name)
        np.testing.assert_allclose(getattr(gradient, name), wanted, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("n_rows", SIZES)
def test_loss_of_pairs(n_rows):
    rows = oob_dataset(n_rows)
    loss = AucLoss.of(rows.y, rows.weight, C, jax.random.key(0))
    found = loss_on(RULES["pool"][0](), rows, loss=loss)
    first, second, of_class = (np.asarray(part) for part in (loss.first, loss.second, loss.of_class))
    scores = pool_scores() - pool_scores().mean(axis=1, keepdims=True)
    place = drawn(n_rows)
    gap = scores[place[first], of_class] - scores[place[second], of_class]
    np.testing.assert_allclose(found, np.mean(np.logaddexp(0, -gap)) / np.log(2), rtol=1e-5)
