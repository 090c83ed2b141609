"""The answer of most combiners, and the steps to it: lift each tree's leaves, merge, finish, read one field.

`combine_counts` takes these steps for counts ``[... trees classes]``. Where instances are streamed, `jaxunc.inference`
takes the same steps one by one.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxunc._checks import check_numbers, is_concrete, outside_traces, warn_of_fractions
from jaxunc._numerics import float_dtype, floored_log, jit, log_softmax
from jaxunc._types import AnswerT, PyTree
from jaxunc.scorers import score_bound

from ._merge import Merging, merge_kinds

Scores = TypeVar("Scores", Array, np.ndarray)
Parameters = ParamSpec("Parameters")


class Answer(NamedTuple):
    """The answer of most combiners: scores and probabilities of classes.

    Under `jax.jit` only the fields that are used are computed.
    """

    class_scores: Float[Array, "... classes"]
    """A number per class, larger is better; the largest decides (the lowest index on ties). They do not saturate, so
    they are safe to rank by. Their scale depends on the combiner."""
    score: Float[Array, "..."] | None
    """The published binary score, positive for class 1; None for more classes."""
    probability: Float[Array, "... classes"] | None
    """Probabilities of the classes, adding to 1; None where scores have no bound."""
    log_probability: Float[Array, "... classes"] | None
    """Logarithms of the probabilities, for losses: finite, and with a gradient where a probability rounds to 0 or 1."""

    @property
    def predicted(self) -> Int[Array | np.ndarray, "..."]:
        """The class with the largest class score (the lowest index on ties); a NumPy array if the scores are.

        Where every class is vetoed (all class scores are -inf), it is the most probable class.
        """
        xp = np if isinstance(self.class_scores, np.ndarray) else jnp
        scores = self.class_scores
        if self.log_probability is not None:
            all_vetoed = xp.isneginf(scores).all(axis=-1, keepdims=True)
            scores = xp.where(all_vetoed, self.log_probability, scores)
        return scores.argmax(axis=-1)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs that `columns` makes: "class", "score" and, where there is one, "probability"."""
        return ("class", "score", *(("probability",) if self.probability is not None else ()))

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the NumPy array that the name ``output`` stands for, as the dictionary ``{output: array}``.

        "score" stands for the `margin` of two classes, or the class scores of more.
        """
        if output == "class":
            return {output: np.asarray(self.predicted)}
        if output == "probability":
            return {output: np.asarray(self.probability)}
        scores = np.asarray(self.class_scores)
        return {output: margin(scores) if scores.shape[-1] == 2 else scores}

    @classmethod
    def from_shares(cls, shares: Array, class_scores: Array, score: Array | None) -> "Answer":
        """Return an answer with ``class_scores``, a ``score``, and ``shares`` as its probabilities."""
        return cls(class_scores, score, shares, floored_log(shares))

    @classmethod
    def from_log_evidence(cls, log_evidence: Array) -> "Answer":
        """Return an answer whose class scores are ``log_evidence``, and whose probabilities are their softmax."""
        score = margin(log_evidence) if log_evidence.shape[-1] == 2 else None
        log_probability = log_softmax(log_evidence)
        return cls(log_evidence, score, jnp.exp(log_probability), log_probability)


def margin(class_scores: Float[Scores, "... 2"]) -> Float[Scores, "..."]:
    """Return the class score of class 1 minus that of class 0: the number to rank instances by.

    With many trees published scores, which are differences of masses or of products, round to 0, 1 or -1: instances
    tie. Margins of class scores keep their order. Raises a ValueError unless there are two classes.

    Parameters
    ----------
    class_scores
        Class scores ``[... 2]``, which a combiner returns when it is called.

    Returns
    -------
    Float[Array, "..."]
        Margins, positive where class 1 is preferred.
    """
    check_numbers("class_scores", class_scores)
    if isinstance(class_scores, list | tuple):
        raise TypeError(f"class_scores is a {type(class_scores).__name__}; pass an array, as a bound forest answers.")
    if np.shape(class_scores)[-1:] != (2,):
        raise ValueError(
            f"margin compares two classes, but class_scores have shape {np.shape(class_scores)}. "
            "For more classes rank by one column of class_scores, or of the probability."
        )
    return class_scores[..., 1] - class_scores[..., 0]


def read_answer(answer: PyTree, readout: str | None) -> PyTree:
    """Return a combiner's answer with each `Answer` in it replaced by its field ``readout``, unless that is None.

    ``answer`` is an `Answer`, or a pytree of such answers and other values, which stay. Raises a ValueError if an
    `Answer` has no such field.
    """
    if readout is None:
        return answer
    nodes, structure = jax.tree.flatten(answer, is_leaf=_is_answer)
    _check_readout(answer, [node for node in nodes if _is_answer(node)], readout)
    arrays = [getattr(node, readout) if _is_answer(node) else node for node in nodes]
    return jax.tree.unflatten(structure, arrays)


def _is_answer(node: Any) -> bool:
    """Return whether a node of a pytree is an `Answer`."""
    return isinstance(node, Answer)


def _check_readout(answer: PyTree, answers: list[Answer], readout: str) -> None:
    """Raise a ValueError if an `Answer` among ``answers``, those within ``answer``, lacks the field ``readout``."""
    # Class scores are read where a combiner is called, which returns other answers whole.
    if readout != "class_scores" and not answers:
        raise ValueError(
            f"this combiner has no {readout}: it answers with {kind_of(answer)}, not with an Answer. Call it directly."
        )
    if readout == "score" and any(node.score is None for node in answers):
        raise ValueError(
            "score is defined for two classes only; for more use the class scores (call the combiner) or .probability."
        )
    if any(getattr(node, readout) is None for node in answers):
        raise ValueError(
            f"{readout} is not defined for scores without a bound, such as those of linear and ucb. Rank by the class "
            "scores (call the combiner), or use Pooling, which gives leaves that weight and probabilities too."
        )


def kind_of(answer: Any) -> str:
    """Return the type of a combiner's answer in words, for messages: "an array" for all kinds of arrays."""
    return "an array" if isinstance(answer, jax.Array | np.ndarray) else type(answer).__name__


