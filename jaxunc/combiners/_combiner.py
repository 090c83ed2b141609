"""The contract of a combiner: lift → merge → finish.

`learned_field` and `tree_field` declare a combiner's numbers. The steps from counts to answers are in `_answer`, the
merges in `_merge`.
"""

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, get_args, overload

import equinox as eqx
import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Num, Shaped

from jaxunc._checks import check_class_axis, check_counts, check_one_of, check_within
from jaxunc._numerics import PickledModule, as_counts
from jaxunc._types import AnswerT, PyTree
from jaxunc.forest import DEFAULT_COUNTS
from jaxunc.scorers import reads_sizes

from ._answer import Answer, check_own_scorers, combine_counts, typed_by_answer, warn_if_sizes_are_lost

Counts: TypeAlias = Shaped[Array | np.ndarray, "... trees classes"]
TwoClassCounts: TypeAlias = Shaped[Array | np.ndarray, "... trees 2"]

Domain = Literal["real", "positive", "unit", "simplex", "log_simplex", "ordered", "fixed"]
DOMAINS = get_args(Domain)
"""Where a learned number may lie: see `learned_field`."""


class Combiner(PickledModule, Generic[AnswerT]):
    """A combination rule: it makes one answer of the leaves of many trees, by a merge that can be streamed.

    Subclass it, declare settings as fields, and write three things (an example in twenty lines: ``docs/combiners.md``):

    * ``lift(counts [... classes])`` → a pytree, the *statistic* that one leaf contributes. It depends on the counts of
      one leaf of one tree alone. Each array of it is a *plane*: it has the axes ``[...]`` of the counts in front, and
      further ones if the combiner needs them. A scalar is the same for every leaf of the tree.
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

        If so, counts that look like frequencies give a warning. Default: whether a scorer or a combiner within it reads
        sizes. A combiner that reads sizes itself declares ``reads_sizes: ClassVar[bool] = True``.
        """

        def needs_sizes(value: Any) -> bool:
            """Return whether a value of a field is a combiner or a scorer that reads sizes."""
            if isinstance(value, Combiner):
                return value.reads_sizes
            return isinstance(value, Partial) and reads_sizes(value)

        values = jax.tree.leaves(vars(self), is_leaf=lambda value: isinstance(value, Combiner | Partial))
        return any(needs_sizes(value) for value in values)

    @property
    def count_sets(self) -> tuple[str, ...]:
        """The names of the count sets that the combiner reads; `lift` gets their columns side by side, in this order.

        Default: the count sets of the combiners within it, each once; if there are none, the forest's own counts. A
        combiner made of several gives each its columns by `columns_of`.
        """
        names = dict.fromkeys(name for combiner in self._within() for name in combiner.count_sets)
        return tuple(names) or (DEFAULT_COUNTS,)

    @abc.abstractmethod
    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the statistic of leaves with these counts: its arrays begin with the axes ``...``, or are scalars."""

    @abc.abstractmethod
    def finish(self, stat: PyTree) -> AnswerT:
        """Return the answer that ``stat``, merged over trees, gives: an `Answer`, or what else the combiner returns."""

    def answer(self, counts: Counts) -> AnswerT:
        """Return the whole answer for the leaves' counts, as `finish` returns it.

        Integers that do not fit 32 bits become floats (unless JAX has 64-bit types); 16-bit floats become float32.

        Parameters
        ----------
        counts
            Class counts of leaves ``[... trees classes]``, ≥ 0.
        """
        return self._combine(counts, readout=None)

    @overload
    def __call__(self: "Combiner[Answer]", counts: Counts) -> Array: ...
    @overload
    def __call__(self: "Combiner[dict[str, Answer]]", counts: Counts) -> dict[str, Array]: ...
    @overload
    def __call__(self: "Combiner[dict[str, Any]]", counts: Counts) -> dict[str, Any]: ...
    @overload
    def __call__(self, counts: Counts) -> AnswerT: ...
    def __call__(self, counts: Counts) -> Any:
        """Return the class scores ``[... classes]`` for the leaves' counts ``[... trees classes]``.

        Where the combiner answers with something else than an `Answer`, that is returned whole.
        """
        return self._combine(counts, "class_scores")

    @typed_by_answer
    def score(self, counts: TwoClassCounts) -> Any:
        """Return the published binary score ``[...]``, positive for class 1; to rank by, see `margin`.

        ``counts`` are those of two classes. Raises a ValueError for more.
        """
        return self._combine(counts, "score")

    @typed_by_answer
    def probability(self, counts: Counts) -> Any:
        """Return the class probabilities ``[... classes]`` for the leaves' counts ``[... trees classes]``."""
        return self._combine(counts, "probability")

    @typed_by_answer
    def log_probability(self, counts: Counts) -> Any:
        """Return the logarithms of the class probabilities ``[... classes]``, which losses are computed from."""
        return self._combine(counts, "log_probability")

    def _combine(self, counts: Any, readout: str | None) -> Any:
        """Return the answer for counts ``[... trees classes]``, or its field ``readout`` unless that is None."""
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
        """Return an iterator over the combiners in this one's fields, without those that they hold in turn."""
        values = jax.tree.leaves(vars(self), is_leaf=lambda value: isinstance(value, Combiner))
        return (value for value in values if isinstance(value, Combiner))

    def _own_scorers(self) -> Iterator[tuple[Partial, tuple[str, ...]]]:
        """Yield the scorers that users wrote, each with the names of the count sets that it gets.

        They are the field ``scorer`` of this combiner and of all combiners within it. A combiner that hands scorers
        other numbers than a leaf's counts overrides this, to yield none.
        """
        scorer = vars(self).get("scorer")
        count_sets = self.count_sets
        if isinstance(scorer, Partial) and not _module_of(scorer).startswith("jaxunc."):
            yield scorer, count_sets
        for combiner in self._within():
            for scorer, names in combiner._own_scorers():
                # If this combiner declares other count sets than the one within, it hands on the counts of its own.
                yield scorer, names if set(names) <= set(count_sets) else count_sets


