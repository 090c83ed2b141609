"""The merge of what the leaves of all trees contribute, and the reading of the answer."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Num

from jaxunc._numerics import jit
from jaxunc._types import PyTree

from ._answer import Answer, kind_of
from ._lift import check_tree_fields, lift_tree, tree_axes
from ._merge import Merging

if TYPE_CHECKING:
    from ._combiner import Combiner


def read_answer(answer: PyTree, readout: str | None) -> PyTree:
    """Return one read-out of every `Answer` in a pytree; for None the answers themselves."""
    if readout is None:
        return answer
    is_answer = lambda node: isinstance(node, Answer)  # noqa: E731
    answers = [node for node in jax.tree.leaves(answer, is_leaf=is_answer) if is_answer(node)]
    if readout != "class_scores" and not answers:
        raise ValueError(
            f"this rule has no {readout}: it answers with {kind_of(answer)}, not with an Answer. Call it directly."
        )
    if readout == "score" and any(node.score is None for node in answers):
        raise ValueError(
            "score is defined for two classes only; for more use the class scores (call the rule) or .probability."
        )
    if any(getattr(node, readout) is None for node in answers):
        raise ValueError(
            f"{readout} is not defined for scores without a bound, such as those of linear and ucb. Rank by the class "
            "scores (call the rule), or use Pooling, which gives leaves that weight and probabilities too."
        )
    return jax.tree.map(lambda node: getattr(node, readout) if is_answer(node) else node, answer, is_leaf=is_answer)


def contributions(fold: "Combiner", counts: Num[Array, "trees rows classes"]) -> PyTree:
    """Lift the leaves of each tree: arrays ``[trees rows ...]``, and numbers per tree ``[trees]``."""
    check_tree_fields(fold, len(counts))
    return jax.vmap(lift_tree, in_axes=(tree_axes(fold), 0))(fold, counts)


def merged(fold: "Combiner", stat: PyTree, passing: Bool[Array, "trees rows"] | None) -> PyTree:
    """Merge the contributions of those trees that pass, in the order of the trees."""
    parts, structure = jax.tree.flatten(stat)
    merging = Merging.of(fold.merge, stat)
    if passing is not None:
        parts = merging.mask(parts, passing)
    carry = merging.scan(lambda tree: tree, merging.start([part.shape[1:] for part in parts]), parts)
    return jax.tree.unflatten(structure, merging.result(carry))


@jit(static_argnames="readout")
def combine_counts(
    fold: "Combiner",
    counts: Num[Array, "... trees classes"],
    readout: str | None,
    mask: Bool[Array, "... trees"] | None = None,
) -> PyTree:
    """Lift each tree's counts, merge those that the mask lets pass in the order of the trees, finish."""
    *lead, n_trees, n_classes = counts.shape
    by_tree = jnp.moveaxis(counts, -2, 0).reshape(n_trees, -1, n_classes)
    stat = contributions(fold, by_tree)
    passing = None if mask is None else jnp.moveaxis(mask, -1, 0).reshape(n_trees, -1)

    def with_lead(part):  # a scalar of the tree stays a scalar
        return part.reshape((*lead, *part.shape[1:])) if part.ndim else part

    return read_answer(fold.finish(jax.tree.map(with_lead, merged(fold, stat, passing))), readout)