if TYPE_CHECKING:

    class _Answering(Protocol[AnswerT]):
        @property
        def answer(self) -> Callable[..., AnswerT]: ...

    class _ReadOut(Protocol[Parameters]):
        """The type of a method of combiners that answer with an `Answer`, or with a dictionary of them."""

        @overload
        def __get__(self, of: _Answering[Answer], kind: Any = None) -> Callable[Parameters, Array]: ...
        @overload
        def __get__(
            self, of: _Answering[dict[str, Answer]], kind: Any = None
        ) -> Callable[Parameters, dict[str, Array]]: ...
        @overload
        def __get__(self, of: _Answering[dict[str, Any]], kind: Any = None) -> Callable[Parameters, dict[str, Any]]: ...
        @overload
        def __get__(self, of: None, kind: Any = None) -> Callable[Concatenate[Any, Parameters], Any]: ...


def typed_by_answer(method: Callable[Concatenate[Any, Parameters], Any]) -> "_ReadOut[Parameters]":
    """Return the method unchanged; type checkers allow it only on combiners that answer `Answer`, alone or by name."""
    return method  # pyright: ignore[reportReturnType]


@jit(static_argnames="readout")
def combine_counts(
    combiner: PyTree,
    counts: Num[Array, "... trees classes"],
    readout: str | None,
    mask: Bool[Array, "... trees"] | None = None,
) -> PyTree:
    """Return a combiner's answer for the counts of leaves; unless ``readout`` is None, only that field of it.

    Trees count where ``mask`` is True, or all if it is None. Raises a ValueError if there are no trees.
    """
    *leading_shape, n_trees, n_classes = counts.shape
    if n_trees == 0:
        raise ValueError(
            f"counts has shape {counts.shape}, without any tree; pass the leaves of one tree at least, "
            "[... trees classes]."
        )
    counts_by_tree = jnp.moveaxis(counts, -2, 0).reshape(n_trees, -1, n_classes)
    check_tree_fields(combiner, n_trees)
    # The statistic's arrays are [trees rows ...], its scalars become [trees].
    stat = jax.vmap(lift_tree, in_axes=(tree_axes(combiner), 0))(combiner, counts_by_tree)
    tree_mask = None if mask is None else jnp.moveaxis(mask, -1, 0).reshape(n_trees, -1)

    def restore_axes(plane):  # a scalar of the tree stays a scalar
        return plane.reshape((*leading_shape, *plane.shape[1:])) if plane.ndim else plane

    merged_stat = jax.tree.map(restore_axes, merged(combiner, stat, tree_mask))
    return read_answer(combiner.finish(merged_stat), readout)


