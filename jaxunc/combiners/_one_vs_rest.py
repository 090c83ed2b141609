"""One against the rest: binary combiners for any number of classes."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Num

from jaxunc._numerics import TwoFloat, float_dtype, log_softmax, same_rank, sum_in_order
from jaxunc._types import PyTree

from ._answer import MANY, Answer, kind_of, margin, tree_axes
from ._combiner import Combiner
from ._merge import merge_kinds


class OneVsRest(Combiner[Answer]):
    """A binary combiner applied to each class c against the rest: counts (N - w_c, w_c) of a leaf with counts w, sum N.

    Parameters
    ----------
    rule
        A combiner for two classes. Or a list of them, one for each class, which differ in their numbers alone, such as
        the prior of the class against the rest.

    Raises
    ------
    TypeError
        If ``rule`` is neither a `Combiner` nor a list of them. When called, if it does not answer with an `Answer`
        (with `Together`, put OneVsRest inside).
    ValueError
        If the combiners of a list differ in more than numbers. When called, if there is not one for each class, or the
        count sets do not have as many columns each.

    Notes
    -----
    Class scores: the `margin` of each class's binary answer. Probability: the binary ones, divided by their sum. Score:
    None (for two classes too). Instances are sent to leaves once for all classes; the cost grows with their number.

    A prior of a single combiner is the prior of every class against its rest: 1/C suits better than 1/2. Where classes
    are uneven each has its own, ``OneVsRest([DempsterRule(prior=p) for p in forest.prior])``; evidence accumulation
    takes the same numbers, scorers theirs as `Partial`. Combiners of a list answer as each would alone.

    Integer counts stay integers. Where N - w_c does not fit 32 bits, both counts of the pair are divided by C.
    Gradient: the combiners'.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import jaxunc as ju
    >>> counts = jnp.array([[6, 1, 1], [5, 2, 1]])
    >>> print(np.asarray(ju.OneVsRest(ju.DempsterRule())(counts)).round(2))
    [ 1.14 -2.44 -3.25]
    >>> print(np.asarray(ju.OneVsRest([ju.DempsterRule(prior=p) for p in (0.8, 0.1, 0.1)])(counts)).round(2))
    [-0.1  -0.23 -0.73]
    """

    rule: Combiner | tuple[Combiner, ...]

    def __init__(self, rule: Combiner | Sequence[Combiner]):
        rules: tuple[Any, ...] = tuple(rule) if isinstance(rule, (list, tuple)) else (rule,)
        for combiner in rules:
            if not isinstance(combiner, Combiner):
                raise TypeError(f"rule={rule!r} is no Combiner; pass a binary combiner, such as DempsterRule().")
        if not rules:
            raise ValueError("rule is an empty list; pass a binary combiner, or one for each class.")
        for c, combiner in enumerate(rules):
            if _form(combiner) != _form(rules[0]):
                raise ValueError(
                    f"rule[{c}]={combiner!r} differs from rule[0]={rules[0]!r} in more than numbers; the combiners of "
                    "the classes must be of one kind, with the same options and shapes."
                )
        self.rule = rules if isinstance(rule, (list, tuple)) else rules[0]

    @property
    def _rules(self) -> tuple[Combiner, ...]:
        """The combiners of the classes, in a tuple: one for each class, or a single one for all classes."""
        return self.rule if isinstance(self.rule, tuple) else (self.rule,)

    @property
    def merge(self) -> PyTree:
        """How the statistic merges over trees: as that of ``rule``, or of the first combiner of a list."""
        return self._rules[0].merge

    def lift(self, counts: Num[Array, "... columns"]) -> PyTree:
        """Return the binary statistic of each class against the rest, with a class axis after the leaves' axes."""
        n_classes, remainder = divmod(counts.shape[-1], len(self.count_sets))
        if remainder:
            raise ValueError(
                f"counts have {counts.shape[-1]} columns; this OneVsRest expects as many for each of "
                f"{self.count_sets}, side by side."
            )
        pairs = _against_rest(counts.reshape(*counts.shape[:-1], len(self.count_sets), n_classes))
        if isinstance(self.rule, tuple):
            if len(self.rule) != n_classes:
                raise ValueError(
                    f"rule holds {len(self.rule)} combiners, but counts have {n_classes} classes; pass one for "
                    "each class, or a single combiner for all of them."
                )
            lift_by_class = jax.vmap(_lift_every_leaf, in_axes=(0, -2), out_axes=counts.ndim - 1)
            return lift_by_class(_stacked(self.rule), pairs)
        # Classes as further leaves: the binary combiner never sees that there are several.
        leading_shape = pairs.shape[:-1]
        stat = self.rule.lift(pairs.reshape(-1, pairs.shape[-1]))

        def restore_axes(plane):  # a scalar of the tree stays a scalar
            return plane.reshape(*leading_shape, *plane.shape[1:]) if jnp.ndim(plane) else plane

        return jax.tree.map(restore_axes, stat)

    def finish(self, stat: PyTree) -> Answer:
        """Return the binary answers as one: their margins are its class scores, their probabilities are normalised."""
        # Shapes alone, without computing: how many axes the binary combiner's planes have behind the class axis.
        one_leaf = jax.ShapeDtypeStruct((1, 2 * len(self.count_sets)), jnp.result_type(float))
        binary_stat = jax.eval_shape(lambda rule, counts: rule.lift(counts), _of_one_tree(self._rules[0]), one_leaf)
        planes, structure = jax.tree.flatten(stat, is_leaf=lambda node: isinstance(node, TwoFloat))
        trailing = [plane.ndim - 1 for plane in jax.tree.leaves(binary_stat)]  # -1: a scalar of the tree
        if isinstance(self.rule, tuple):  # scalars of the tree were repeated for every leaf, so no plane is one
            trailing = [max(n_axes, 0) for n_axes in trailing]
        is_collected = [kind == "collect" for kind in merge_kinds(self.merge, binary_stat)]
        # The class axis goes where the binary combiner expects an axis of instances.
        aligned = [
            jax.tree.map(partial(_class_axis_leads, trailing=n_axes, collected=collected), plane)
            for n_axes, collected, plane in zip(trailing, is_collected, planes, strict=True)
        ]
        stat = jax.tree.unflatten(structure, aligned)
        if isinstance(self.rule, tuple):
            # Where each plane has its class axis now: before its own axes, and that of the trees if it has one.
            positions = [-1 - n_axes - collected for n_axes, collected in zip(trailing, is_collected, strict=True)]
            axes = jax.tree.unflatten(structure, positions)
            scores, log_probability = jax.vmap(_read, in_axes=(0, axes), out_axes=-1)(_stacked(self.rule), stat)
        else:
            scores, log_probability = _read(self.rule, stat)
        if log_probability is None:
            return Answer(scores, score=None, probability=None, log_probability=None)
        # Each binary combiner answers for its own class, so that the probabilities do not add to 1 yet.
        log_probability = log_softmax(log_probability)
        return Answer(scores, score=None, probability=jnp.exp(log_probability), log_probability=log_probability)

    def _own_scorers(self) -> Iterator[tuple[Partial, tuple[str, ...]]]:
        """Return an iterator over no scorers: all scorers within get counts of a class against the rest."""
        return iter(())


