"""The contract of a combiner: lift → merge → finish.

`Combiner` is that contract, and its methods answer for counts ``[... trees classes]``. Behind them stand the steps, in
their order: `combine_counts` lifts each tree's leaves (`lift_tree`), merges what they contribute (`merged`, by
`jaxunc.combiners._merge`), finishes, and reads the answer (`jaxunc.combiners._answer`). Where instances are streamed,
`jaxunc.inference` takes the same steps one by one. The fields of combiners are declared last: which numbers can be
learned, and which differ from tree to tree.
"""

import abc
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, get_args, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Num, Shaped

from jaxunc._checks import (
    check_class_axis,
    check_counts,
    check_one_of,
    check_within,
    is_concrete,
    outside_traces,
    warn_of_fractions,
)
from jaxunc._numerics import PickledModule, as_counts, float_dtype, jit
from jaxunc._types import AnswerT, PyTree
from jaxunc.forest import OWN
from jaxunc.scorers import reads_sizes, score_bound

from ._answer import Answer, read_answer
from ._merge import Merging, merge_kinds

Counts: TypeAlias = Shaped[Array | np.ndarray, "... trees classes"]
TwoClassCounts: TypeAlias = Shaped[Array | np.ndarray, "... trees 2"]
EachT = TypeVar("EachT")
"""The type of the answer of each of several combiners."""


