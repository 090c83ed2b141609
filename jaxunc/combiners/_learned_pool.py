"""The learned pool: a mean of leaves whose weights, powers and scale are learned."""

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_collection, check_numbers, check_probability_vector, check_within
from jaxunc._numerics import copy_in, divide_by_shared, float_dtype, safe_divide, scale_and_move, sum_in_order
from jaxunc._types import PyTree
from jaxunc.forest import DEFAULT_COUNTS
from jaxunc.tables import NumbersLike

from ._answer import Answer
from ._combiner import Combiner, learned_field

SMALLEST_SIZE = 2.0**-20
"""Size that an empty leaf without a prior is taken to have, so that its weight has a logarithm."""


class LearnedPool(Combiner[Answer]):
    r"""A mean of the leaves' probabilities, by numbers that are learned: the mean, pooling and many between.

    .. math:: P_c = \Big(\frac{\sum_t (N_t + m)^\alpha p_{tc}^q}{\sum_t (N_t + m)^\alpha}\Big)^{1/q}, \qquad
              p_t = \frac{w_t + m \pi}{N_t + m},

    .. math:: P(c) = (1 - \epsilon) \frac{P_c^{s_c} e^{b_c}}{\sum_k P_k^{s_k} e^{b_k}} + \frac{\epsilon}{C}

    w_t are the counts of the leaf of tree t, N_t is their sum, and C the number of classes. Of two count sets, such as
    in-bag and out-of-bag, w_t is a times the counts of the first plus those of the second. The defaults are the mean.
    The family contains Laplace's and the m-estimate (m), pooling (α = 1, m = 0) and, as q → 0, the logarithmic pool.

    Parameters
    ----------
    prior
        π, class probabilities ``[classes]``, all positive: usually ``forest.prior``. Not learned.
    reads
        The names of the count sets that are read, one or two: ``("own",)``, or ``("own", "oob")`` for a forest that has
        out-of-bag counts too (`Forest.with_count_set`). Counts of two stand side by side: ``[... 2·classes]``.
    size_power
        α: how much more a leaf counts that holds more instances. 0: all alike.
    mean_power
        q > 0: 1 is the arithmetic mean, near 0 the geometric one.
    strength
        m ≥ 0: how many instances of the prior are added to each leaf.
    scale, bias
        s and b: one number per class ``[classes]`` (default: 1 and 0), or one for all. A scale above 1 makes the answer
        more certain.
    noise
        ε in [0, 1): the share of labels that are noise. It keeps a few wrong labels from making all answers less
        certain. Where it is 0, learning starts at 1 %, of which some may remain even if no label is wrong. A smaller
        start, or ``freeze=("noise",)``, leaves less.
    inbag_weight
        a ≥ 0: what an instance of the first count set (in-bag) counts, where one of the second (out-of-bag) counts 1.

    Raises
    ------
    ValueError
        If the prior is no distribution, or a number is outside of its range or of another shape. If ``inbag_weight``
        is given for one kind of counts. When called, if counts have another number of columns.

    Notes
    -----
    Class scores: s log P + b, a number per class up to a common constant. Score: their difference. Probability: their
    softmax, and the noise. An empty leaf has p = π (0 counts and m = 0 too), and counts as 2⁻²⁰ instances do if
    m = 0; no tree: P = π. A class that no leaf has seen has about 1e-31 (float64: 1e-292) in place of p = 0 if m = 0.
    For \|α\| > 3.5 sizes are in units of 256 instances, and weights are held within 2^±112 (float64: 2^±896).

    Gradient: smooth in all numbers; where p = 0 and q < 1 (m = 0) the slope in m is infinite, and a large number here.

    Streams C + 1 planes. `describe` tells the learned numbers in sentences.

    References
    ----------
    Weights by leaf size and learned weights of trees are named as future work by Busch et al. 2021 and Zhang et al.
    2021. The family is this library's own.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import jaxunc as ju
    >>> counts, prior = jnp.array([[6, 1], [1, 1]]), jnp.array([0.5, 0.5])
    >>> print(np.asarray(ju.LearnedPool(prior).probability(counts)).round(4))  # the mean of 6/7 and 1/2
    [0.6786 0.3214]
    >>> print(np.asarray(ju.LearnedPool(prior, size_power=1.0).probability(counts)).round(4))  # pooling: 7/9
    [0.7778 0.2222]
    """

    reads: tuple[str, ...] = eqx.field(static=True)
    prior: Float[Array, "classes"] = learned_field("fixed")
    size_power: Float[Array, ""] = learned_field("real")
    mean_power: Float[Array, ""] = learned_field("positive")
    strength: Float[Array, ""] = learned_field("positive", spread=2.0, nearest=1.0)
    scale: Float[Array, "..."] = learned_field("positive")
    bias: Float[Array, "..."] = learned_field("real", spread=2.0)
    noise: Float[Array, ""] = learned_field("unit", spread=2.0)
    inbag_weight: Float[Array, ""] | None = learned_field("positive", spread=2.0)
    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def __init__(
        self,
        prior: NumbersLike,
        *,
        reads: Sequence[str] = (DEFAULT_COUNTS,),
        size_power: NumbersLike = 0.0,
        mean_power: NumbersLike = 1.0,
        strength: NumbersLike = 0.0,
        scale: NumbersLike | None = None,
        bias: NumbersLike | None = None,
        noise: NumbersLike = 0.0,
        inbag_weight: NumbersLike | None = None,
    ):
        check_numbers("prior", prior)
        dtype = np.promote_types(float_dtype(prior), np.float32)  # half precision is too coarse for logarithms
        self.prior = copy_in(prior, dtype)
        check_probability_vector(self.prior, np.shape(prior)[-1] if np.ndim(prior) else 2)
        self.reads = checked_names(reads)
        has_two_sets = len(self.reads) == 2
        if inbag_weight is not None and not has_two_sets:
            raise ValueError(
                "inbag_weight weighs the first of two counts: pass reads=('own', 'oob') too, or leave it out."
            )
        # None if a single count set is read, so that it is no number to learn.
        weight = 1.0 if inbag_weight is None else inbag_weight
        check_within("size_power", size_power, "(-inf, inf)")
        check_within("mean_power", mean_power, "(0, inf)")
        check_within("strength", strength, "[0, inf)")
        check_within("noise", noise, "[0, 1)", ": it is the share of labels that say nothing")
        check_within("inbag_weight", weight, "[0, inf)")
        self.size_power = copy_in(size_power, dtype)
        self.mean_power = copy_in(mean_power, dtype)
        self.strength = copy_in(strength, dtype)
        self.noise = copy_in(noise, dtype)
        self.scale = self._by_class("scale", jnp.ones_like(self.prior) if scale is None else scale, "[0, inf)")
        self.bias = self._by_class("bias", jnp.zeros_like(self.prior) if bias is None else bias, "(-inf, inf)")
        self.inbag_weight = copy_in(weight, dtype) if has_two_sets else None

    def _by_class(self, name: str, value, within: str) -> Array:
        """Return ``value``, one number or one per class, as an array in the prior's precision.

        Raises a ValueError for another shape, or for numbers outside of the interval ``within``, such as "[0, inf)".
        """
        if np.ndim(value) and np.shape(value) != self.prior.shape:
            raise ValueError(
                f"{name} has shape {np.shape(value)}; pass one number, or one per class, shape {self.prior.shape}."
            )
        check_within(name, value, within, shape=None)
        return copy_in(value, self.prior.dtype)

    @property
    def count_sets(self) -> tuple[str, ...]:
        """The names of the one or two count sets that the pool reads, in the order of their columns."""
        return self.reads

    def lift(self, counts: Num[Array, "... columns"]) -> PyTree:
        """Return a leaf's "weight" (N + m)^α ``[...]``, and its "power": the weight times p^q ``[... classes]``."""
        n_classes = len(self.prior)
        dtype = float_dtype(counts, self.prior)
        if counts.shape[-1] != n_classes * len(self.reads):
            raise ValueError(
                f"counts have {counts.shape[-1]} columns; this LearnedPool expects those of {n_classes} classes for "
                f"each of {self.reads}, side by side."
            )
        # Classes in front, so that loops over leaves run along memory; powers by logarithms: a fifth of the time.
        counts = jnp.moveaxis(counts, -1, 0).astype(dtype)
        if self.inbag_weight is not None:
            counts = self.inbag_weight.astype(dtype) * counts[:n_classes] + counts[n_classes:]
        strength = self.strength.astype(dtype)
        prior = self.prior.astype(dtype).reshape(n_classes, *[1] * (counts.ndim - 1))
        size = sum_in_order(counts, 0, keepdims=True) + strength
        is_empty = size == 0
        share = safe_divide(counts + strength * prior, size, prior)
        # Not log(0), whose slope is infinite: without a prior (m = 0) a class may have the share 0. Nor the smallest
        # float, whose power times a weight below 1 would be flushed to 0, and its slope, too.
        log_share = jnp.log(share + jnp.finfo(dtype).tiny / jnp.finfo(dtype).eps)
        log_weight = log_size_weight(jnp.where(is_empty, SMALLEST_SIZE, size).astype(dtype), self.size_power)
        power = jnp.exp(log_weight + self.mean_power.astype(dtype) * log_share)
        return {"weight": jnp.exp(log_weight)[0], "power": jnp.moveaxis(power, 0, -1)}

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer of merged sums: their power mean, which is then scaled, moved and mixed with noise."""
        weight = stat["weight"][..., None]
        prior = self.prior.astype(stat["power"].dtype)
        mean = divide_by_shared(stat["power"], weight, prior**self.mean_power)
        # The mean is one of powers p^q: its q-th root, in logarithms a division by q, is a probability again.
        log_share = divide_by_shared(jnp.log(jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)), self.mean_power)
        certain = Answer.from_log_evidence(scale_and_move(log_share, self.scale, self.bias))
        # Scores are those before the noise: they have the same order, and do not saturate.
        return certain._replace(**_with_noise(certain, self.noise))

    def describe(self) -> str:
        """Return sentences that tell what the learned numbers do; they must not be traced."""
        # A number near its neutral value is told as neutral, or left out.
        digits = lambda value: f"{float(np.asarray(value)):.3g}"
        weight_ratio = 10.0 ** float(self.size_power)
        power = float(self.mean_power)
        scale = np.atleast_1d(np.asarray(self.scale))
        scales = digits(scale.mean()) if np.ptp(scale) < 0.005 else f"{digits(scale.min())} to {digits(scale.max())}"
        certainty = "neither more nor less"
        if scale.mean() > 1.02:
            certainty = "more"
        elif scale.mean() < 0.98:
            certainty = "less"
        sentences = ["Leaves count alike, whatever their size."]
        if abs(weight_ratio - 1) >= 0.05:
            sentences = [f"A leaf of ten times as many instances counts {weight_ratio:.3g} times as much."]
        if self.inbag_weight is not None:
            sentences.append(f"An in-bag instance counts {digits(self.inbag_weight)} where an out-of-bag one counts 1.")
        sentences.append(f"To each leaf {digits(self.strength)} instances of the prior are added.")
        sentences.append("Shares are averaged" + ("." if abs(power - 1) < 0.05 else f" to the power {power:.3g}."))
        sentences.append(f"Log probabilities are multiplied by {scales}: the answer is {certainty} certain.")
        if float(self.noise) >= 0.0005:
            sentences.append(f"{100 * float(self.noise):.2g} % of the labels are taken for noise.")
        return " ".join(sentences)


def log_size_weight(size: Float[Array, "..."], power: Array) -> Float[Array, "..."]:
    """Return log(``size``^``power``), the log weight of leaves, held where weights and their sums are floats."""
    # Steep powers are those of size/256: a factor that all trees share puts sizes up to 65 536 amid the floats.
    is_steep = jnp.abs(power) > 3.5
    power = power.astype(size.dtype)
    limit = 0.875 * np.log(jnp.finfo(size.dtype).max)  # an eighth of the exponents is left to the sum
    return jnp.clip(power * jnp.log(size / jnp.where(is_steep, 256, 1)), -limit, limit)


def checked_names(reads) -> tuple[str, ...]:
    """Return ``reads``, a collection of one or two different names of count sets, as a tuple, or raise an error."""
    check_collection("reads", reads, "names of counts, such as ('own',) or ('own', 'oob')")
    if not all(isinstance(name, str) for name in reads):
        raise TypeError(f"reads={reads!r:.60} must be names of counts, such as ('own',) or ('own', 'oob').")
    names = tuple(reads)
    if len(names) not in (1, 2) or len(set(names)) != len(names):
        raise ValueError(f"reads={names} must name one kind of counts or two, such as ('own', 'oob').")
    return names


def _with_noise(certain: Answer, noise: Array) -> dict[str, Array]:
    """Return the probabilities of ``certain``, mixed with the uniform distribution, and their logarithms.

    They are returned as fields of `Answer`. ``noise`` is the share of the uniform distribution.
    """
    log_share = jnp.asarray(certain.log_probability)
    noise = noise.astype(log_share.dtype)
    share = scale_and_move(jnp.exp(log_share), 1 - noise, noise / log_share.shape[-1])
    has_noise = noise > 0
    log_noisy_share = jnp.log(jnp.where(has_noise, share, 1))  # without noise a share may be 0
    return {"probability": share, "log_probability": jnp.where(has_noise, log_noisy_share, log_share)}