def lift_tree(combiner: PyTree, counts: Num[Array, "rows classes"]) -> PyTree:
    """Return the statistic that ``combiner.lift`` makes of one tree's leaves, in the types that merges take.

    Raises a ValueError if a plane is neither a scalar nor has one entry per leaf along its first axis.
    """
    stat = combiner.lift(counts)
    n_rows = counts.shape[0]
    for path, plane in jax.tree_util.tree_leaves_with_path(stat):
        shape = jnp.shape(plane)
        if shape and shape[0] != n_rows:
            raise ValueError(
                f"{type(combiner).__name__}.lift returned an array of shape {shape} at "
                f"stat{jax.tree_util.keystr(path)} for counts of shape {counts.shape}; expected ({n_rows},), "
                f"({n_rows}, …) or a scalar for the whole tree."
            )
    kinds = merge_kinds(combiner.merge, stat)
    planes, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, stat))
    # Only exact sums keep integers: the carries of other merges are floats.
    planes = [
        plane if kind == "exact_sum" else plane.astype(float_dtype(plane))
        for kind, plane in zip(kinds, planes, strict=True)
    ]
    # A collected plane has a value for each instance, even if it is the same for all of them.
    planes = [
        jnp.broadcast_to(plane, (n_rows,)) if kind == "collect" and plane.ndim == 0 else plane
        for kind, plane in zip(kinds, planes, strict=True)
    ]
    return jax.tree.unflatten(structure, planes)


def merged(combiner: PyTree, stat: PyTree, passing: Bool[Array, "trees rows"] | None) -> PyTree:
    """Return the statistic ``stat`` of single trees merged over all trees, in their order.

    Arrays of ``stat`` are ``[trees rows ...]``, its scalars ``[trees]``. ``passing`` is True where a tree counts for a
    row; None if all trees count.
    """
    planes, structure = jax.tree.flatten(stat)
    merging = Merging.of(combiner.merge, stat)
    if passing is not None:
        planes = merging.mask(planes, passing)
    carry = merging.scan(lambda tree: tree, merging.start([plane.shape[1:] for plane in planes]), planes)
    return jax.tree.unflatten(structure, merging.result(carry))


_lift_rows_once = jit(lift_tree)
_LONG = 16384
"""Number of count vectors that are lifted in one call, if it divides the number of all."""
_SHORT = 1024
"""Number of count vectors that are lifted in one call, if `_LONG` does not divide the number of all."""
_LIFTED_NUMBERS = 2**22
"""About how many numbers one call makes of the vectors that it lifts, for more than `MANY` classes."""
_MOST_LIFTED = 2**29
"""Upper limit of the numbers in a lifted table, 2 GB in float32; packing the table takes several times as much."""
MANY = 32
"""Number of classes up to which numbers for every pair of classes, or `_LONG` vectors to lift, fit into memory."""


def lifted_together(combiner: PyTree, counts: Num[Array, "distinct classes"]) -> int:
    """Return how many of the count vectors ``counts`` are lifted in one call: a divisor of their number."""
    # Thus all calls have one shape, and one compiled program.
    n_rows, n_classes = counts.shape
    lengths = [_length(combiner, counts)] if n_classes > MANY else [_LONG, _SHORT]
    # The number of vectors itself is last, and divides itself.
    return next(length for length in (*lengths, n_rows) if n_rows % length == 0)


def lift_rows(combiner: PyTree, counts: Num[Array, "distinct classes"]) -> PyTree:
    """Return the statistic of distinct count vectors that are not traced: planes ``[distinct ...]``, or scalars."""
    length = lifted_together(combiner, counts)
    if length == len(counts):
        return _lift_rows_once(combiner, counts)
    rows = np.asarray(counts)  # cut and joined on the host, where that compiles nothing
    stats = [_lift_rows_once(combiner, rows[start : start + length]) for start in range(0, len(rows), length)]

    def join(*planes):  # a scalar of the tree is the same in all calls
        return jax.device_put(np.concatenate(planes)) if planes[0].ndim else planes[0]

    return jax.tree.map(join, *stats)