def _read(rule: Combiner, stat) -> tuple[Array, Array | None]:
    """Return the margin, and the log probability of class 1 or None, of the answer of a binary ``rule`` to ``stat``.

    Raises a TypeError if it is no `Answer`.
    """
    answer = rule.finish(stat)
    if not isinstance(answer, Answer):
        raise TypeError(
            f"OneVsRest compares the class scores of binary answers, but {type(rule).__name__} answers with "
            f"{kind_of(answer)}. Pass a combiner with class scores, such as DempsterRule(); for several combiners, "
            "Together(a=OneVsRest(...), b=OneVsRest(...))."
        )
    lead = margin(answer.class_scores)
    if answer.log_probability is None:
        return lead, None
    return lead, answer.log_probability[..., 1]


def _form(rule: Combiner) -> tuple:
    """Return all of a combiner but its numbers: its pytree structure, and the shapes and dtypes of its leaves."""
    return jax.tree.structure(rule), [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(rule)]


def _of_one_tree(rule: Combiner) -> Combiner:
    """Return the combiner as its `lift` sees it for the first tree: with the first entry of each tree field."""
    first = lambda axis, leaf: leaf if axis is None else leaf[0]
    return jax.tree.map(first, tree_axes(rule), rule, is_leaf=lambda node: node is None)