class Combiner(PickledModule, Generic[AnswerT]):
    """A combination rule: it makes one answer of the leaves of many trees, by a merge that can be streamed.

    Subclass it, declare settings as fields, and write three things (an example in twenty lines: ``docs/combiners.md``):

    * ``lift(counts [... classes])`` → a pytree, the *statistic* that one leaf contributes. It depends on the counts of
      one leaf of one tree alone. Each array of it is a *plane*: the leading axes ``[...]`` of the counts, and further
      ones if the combiner needs them. A scalar is the same for every leaf of the tree.
    * ``merge`` → how the statistics of trees merge: ``"sum"``, ``"exact_sum"``, ``"min"``, ``"max"`` or ``"collect"``,
      for all planes or as a pytree prefix of the statistic. Sums are compensated. An exact sum (of floats, or of
      integers ≥ 0) reaches `finish` as a `jaxunc.combiners.TwoFloat`, without any rounding for counts: ``.value`` is
      the nearest float, and ``.plus``, ``.minus`` and ``.divided_by`` keep twice its digits. Collected planes have the
      trees along a further axis, ``[... trees]`` or ``[... trees k]``, NaN where a tree is masked. They serve medians
      and the like, and all are kept for a chunk of instances.
    * ``finish(stat)`` → the answer, from the merged statistic. It must not ask how many trees there were: denominators
      are part of the statistic. So weights, masks, parts of a forest and shards are the same code.
    """

    if TYPE_CHECKING:  # a field would have to be passed to every constructor
        merge: ClassVar[PyTree]
    else:
        merge: eqx.AbstractVar[PyTree]
    """Kind of the merge: a name, or a pytree prefix of the statistic with names as leaves."""

    if not TYPE_CHECKING:
        # A combiner is one function, as its methods are; `equinox.tree_equal` compares what combiners hold.
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    @property
    def reads_sizes(self) -> bool:
        """Whether the answer depends on how many instances leaves hold, and not on their shares alone.

        If so, a warning tells of counts that look like frequencies. By default as the scorers and the combiners within
        it say; a combiner that reads sizes itself says so: ``reads_sizes: ClassVar[bool] = True``.
        """
        parts = jax.tree.leaves(vars(self), is_leaf=lambda part: isinstance(part, Combiner | Partial))
        return any(
            part.reads_sizes if isinstance(part, Combiner) else isinstance(part, Partial) and reads_sizes(part)
            for part in parts
        )

    @property
    def count_sets(self) -> tuple[str, ...]:
        """The names of the counts that the combiner reads of a leaf, which stand side by side in what it lifts.

        By default those of the combiners within it, each once, and else the forest's own alone. A combiner of several
        hands each its columns: `columns_of`.
        """
        return tuple(dict.fromkeys(name for part in self._within() for name in part.count_sets)) or (OWN,)

    @abc.abstractmethod
    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the statistic that leaves with these counts contribute."""

    @abc.abstractmethod
    def finish(self, stat: PyTree) -> AnswerT:
        """Return the answer: an `Answer`, or whatever else the combiner returns."""

    def answer(self, counts: Counts) -> AnswerT:
        """Return everything that `finish` says of the leaves' counts.

        Whole numbers that do not fit 32 bits are taken as floats (unless JAX has 64), floats of 16 bits as float32.

        Parameters
        ----------
        counts
            Class counts of leaves ``[... trees classes]``, ≥ 0.
        """
        return self._combine(counts, None)

    @overload
    def __call__(self: "Combiner[Answer]", counts: Counts) -> Array: ...
    @overload
    def __call__(self: "Combiner[dict[str, Answer]]", counts: Counts) -> dict[str, Array]: ...
    @overload
    def __call__(self: "Combiner[dict[str, Any]]", counts: Counts) -> dict[str, Any]: ...
    @overload
    def __call__(self, counts: Counts) -> AnswerT: ...
    def __call__(self, counts: Counts) -> Any:
        """Class scores ``[... classes]`` of the leaves' counts ``[... trees classes]``."""
        return self._combine(counts, "class_scores")

    @overload
    def score(self: "Combiner[Answer]", counts: TwoClassCounts) -> Array: ...
    @overload
    def score(self: "Combiner[dict[str, Answer]]", counts: TwoClassCounts) -> dict[str, Array]: ...
    @overload
    def score(self: "Combiner[dict[str, Any]]", counts: TwoClassCounts) -> dict[str, Any]: ...
    def score(self: Any, counts: TwoClassCounts) -> Any:
        """The published binary score ``[...]``, positive for class 1. See `margin` for a number to rank by."""
        return self._combine(counts, "score")

    @overload
    def probability(self: "Combiner[Answer]", counts: Counts) -> Array: ...
    @overload
    def probability(self: "Combiner[dict[str, Answer]]", counts: Counts) -> dict[str, Array]: ...
    @overload
    def probability(self: "Combiner[dict[str, Any]]", counts: Counts) -> dict[str, Any]: ...
    def probability(self: Any, counts: Counts) -> Any:
        """Class probabilities ``[... classes]``."""
        return self._combine(counts, "probability")

    @overload
    def log_probability(self: "Combiner[Answer]", counts: Counts) -> Array: ...
    @overload
    def log_probability(self: "Combiner[dict[str, Answer]]", counts: Counts) -> dict[str, Array]: ...
    @overload
    def log_probability(self: "Combiner[dict[str, Any]]", counts: Counts) -> dict[str, Any]: ...
    def log_probability(self: Any, counts: Counts) -> Any:
        """Logarithms of the class probabilities ``[... classes]``, for losses."""
        return self._combine(counts, "log_probability")

    def _combine(self, counts: Any, readout: str | None) -> Any:
        counts = as_counts(counts)
        check_class_axis(counts)
        if counts.ndim < 2:
            raise ValueError(
                f"counts has shape {counts.shape}; a combiner takes [... trees classes]. Add the tree axis: "
                "counts[None]."
            )
        check_counts(counts)
        warn_if_sizes_are_lost(self, counts)
        check_own_scorers(self, counts)
        return combine_counts(self, counts, readout)

    def _within(self) -> Iterator["Combiner"]:
        """The combiners that this one holds."""
        is_combiner = lambda part: isinstance(part, Combiner)
        return filter(is_combiner, jax.tree.leaves(vars(self), is_leaf=is_combiner))

    def _own_scorers(self) -> Iterator[Partial]:
        """The scorers of a user's own that are called with the counts as they are given."""
        scorer = vars(self).get("scorer")
        if isinstance(scorer, Partial) and not _module_of(scorer).startswith("jaxunc."):
            yield scorer
        for part in self._within():
            yield from part._own_scorers()


def check_is_combiner(value: Any, name: str = "combiner") -> None:
    """Raise a TypeError that says what to pass unless it is a combiner."""
    if isinstance(value, Combiner):
        return
    if isinstance(value, type) and issubclass(value, Combiner):
        raise TypeError(f"{name} is the class {value.__name__}; pass a Combiner, an object of it: {value.__name__}().")
    if isinstance(getattr(value, "combiner", None), Combiner):
        raise TypeError(f"{name} is a {type(value).__name__}; pass the combiner that it holds, its .combiner.")
    by_name = "; by a name there is jaxunc.combiners.combiner_by_name" if isinstance(value, str) else ""
    raise TypeError(f"{name} is {value!r}; pass a Combiner, such as jaxunc.Mean(){by_name}.")