def _length(combiner: PyTree, counts: Num[Array, "distinct classes"]) -> int:
    """Return how many of the count vectors ``counts`` to lift in one call where classes are more than `MANY`.

    Raises a ValueError if the statistics of all vectors would not fit into memory.
    """
    n_rows, n_classes = counts.shape
    stat_shapes = jax.eval_shape(_lift_rows_once, combiner, jax.ShapeDtypeStruct((1, n_classes), counts.dtype))
    # For each vector, the numbers that it is lifted to or the counts that it is lifted from, whichever are more.
    n_numbers = max(n_classes, *(math.prod(plane.shape) for plane in jax.tree.leaves(stat_shapes)))
    if n_rows * n_numbers > _MOST_LIFTED:
        raise ValueError(
            f"{type(combiner).__name__} of {n_classes} classes makes {n_numbers} numbers of each leaf, and there are "
            f"{n_rows} distinct ones (padded): {n_rows * n_numbers * 4 / 2**30:.0f} GB. Pass a combiner that compares "
            "no pairs of classes, such as Mean or Pooling, or a forest with fewer leaves."
        )
    n_vectors = max(_LIFTED_NUMBERS // n_numbers, 1)
    return min(_SHORT, 1 << n_vectors.bit_length() - 1)  # the largest power of two up to ``n_vectors``


# Fields that differ from tree to tree.


def tree_axes(combiner: PyTree) -> PyTree:
    """Return the ``in_axes`` by which `jax.vmap` maps a combiner over trees: 0 for arrays of tree fields, else None."""

    def axis(path, leaf):
        """Return 0 if the leaf at this path has an axis of trees in front, else None."""
        holder: Any = combiner  # in which the next key of the path is looked up
        for key in path:
            if isinstance(key, jax.tree_util.GetAttrKey):
                fields = {field.name: field for field in getattr(holder, "__dataclass_fields__", {}).values()}
                # The first field on the way decides: all arrays below a field by tree have trees in front.
                if key.name in fields and fields[key.name].metadata.get("per_tree"):
                    return 0 if jnp.ndim(leaf) else None  # one number serves all trees
                holder = getattr(holder, key.name)
            elif isinstance(key, jax.tree_util.DictKey):
                holder = holder[key.key]
            elif isinstance(key, jax.tree_util.SequenceKey):
                holder = holder[key.idx]
            else:
                return None
        return None

    return jax.tree_util.tree_map_with_path(axis, combiner)


def has_tree_fields(combiner: PyTree) -> bool:
    """Return whether any field of the combiner differs from tree to tree."""
    return bool(jax.tree.leaves(tree_axes(combiner)))  # None is no leaf


def check_tree_fields(combiner: PyTree, n_trees: int) -> None:
    """Raise a ValueError unless each tree field of the combiner has ``n_trees`` entries, or serves all trees."""

    def check(path, axis, leaf):
        """Raise the error if the leaf at this path has an axis of trees of another length."""
        if axis == 0 and (jnp.ndim(leaf) == 0 or leaf.shape[0] != n_trees):
            raise ValueError(
                f"{type(combiner).__name__}{jax.tree_util.keystr(path)} has shape {jnp.shape(leaf)}, but there are "
                f"{n_trees} trees: pass one entry per tree, shape ({n_trees},)."
            )

    jax.tree_util.tree_map_with_path(check, tree_axes(combiner), combiner, is_leaf=lambda x: x is None)


# Counts before they are lifted: the columns of count sets, and checks.


def columns_of(
    counts: Num[Array, "... columns"], names: tuple[str, ...], wanted: tuple[str, ...]
) -> Num[Array, "... asked_columns"]:
    """Return those columns of ``counts`` that belong to the count sets ``wanted``, in the order of ``wanted``.

    In ``counts`` the count sets ``names`` stand side by side, each with one column per class.
    """
    if names == wanted:
        return counts
    n_classes = counts.shape[-1] // len(names)
    starts = [n_classes * names.index(name) for name in wanted]
    columns = [counts[..., start : start + n_classes] for start in starts]
    return columns[0] if len(columns) == 1 else jnp.concatenate(columns, axis=-1)


def warn_if_sizes_are_lost(combiner: PyTree, counts: Num[Array, "... classes"]) -> None:
    """Warn (FractionsWarning) if ``counts`` look like frequencies and the combiner's answer depends on leaf sizes."""
    if combiner.reads_sizes:
        warn_of_fractions(counts)


def check_own_scorers(combiner: PyTree, counts: Num[Array, "... classes"]) -> None:
    """Raise a ValueError if a scorer that a user wrote gives one of these leaves a score beyond its `score_bound`.

    Probabilities made of such scores would be clipped in silence. Traced scorers and counts are not checked.
    """
    scorers = list(combiner._own_scorers())
    if not scorers or not is_concrete(scorers, counts):
        return
    count_sets = combiner.count_sets
    for scorer, names in scorers:
        with outside_traces():
            leaves = columns_of(counts, count_sets, names)
            scores = np.asarray(scorer(leaves))
            bound = score_bound(scorer, leaves.shape[-1])
        if scores.shape not in (leaves.shape, leaves.shape[:-1]):  # a wrong shape is refused when leaves are lifted
            continue
        if scores.size and np.abs(scores).max(initial=0, where=~np.isnan(scores)) > bound * (1 + 1e-4):
            index = np.unravel_index(np.nanargmax(np.abs(scores)), scores.shape)
            leaf = np.asarray(leaves)[index[: leaves.ndim - 1]]  # an index of scores may end with a class
            raise ValueError(
                f"the scorer {getattr(scorer.func, '__name__', 'of the combiner')} gives the leaf {leaf.tolist()} the "
                f"score {scores[index]:.6g}; scores up to ±{bound:.6g} read as probabilities. Declare how far they "
                "reach, @jaxunc.scorers.scorer(width=…): inf for scores without a bound, which have no probability."
            )