def _stacked(rules: tuple[Combiner, ...]) -> Combiner:
    """Return one combiner that holds the numbers of all ``rules``, along a leading axis of classes."""
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *rules)


def _lift_every_leaf(rule: Combiner, counts: Num[Array, "... columns"]):
    """Return the statistic of a binary ``rule`` for the leaves ``[...]``, each plane with an entry for each leaf."""
    leading_shape = counts.shape[:-1]
    stat = rule.lift(counts.reshape(-1, counts.shape[-1]))

    def by_leaf(plane):
        """Return a plane with the axes of the leaves in front."""
        if jnp.ndim(plane) == 0:  # a scalar of the tree, which may differ by class
            return jnp.broadcast_to(plane, leading_shape)
        return plane.reshape(*leading_shape, *plane.shape[1:])

    return jax.tree.map(by_leaf, stat)


def _against_rest(counts: Num[Array, "... sets classes"]) -> Num[Array, "... classes columns"]:
    """Return the counts (N - w_c, w_c) of each class c against the rest, for counts w of all classes with the sum N.

    The pairs of the count sets stand side by side.
    """
    n_classes = counts.shape[-1]

    def pairs(counts, is_added_up=False):
        """Return the pairs, with N - w_c as a difference, or, if ``is_added_up``, as the sum of the other counts."""
        if is_added_up:  # for each class c the counts with a 0 at c
            is_class, others = same_rank(jnp.eye(n_classes, dtype=bool), counts[..., None, :])
            rest = sum_in_order(jnp.where(is_class, 0, others))
        else:
            rest = sum_in_order(counts, keepdims=True)
            rest = rest - counts.astype(rest.dtype)
        by_set = jnp.stack([rest, counts.astype(rest.dtype)], axis=-1)
        *leading_shape, n_sets, _, _ = by_set.shape
        # [... sets classes 2] → [... classes sets 2], with the last two axes in one.
        return jnp.moveaxis(by_set, -3, -2).reshape(*leading_shape, n_classes, 2 * n_sets)

    if jnp.issubdtype(counts.dtype, jnp.floating):
        # A total of floats, less most of it, has lost the digits of the rest: so the others are added up, unless all
        # pairs of classes are too many numbers.
        return pairs(counts, is_added_up=n_classes <= MANY)
    # Integers stay integers, since combiners compare them exactly.
    exact_pairs = pairs(counts)
    rounded_pairs = pairs(counts.astype(float_dtype(counts)))
    # Where floats say that integer totals wrapped around, they take their place: divided by C (classes), they fit.
    rest = jnp.max(rounded_pairs[..., ::2], axis=-1, keepdims=True)  # the largest N - w_c of a class's count sets
    fits = rest < 0.999 * jnp.iinfo(exact_pairs.dtype).max  # less than 1, for the rounding of ``rest``
    return jnp.where(fits, exact_pairs, (rounded_pairs / n_classes).astype(exact_pairs.dtype))


def _class_axis_leads(plane: Array, *, trailing: int, collected: bool) -> Array:
    """Return a merged plane with its axis of classes where a binary combiner expects an axis of instances.

    ``trailing`` is the number of axes behind it in a lifted plane, or -1 for a scalar of the tree. ``collected`` planes
    have a further axis of trees.
    """
    if trailing < 0 and plane.ndim == 0:  # one number serves all classes
        return plane
    if trailing < 0:  # a number per tree has no class axis: give it one, so that it meets every class
        return jnp.expand_dims(plane, -2 if collected else -1)
    return jnp.moveaxis(plane, -1 - trailing, -2 - trailing) if collected else plane