def as_combiner(value: Any, name: str = "combiner") -> Combiner:
    """Return a combiner as it is, several by name `Together`; raises as `check_is_combiner` does."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(
                    f"{name} has the key {key!r:.60}; name combiners by strings: {{'mean': jaxunc.Mean()}}."
                )
            check_is_combiner(part, f"{name}[{key!r}]")
        return Together(**value)
    check_is_combiner(value, name)
    return value


class Together(Combiner[dict[str, EachT]]):
    """Several combiners at once: their planes side by side, each with its own merge.

    ``Together(mean=Mean(), eva=EvidenceAccumulation(prior))`` answers with a dictionary of their answers.
    Raises a ValueError without combiners, a TypeError for anything that is not a `Combiner`.

    Parameters
    ----------
    **rules
        Combiners by the name that each answers under.
    """

    rules: dict[str, Combiner[EachT]]

    def __init__(self, **rules: Combiner[EachT]):
        if not rules:
            raise ValueError("Together needs at least one combiner, by name: Together(mean=Mean()).")
        for name, part in rules.items():
            if not isinstance(part, Combiner):
                raise TypeError(f"{name}={part!r} is no Combiner; pass some such as Mean().")
        self.rules = rules

    @property
    def merge(self) -> PyTree:
        """The merges of the combiners, by name."""
        return {name: part.merge for name, part in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
        """Lift every combiner, each from the counts that it reads."""
        return lift_each(self, counts)

    def finish(self, stat: PyTree) -> dict[str, EachT]:
        """Return the answer of every combiner, by its name."""
        return {name: part.finish(stat[name]) for name, part in self.rules.items()}


def lift_each(several: Any, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
    """Lift each combiner of ``rules`` from the counts that it reads."""
    read = several.count_sets
    return {name: part.lift(columns_of(counts, read, part.count_sets)) for name, part in several.rules.items()}


def warn_if_sizes_are_lost(combiner: Combiner, counts: Num[Array, "... classes"]) -> None:
    """Warn of counts that look like frequencies if the combiner reads leaf sizes."""
    if combiner.reads_sizes:
        warn_of_fractions(counts)


def check_own_scorers(combiner: Combiner, counts: Num[Array, "... classes"]) -> None:
    """Refuse a combiner whose scorer, a user's own, gives these leaves scores beyond its width; traced ones pass.

    Their probabilities would be cut in silence.
    """
    scorers = list(combiner._own_scorers())
    if not scorers or not is_concrete(scorers, counts):
        return
    for scorer in scorers:
        with outside_traces():
            scores, bound = np.asarray(scorer(counts)), score_bound(scorer, counts.shape[-1])
        if scores.shape not in (counts.shape, counts.shape[:-1]):  # lifting says what is wrong
            continue
        if scores.size and np.abs(scores).max(initial=0, where=~np.isnan(scores)) > bound * (1 + 1e-4):
            place = np.unravel_index(np.nanargmax(np.abs(scores)), scores.shape)
            raise ValueError(
                f"the scorer {getattr(scorer.func, '__name__', 'of the combiner')} gives the leaf "
                f"{np.asarray(counts)[place[: counts.ndim - 1]].tolist()} the score {scores[place]:.6g}; scores up to "
                f"±{bound:.6g} read as probabilities. Declare how far they reach, @jaxunc.scorers.scorer(width=…): inf "
                "for scores without a bound, which have no probability."
            )


def _module_of(function: Any) -> str:
    while hasattr(function, "func"):
        function = function.func
    return getattr(function, "__module__", None) or ""


# The steps of an answer.


@jit(static_argnames="readout")
def combine_counts(
    combiner: Combiner,
    counts: Num[Array, "... trees classes"],
    readout: str | None,
    mask: Bool[Array, "... trees"] | None = None,
) -> PyTree:
    """Lift each tree's counts, merge those that the mask lets pass in the order of the trees, finish."""
    *lead, n_trees, n_classes = counts.shape
    by_tree = jnp.moveaxis(counts, -2, 0).reshape(n_trees, -1, n_classes)
    check_tree_fields(combiner, n_trees)
    # Arrays [trees rows ...], and numbers per tree [trees].
    stat = jax.vmap(lift_tree, in_axes=(tree_axes(combiner), 0))(combiner, by_tree)
    passing = None if mask is None else jnp.moveaxis(mask, -1, 0).reshape(n_trees, -1)

    def with_lead(part):  # a scalar of the tree stays a scalar
        return part.reshape((*lead, *part.shape[1:])) if part.ndim else part

    return read_answer(combiner.finish(jax.tree.map(with_lead, merged(combiner, stat, passing))), readout)