def check_is_combiner(value: Any, name: str = "combiner") -> None:
    """Raise a TypeError unless ``value`` is a `Combiner`; its message calls the argument ``name``."""
    if isinstance(value, Combiner):
        return
    if isinstance(value, type) and issubclass(value, Combiner):
        raise TypeError(f"{name} is the class {value.__name__}; pass a Combiner, an object of it: {value.__name__}().")
    if isinstance(getattr(value, "combiner", None), Combiner):
        raise TypeError(f"{name} is a {type(value).__name__}; pass the combiner that it holds, its .combiner.")
    hint = "; by a name there is jaxunc.combiners.combiner_by_name" if isinstance(value, str) else ""
    raise TypeError(f"{name} is {value!r}; pass a Combiner, such as jaxunc.Mean(){hint}.")


def _module_of(function: Any) -> str:
    """Return the name of the module where a function, or the function within a `Partial`, is defined; else ""."""
    while hasattr(function, "func"):
        function = function.func
    return getattr(function, "__module__", None) or ""


def learned_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` that `jaxunc.learning.fit_combiner` may change, and where its values lie.

    Parameters
    ----------
    domain
        ``"real"``; ``"positive"``; ``"unit"``, between 0 and 1; along the last axis ``"simplex"``, probabilities
        (a single number: that of class 1), ``"log_simplex"``, their logarithms, or ``"ordered"``, increasing;
        ``"fixed"``, not to be learned. Array fields that declare nothing are real.
    spread
        Expected move of the value from its start, as a standard deviation. It is a move of a real number, of the
        logarithm of a positive number, or of log odds (``"unit"`` and simplexes). Learning adds half the squared move
        in this unit to the sum of losses over instances, so few instances move a value little.
    nearest
        Distance from a bound of the domain at which learning starts if the value lies on that bound, where it would
        stay else.
    **kwargs
        Further arguments of `equinox.field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the body of a class.
    """
    return eqx.field(metadata=_metadata(domain, spread, nearest), **kwargs)


def tree_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` with one entry per tree along its leading axis (a weight, a reliability).

    `lift` sees the entry of one tree; binding, blocks and shards slice the field by tree. A number without axes serves
    all trees.

    Parameters
    ----------
    domain, spread, nearest, **kwargs
        Where the numbers may lie, and how learning moves them, as for `learned_field`; arguments of `equinox.field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the class body.
    """
    return eqx.field(metadata={"per_tree": True, **_metadata(domain, spread, nearest)}, **kwargs)


def _metadata(domain: Domain, spread: float, nearest: float) -> dict[str, Any]:
    """Return the arguments of `learned_field` as a field's metadata, or raise a ValueError if one is not allowed."""
    check_one_of("domain", domain, DOMAINS)
    check_within("spread", spread, "(0, inf)")
    check_within("nearest", nearest, "(0, inf)")
    return {"domain": domain, "spread": float(spread), "nearest": float(nearest)}
