"""Losses of answers that are minimised: weighted means over rows."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int32, PyTree

from jaxunc._checks import check_numbers, check_one_of, check_within
from jaxunc.combiners import Answer, Preference, kind_of
from jaxunc.decisions import utility_of_sizes
from jaxunc.tables import NumbersLike

LOSSES = ("log", "brier", "auc", "utility")


def log_loss_of(answer: Answer, y: Int32[Array, "rows"], weight: Float[Array, "rows"]) -> Float[Array, ""]:
    """Return the logarithmic loss -log P(y) of a combiner's answer: the mean over rows by weights ≥ 0; the default."""
    log_share = _of_answer(answer, "log_probability")
    _check_rows_of(y, weight, len(log_share))
    return _mean(-jnp.take_along_axis(log_share, y[:, None], axis=1)[:, 0], weight)


def brier_loss_of(answer: Answer, y: Int32[Array, "rows"], weight: Float[Array, "rows"]) -> Float[Array, ""]:
    """Return the Brier loss Σ_c (P(c) - [y = c])² of a combiner's answer: the mean over rows by weights ≥ 0."""
    share = _of_answer(answer, "probability")
    _check_rows_of(y, weight, len(share))
    return _mean(jnp.sum((share - jax.nn.one_hot(y, share.shape[1], dtype=share.dtype)) ** 2, axis=1), weight)