def lift_tree(combiner: Combiner, counts: Num[Array, "rows classes"]) -> PyTree:
    """Lift one tree's leaves, checking that the statistic has the shape that a combiner promises."""
    stat = combiner.lift(counts)
    rows = counts.shape[0]
    for path, part in jax.tree_util.tree_leaves_with_path(stat):
        shape = jnp.shape(part)
        if shape and shape[0] != rows:
            raise ValueError(
                f"{type(combiner).__name__}.lift returned an array of shape {shape} at "
                f"stat{jax.tree_util.keystr(path)} for counts of shape {counts.shape}; expected ({rows},), "
                f"({rows}, …) or a scalar for the whole tree."
            )
    kinds = merge_kinds(combiner.merge, stat)
    parts, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, stat))
    # Only exact sums keep integers: other merges carry floats.
    parts = [p if kind == "exact_sum" else p.astype(float_dtype(p)) for kind, p in zip(kinds, parts, strict=True)]
    return jax.tree.unflatten(structure, parts)


def merged(combiner: Combiner, stat: PyTree, passing: Bool[Array, "trees rows"] | None) -> PyTree:
    """Merge the statistics of those trees that pass, in the order of the trees."""
    parts, structure = jax.tree.flatten(stat)
    merging = Merging.of(combiner.merge, stat)
    if passing is not None:
        parts = merging.mask(parts, passing)
    carry = merging.scan(lambda tree: tree, merging.start([part.shape[1:] for part in parts]), parts)
    return jax.tree.unflatten(structure, merging.result(carry))


_lift_rows_once = jit(lift_tree)
_SHORT, _LONG, _MOST_NUMBERS = 1024, 16384, 2**22
_MOST_LIFTED = 2**29
"""Numbers that may be lifted in all, 2 GB of 32 bits: some times as much is in use while they are packed."""


MANY = 32
"""Classes up to which each is worth numbers of its own in what is computed with pairs of them, or kept for a part."""


def lifted_together(combiner: Combiner, counts: Num[Array, "distinct classes"]) -> int:
    """Return how many of the count vectors one program lifts: in such parts they need none for each number."""
    n_rows, n_classes = counts.shape
    lengths = (_LONG, _SHORT, n_rows) if n_classes <= MANY else (_length(combiner, counts), n_rows)
    return next(part for part in lengths if n_rows % part == 0)


def lift_rows(combiner: Combiner, counts: Num[Array, "distinct classes"]) -> PyTree:
    """Lift a power of two of count vectors that are the same for all trees (outside a trace)."""
    if (length := lifted_together(combiner, counts)) == len(counts):
        return _lift_rows_once(combiner, counts)
    rows = np.asarray(counts)  # cut and joined on the host, where that compiles nothing
    parts = [_lift_rows_once(combiner, rows[start : start + length]) for start in range(0, len(rows), length)]
    # A number for the whole tree is the same in all parts.
    joined = lambda *rows: jax.device_put(np.concatenate(rows)) if rows[0].ndim else rows[0]
    return jax.tree.map(joined, *parts)


