"""Binary rules for any number of classes."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Num, PyTree

from jaxunc._numerics import TwoFloat, float_dtype

from ._answer import Answer, margin
from ._fold import Fold
from ._merge import merge_kinds


class OneVsRest(Fold):
    """A binary rule for every class against the rest of them: counts (N - w_c, w_c).

    Parameters
    ----------
    rule
        A rule for two classes.

    Raises
    ------
    TypeError
        If ``rule`` is no `Fold` or, when called, answers with no `Answer` (`Together`: put OneVsRest inside of it).

    Notes
    -----
    Class scores: the `margin` of each class's binary answer. Probability: the binary ones, divided by their sum.
    Score: None (for two classes too). All classes share one routing; the cost grows with their number. A prior of
    the rule is the prior of every class against its rest: 1/C suits better than 1/2.

    Integer counts stay integers. Where N - w_c does not fit 32 bits, the pair is taken for one of the same shares with
    1/C of the instances.
    """

    rule: Fold

    def __init__(self, rule: Fold):
        if not isinstance(rule, Fold):
            raise TypeError(f"rule={rule!r} is no Fold; pass a binary rule, such as DempsterRule().")
        self.rule = rule

    @property
    def merge(self) -> PyTree:
        """The merges of the rule."""
        return self.rule.merge

    def lift(self, counts: Num[Array, "... classes"]):
        """What the rule lifts for each class, along the axis after the leaves'."""
        stat = self.rule.lift(_against_rest(counts).reshape(-1, 2))
        return jax.tree.map(lambda part: part.reshape(*counts.shape, *part.shape[1:]) if jnp.ndim(part) else part, stat)

    def finish(self, stat) -> Answer:
        """Each class's answer, against each other."""
        alone = jax.eval_shape(self.rule.lift, jax.ShapeDtypeStruct((1, 2), jnp.result_type(float)))
        parts, structure = jax.tree.flatten(stat, is_leaf=lambda node: isinstance(node, TwoFloat))
        aligned = [
            jax.tree.map(partial(_class_axis_leads, trailing=one.ndim - 1, collected=kind == "collect"), part)
            for one, kind, part in zip(jax.tree.leaves(alone), merge_kinds(self.merge, alone), parts, strict=True)
        ]
        answer = self.rule.finish(jax.tree.unflatten(structure, aligned))
        if not isinstance(answer, Answer):
            raise TypeError(
                f"OneVsRest compares the class scores of binary answers, but {type(self.rule).__name__} answers with "
                f"{type(answer).__name__}. Pass a rule with class scores, such as DempsterRule(); for several rules, "
                "Together(a=OneVsRest(...), b=OneVsRest(...))."
            )
        if answer.log_probability is None:
            return Answer(margin(answer.class_scores), None, None, None)
        log_probability = jax.nn.log_softmax(answer.log_probability[..., 1], axis=-1)
        return Answer(margin(answer.class_scores), None, jnp.exp(log_probability), log_probability)


def _against_rest(counts: Num[Array, "... classes"]) -> Num[Array, "... classes 2"]:
    """(N - w_c, w_c) for each class."""

    def pairs(counts):
        total = jnp.sum(counts, axis=-1, keepdims=True)
        return jnp.stack([total - counts.astype(total.dtype), counts.astype(total.dtype)], axis=-1)

    exact = pairs(counts)
    if not jnp.issubdtype(exact.dtype, jnp.integer):
        return exact
    rounded = pairs(counts.astype(float_dtype(counts)))
    # The total may have wrapped: what is left of it is right where it fits.
    fits = rounded[..., :1] < 0.999 * jnp.iinfo(exact.dtype).max
    return jnp.where(fits, exact, (rounded / counts.shape[-1]).astype(exact.dtype))


def _class_axis_leads(part: Array, *, trailing: int, collected: bool) -> Array:
    """The class axis as the last of those that the binary rule only carries along, as if classes were instances."""
    if trailing < 0:  # a number per tree has no class axis: give it one, so that it meets every class
        return part[..., None] if part.ndim else part
    return jnp.moveaxis(part, -1 - trailing, -2 - trailing) if collected else part