class AucLoss(eqx.Module):
    """A smooth upper bound of 1 - AUC: log₂(1 + e^{-d/τ}) of the differences d of class scores between pairs of rows.

    Each class against the rest, as many pairs of each, drawn once by weight.
    """

    first: Int32[Array, "pairs"]
    """Place of the row of the class."""
    second: Int32[Array, "pairs"]
    """Place of the row of another class."""
    of_class: Int32[Array, "pairs"]
    """The class that the pair is about."""
    temperature: Float[Array, ""]
    """τ > 0: the smaller, the closer to 1 - AUC."""

    def __check_init__(self) -> None:
        for name in ("first", "second", "of_class"):
            check_numbers(name, getattr(self, name))
        check_within("temperature", self.temperature, "(0, inf)")

    @classmethod
    def of(
        cls,
        y: NumbersLike,
        weight: NumbersLike,
        n_classes: int,
        key: jax.Array,
        n_pairs: int = 2**16,
        temperature: float = 1.0,
    ) -> "AucLoss":
        """Draw pairs of a row of a class and a row of another one."""
        y, weight = np.asarray(y), np.asarray(weight, float)
        # NumPy draws with weights far faster; its seed is taken from JAX's key.
        rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,), "uint32")))
        classes = [1] if n_classes == 2 else range(n_classes)
        first, second, of_class = [], [], []
        for c in classes:
            for rows, out in (((y == c) & (weight > 0), first), ((y != c) & (weight > 0), second)):
                which = np.flatnonzero(rows)
                share = weight[which] / weight[which].sum()
                out.append(rng.choice(which, n_pairs // len(classes), p=share))
            of_class.append(np.full(n_pairs // len(classes), c))
        as_array = lambda parts: jnp.asarray(np.concatenate(parts), jnp.int32)  # noqa: E731
        return cls(
            as_array(first), as_array(second), as_array(of_class), jnp.asarray(temperature, jnp.result_type(float))
        )

    def __call__(self, answer: Answer, y: Array, weight: Array) -> Float[Array, ""]:
        """Return the mean over pairs."""
        # Only differences between classes say anything: a number added to all scores of a row must not rank it.
        scores = answer.class_scores - jnp.mean(answer.class_scores, axis=1, keepdims=True)
        gap = scores[self.first, self.of_class] - scores[self.second, self.of_class]
        return jnp.mean(jax.nn.softplus(-gap / self.temperature.astype(gap.dtype))) / np.log(2)


class UtilityLoss(eqx.Module):
    """One less the utility of the set that would be answered, where the choice among sets is softened.

    For probabilities this softens the choice among the sets of the k most probable classes, by a softmax of their
    expected utilities over τ; and whether each holds the truth, by a logistic function over τ. For a `Preference` each
    class is in the set by a logistic function of the mass beyond one half over τ.
    """

    by_size: Float[Array, "classes"]
    """Utility of a set of 1, 2, … classes that holds the true one."""
    temperature: Float[Array, ""]
    """τ > 0: the smaller, the harder the choice."""

    def __check_init__(self) -> None:
        check_within("by_size", self.by_size, "[0, inf)", ": the utility of a right set by its size", shape=None)
        check_within("temperature", self.temperature, "(0, inf)")

    @classmethod
    def of(cls, n_classes: int, utility: Any = 65, temperature: float = 0.05) -> "UtilityLoss":
        """Make the loss; ``utility`` is 50, 65, 80, or the utility of a right set by its size."""
        return cls(utility_of_sizes(utility, n_classes), jnp.asarray(temperature, jnp.result_type(float)))

    def __call__(self, answer: Answer | Preference, y: Array, weight: Array) -> Float[Array, ""]:
        """Return the weighted mean over rows."""
        if isinstance(answer, Preference):
            return _mean(1 - self._of_memberships(answer, y), weight)
        share = _of_answer(answer, "probability")
        by_size = self.by_size.astype(share.dtype)
        temperature = self.temperature.astype(share.dtype)
        falling = -jnp.sort(-share, axis=1)
        chosen = jax.nn.softmax(jnp.cumsum(falling, axis=1) * by_size / temperature, axis=1)
        # The k most probable classes hold the truth if that lies above the middle between the last and the next one.
        middle = (falling[:, :-1] + falling[:, 1:]) / 2
        inside = jax.nn.sigmoid((jnp.take_along_axis(share, y[:, None], axis=1) - middle) / temperature)
        holds = jnp.concatenate([inside, jnp.ones_like(share[:, :1])], axis=1)
        return _mean(1 - jnp.sum(chosen * holds * by_size, axis=1), weight)

    def _of_memberships(self, answer: Preference, y) -> Float[Array, "rows"]:
        mass = jnp.asarray(answer.mass)
        total = jnp.maximum(jnp.asarray(answer.total), jnp.finfo(mass.dtype).tiny)[..., None, None]
        beaten = jax.nn.sigmoid((mass / total - 0.5) / self.temperature.astype(mass.dtype))
        n_classes = mass.shape[-1]
        beaten = jnp.where(jnp.eye(n_classes, dtype=bool), jnp.zeros_like(beaten), beaten)
        inside = jnp.prod(1 - beaten, axis=-2)
        own = jnp.take_along_axis(inside, y[:, None], axis=1)[:, 0]
        # How many of the others are inside: one class after the other.
        others = jnp.where(jax.nn.one_hot(y, n_classes, dtype=bool), jnp.zeros_like(inside), inside)
        number = jnp.zeros_like(inside).at[:, 0].set(1)
        for c in range(n_classes):
            p = others[:, c : c + 1]
            more = jnp.concatenate([jnp.zeros_like(p), number[:, :-1]], axis=1)
            number = number * (1 - p) + more * p
        return own * jnp.sum(number * self.by_size.astype(mass.dtype), axis=1)


def as_loss(loss: str | Callable[..., Any], y: Array, weight: Array, n_classes: int, key: jax.Array) -> Any:
    """Return a loss by its name, or a function of (answer, y, weight) of the user's own, as a pytree."""
    if not isinstance(loss, str):
        if not callable(loss):
            raise TypeError(f"loss={loss!r:.60} must be one of {LOSSES}, or a function of (answer, y, weight).")
        return loss if isinstance(loss, (eqx.Module, Partial)) else Partial(loss)
    check_one_of("loss", loss, LOSSES)
    if loss == "auc":
        return AucLoss.of(y, weight, n_classes, key)
    if loss == "utility":
        return UtilityLoss.of(n_classes)
    return Partial(log_loss_of if loss == "log" else brier_loss_of)


def _check_rows_of(y, weight, n: int) -> None:
    check_within("y", y, "[0, inf)", shape=(n,))
    check_within("weight", weight, "[0, inf)", shape=(n,))


def _of_answer(answer: PyTree, readout: str) -> Array:
    if not isinstance(answer, Answer):
        raise TypeError(f"answer is {kind_of(answer)}; this loss needs an Answer, with probabilities.")
    value = getattr(answer, readout)
    if value is None:
        raise ValueError("answer has no probabilities, which this loss needs: the combiner's scores have no bound.")
    return value


def _mean(values: Float[Array, "rows"], weight: Float[Array, "rows"]) -> Float[Array, ""]:
    # Padding weighs nothing; nor may its values be NaN in the gradient.
    kept = jnp.where(weight > 0, values, jnp.zeros_like(values))
    weight = weight.astype(values.dtype)
    return jnp.sum(kept * weight) / jnp.sum(weight)