def _length(combiner: Combiner, counts: Num[Array, "distinct classes"]) -> int:
    """Rows that are lifted at a time where classes are many: a power of two."""
    n_rows, n_classes = counts.shape
    lifted = jax.eval_shape(_lift_rows_once, combiner, jax.ShapeDtypeStruct((1, n_classes), counts.dtype))
    numbers = max(n_classes, *(math.prod(part.shape) for part in jax.tree.leaves(lifted)))
    if n_rows * numbers > _MOST_LIFTED:
        raise ValueError(
            f"{type(combiner).__name__} of {n_classes} classes makes {numbers} numbers of each leaf, and there are "
            f"{n_rows} distinct ones (padded): {n_rows * numbers * 4 / 2**30:.0f} GB. Pass a combiner that compares no "
            "pairs of classes, such as Mean or Pooling, or a forest with fewer leaves."
        )
    return min(_SHORT, 1 << max(_MOST_NUMBERS // numbers, 1).bit_length() - 1)


def columns_of(
    counts: Num[Array, "... columns"], names: tuple[str, ...], wanted: tuple[str, ...]
) -> Num[Array, "... asked_columns"]:
    """Return the asked columns of counts that stand side by side in the order of the given names."""
    if names == wanted:
        return counts
    n_classes = counts.shape[-1] // len(names)
    starts = [n_classes * names.index(name) for name in wanted]
    parts = [counts[..., start : start + n_classes] for start in starts]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)


# The fields of combiners.

Domain = Literal["real", "positive", "unit", "simplex", "log_simplex", "ordered", "fixed"]
DOMAINS = get_args(Domain)
"""Where a learned number may lie: see `learned_field`."""


def learned_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` that `jaxunc.learning.fit_combiner` may change, and where its values lie.

    Parameters
    ----------
    domain
        ``"real"``; ``"positive"``; ``"unit"``, between 0 and 1; along the last axis ``"simplex"``, probabilities
        (a single number: that of class 1), ``"log_simplex"``, their logarithms, or ``"ordered"``, increasing;
        ``"fixed"``, not to be learned. Array fields that declare nothing are real.
    spread
        Expected move of the value from where it starts, as a standard deviation: a difference of a real number, of the
        logarithm of a positive one, of the log odds between 0 and 1 and on a simplex. Learning a value from few
        instances is held back accordingly; by one instance's log loss at one standard deviation.
    nearest
        Where learning starts from a bound of the domain, from which nothing pulls a value away: so far from it.
    **kwargs
        As for `equinox.field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the body of a class.
    """
    return eqx.field(metadata=_metadata(domain, spread, nearest), **kwargs)


def tree_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` with one entry per tree along its leading axis (a weight, a reliability).

    `lift` sees the entry of its own tree; binding, blocks and shards slice the field alike. A number without axes is
    shared by all trees.

    Parameters
    ----------
    domain, spread, nearest, **kwargs
        See `learned_field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the class body.
    """
    return eqx.field(metadata={"per_tree": True, **_metadata(domain, spread, nearest)}, **kwargs)


def _metadata(domain: Domain, spread: float, nearest: float) -> dict[str, Any]:
    check_one_of("domain", domain, DOMAINS)
    check_within("spread", spread, "(0, inf)")
    check_within("nearest", nearest, "(0, inf)")
    return {"domain": domain, "spread": float(spread), "nearest": float(nearest)}


def tree_axes(combiner: Combiner) -> PyTree:
    """Return the axes to map a combiner over trees by: 0 for arrays with a leading tree axis, None for all others."""

    def axis(path, leaf):
        node: Any = combiner
        for key in path:
            if isinstance(key, jax.tree_util.GetAttrKey):
                fields = {f.name: f for f in getattr(node, "__dataclass_fields__", {}).values()}
                # The first field on the way decides: all arrays below a field by tree have trees in front.
                if key.name in fields and fields[key.name].metadata.get("per_tree"):
                    return 0 if jnp.ndim(leaf) else None  # one number serves all trees
                node = getattr(node, key.name)
            elif isinstance(key, jax.tree_util.DictKey):
                node = node[key.key]
            elif isinstance(key, jax.tree_util.SequenceKey):
                node = node[key.idx]
            else:
                return None
        return None

    return jax.tree_util.tree_map_with_path(axis, combiner)


def has_tree_fields(combiner: Combiner) -> bool:
    """Return whether any field of the combiner differs from tree to tree."""
    return bool(jax.tree.leaves(tree_axes(combiner)))


def check_tree_fields(combiner: Combiner, n_trees: int) -> None:
    """Raise a ValueError unless every per-tree field has one entry per tree."""

    def check(path, axis, leaf):
        if axis == 0 and (jnp.ndim(leaf) == 0 or leaf.shape[0] != n_trees):
            raise ValueError(
                f"{type(combiner).__name__}{jax.tree_util.keystr(path)} has shape {jnp.shape(leaf)}, but there are "
                f"{n_trees} trees: pass one entry per tree, shape ({n_trees},)."
            )

    jax.tree_util.tree_map_with_path(check, tree_axes(combiner), combiner, is_leaf=lambda x: x is None)
