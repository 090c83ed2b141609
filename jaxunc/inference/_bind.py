"""A forest and a combiner bound together: the fast way to score data.

`bind` chooses an engine. `ByTable` is the usual one. `ByRows` serves where the leaf table would be too large, or empty
leaves are followed; `Traced` serves where the forest or the combiner is traced. `BoundForest._run` calls the engine.
`answer_by_table` cuts the instances into parts of few shapes. For each part it runs the compiled programs `merge_chunk`
(walk, look up, merge) and `_finish_chunk`, or both as one: `merge_and_finish`. On an accelerator one program answers
all instances: `answer_and_mark`.

`Answering` and `HasColumns` are the protocols of models and of answers: files, streams and clusters use these alone.
`ReadOuts` has the methods `probability`, `score` and so on, each one call of ``_run``.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, get_args, overload, runtime_checkable

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from jaxunc._checks import check_integer, check_one_of, is_concrete
from jaxunc._numerics import Pickled, copy_in, cores, jit, map_over_devices, own_settings
from jaxunc._types import AnswerT, PyTree
from jaxunc.combiners import Answer, Combiner, as_combiner, read_answer, typed_by_answer
from jaxunc.forest import Forest, Trees, check_is_forest
from jaxunc.tables import (
    Columns,
    Encoded,
    InstancesLike,
    MaskLike,
    SparseRows,
    encode_rows,
    encode_traced,
    unchecked_rows,
)

from ._by_rows import ByRows, answer_by_rows
from ._device_calls import answer_on_device, in_blocks
from ._drive import HostProgram, Part, Shapes, by_float32, call_shapes, cap_shapes, cut, drive, encode_for, narrow_trees
from ._export import answer_any_number, export_program
from ._merge_leaves import Traced, answer_traced, as_mask, is_large, leaf_table, lifted_rows, merge_lifted
from ._packed_trees import MERGED_NUMBERS, PackedTrees, Spec, of_jax
from ._plan import CompactTrees, compact
from ._walk import BLOCKS, CHUNK_BLOCKS, Walk, default_walk

MOST_COLLECTED = 2**22
"""Most values of a collected plane, one for each instance and tree, that a call makes, unless one instance has more."""

ONE_PROGRAM = 256
"""Most rows of a chunk that one program merges and finishes, since calling a program takes 30 µs. Larger chunks take
two programs: all read-outs share the one that merges, and forests of all sizes the one that finishes."""

FEW_COLLECTED = 512
"""Most rows of a call where the collected values of ``BLOCKS[0]`` rows would be more than `MOST_COLLECTED`."""


class ByTable(eqx.Module):
    """The engine with a leaf table: trees packed for walking, and the statistics lifted from their leaves."""

    forest: Forest
    packed: PackedTrees
    compact_trees: CompactTrees | None
    """The trees that were packed, if their tests of sets read words (`compact`); None if the forest's trees were."""

    @classmethod
    def of(cls, forest: Forest, combiner: Combiner, walk: Walk) -> "ByTable":
        """Return the engine of a concrete forest and combiner, with the counts lifted and the trees packed."""
        trees = _with_sets(forest.trees)
        if (by_rows := lifted_rows(forest, combiner)) is not None:
            lifted, code = by_rows
            return cls(forest, PackedTrees.of_rows(forest.trees, lifted, code, combiner.merge, walk=walk), trees)
        table = leaf_table(forest, combiner)
        return cls(forest, PackedTrees.of(forest.trees, table, combiner.merge, missing=False, walk=walk), trees)

    @property
    def walk(self) -> Walk:
        """The walk that the trees were packed for."""
        return self.packed.spec.walk

    @staticmethod
    def suits(forest: Forest, combiner: Combiner, walk: Walk) -> bool:
        """Return whether this engine can answer: no empty leaf is followed; in "blocks" the table is not `is_large`."""
        return not forest.follows_forks and (walk == "levels" or not is_large(forest, combiner))

    def for_missing(self) -> "ByTable":
        """Return the engine with a plan for missing values, which costs a quarter more time."""
        packed = self.packed.for_missing(self.compact_trees or CompactTrees(self.forest.trees))
        return ByTable(self.forest, packed, self.compact_trees)

    def on(self, trees: Trees) -> "ByTable":
        """Return this engine with ``trees`` in place of its own: the same trees on the columns that they test."""
        return ByTable(dataclasses.replace(self.forest, trees=trees), self.packed.by_columns(trees), _with_sets(trees))

    def call(self) -> "TableCall":
        """Return the members of the engine that a call reads."""
        packed = self.packed
        n_tests = int(np.sum(np.asarray(packed.plan.depth))) if is_concrete(packed.plan.depth) else 0
        shapes = shapes_of(packed.spec, packed.n_trees, self.forest.n_features, n_tests)
        return TableCall(packed.spec, packed.arrays, shapes)

    def lower(self, n_instances: int, combiner: Combiner) -> jax.stages.Lowered:
        """Return the lowered program that merges the first chunk of ``n_instances``; in "levels" it answers all."""
        call = self.call()
        if call.spec.walk == "levels":
            x = jax.ShapeDtypeStruct((n_instances, self.forest.n_features), jnp.float32)
            return answer_and_mark.jitted.lower(call.spec, call.block, combiner, "class_scores", call.arrays, x, None)
        chunk = cut(n_instances, call.shapes, 1)[0].chunk
        x = jax.ShapeDtypeStruct((chunk.rows, self.forest.n_features), jnp.float32)
        n_blocks = None if chunk.rows == chunk.block else jax.ShapeDtypeStruct((), jnp.int32)
        return merge_chunk.jitted.lower(call.spec, chunk.block, call.arrays, x, None, n_blocks)


def _with_sets(trees: Trees) -> CompactTrees | None:
    """Return the compact trees (`compact`) if some of their nodes test sets, else None."""
    compact_trees = compact(trees)
    return None if compact_trees.sets is None else compact_trees


class TableCall(NamedTuple):
    """The members of an engine `ByTable` that a call reads, looked up once for all calls.

    Looking up an attribute of a module takes 1 µs, and a call of one row 30 µs. The arrays of `PackedTrees` are a
    tuple, which JAX flattens faster than a module.
    """

    spec: Spec
    arrays: tuple[Any, ...]
    shapes: Shapes

    @property
    def block(self) -> int:
        """Number of instances that an accelerator works on at a time."""
        return (self.shapes.large or self.shapes.single).block


def answer_by_table(call: TableCall, combiner: Combiner, readout: str | None, values, mask, threads: int) -> PyTree:
    """Return the answer, or one read-out of it, for any number of instances ``[instances features]`` on the host.

    ``call`` is of the engine that suits ``values``: with or without missing values. ``readout`` is one of `READOUTS`.
    ``mask`` is a tree mask of NumPy or None. ``threads`` run the calls of parts.
    """
    spec, arrays, shapes = call

    def score(part: Part) -> PyTree:
        """Return the answer of one part: merged and finished by one program if it has few rows, else by two."""
        chunk, rows_and_mask = part.chunk, (part.of(values), part.of(mask))
        if chunk.rows <= ONE_PROGRAM:
            return merge_and_finish(spec, chunk.block, combiner, readout, arrays, *rows_and_mask, part.number)
        return _finish_chunk(combiner, readout, merge_chunk(spec, chunk.block, arrays, *rows_and_mask, part.number))

    return drive(score, cut(len(values), cap_shapes(shapes, values), threads), threads)


def shapes_of(spec: Spec, n_trees: int, n_features: int, n_tests: int = 0) -> Shapes:
    """Return the shapes of calls for ``n_trees`` trees, packed as ``spec`` says, and data of ``n_features`` columns.

    ``n_tests`` is about the number of tests that an instance meets in all trees, 0 if it is not known. Calls have fewer
    rows where planes are wide, and in the walk "blocks" where trees' values are collected.
    """
    on_host, layout, collects = spec.walk == "blocks", spec.layout, spec.layout.planes.collects
    n_columns = spec.n_columns(n_features) if on_host else 2 * n_features + spec.words
    shapes = call_shapes(spec.walk, n_trees, n_columns, n_tests, spec.small_block)
    if layout.is_wide:
        n_numbers = layout.width * (n_trees if collects else 1)
        return shapes.of_at_most(MERGED_NUMBERS // n_numbers, spec.block)
    if not on_host or not collects:
        return shapes
    most_rows = MOST_COLLECTED // n_trees
    if most_rows < BLOCKS[0]:
        return shapes.of_at_most(min(FEW_COLLECTED, max(most_rows, 1)), FEW_COLLECTED)
    return shapes if most_rows >= CHUNK_BLOCKS * BLOCKS[0] else shapes._replace(large=None)


@partial(HostProgram, static_argnums=(0, 1))
def merge_chunk(spec: Spec, block: int, arrays: tuple, x, mask, n_blocks) -> PyTree:
    """Return the statistic of a chunk's rows ``x``, merged over the packed trees with ``arrays`` and ``spec``.

    ``n_blocks`` is the number of the first blocks, of ``block`` instances each, that are walked: None for all rows.
    ``mask`` is a tree mask of the rows or None.
    """
    return PackedTrees(*arrays, spec=spec).merge(x, mask, None if n_blocks is None else (block, n_blocks))


@partial(HostProgram, static_argnums=(0, 1, 3))
def answer_and_mark(
    spec: Spec, block: int, combiner: Combiner, readout: str | None, arrays: tuple, x, mask
) -> tuple[PyTree, Array]:
    """Return (answers, mark) of a batch ``x`` on an accelerator, which works on at most ``block`` instances at a time.

    Other arguments are as for `merge_and_finish`. The mark says whether values are missing or infinite (`in_blocks`).
    """
    return in_blocks(partial(merge_and_finish.function, spec, block, combiner, readout, arrays), block, x, mask)


@partial(HostProgram, static_argnums=(0, 1, 3))
def merge_and_finish(
    spec: Spec, block: int, combiner: Combiner, readout: str | None, arrays: tuple, x, mask, n_blocks=None
) -> PyTree:
    """Return the answers for a chunk, or one ``readout`` of them (`READOUTS`); arguments as for `merge_chunk`."""
    stat = PackedTrees(*arrays, spec=spec).merge(x, mask, None if n_blocks is None else (block, n_blocks))
    return finish_rows(combiner, readout, stat, len(x))


def finish_rows(combiner: Combiner, readout: str | None, stat: PyTree, n: int) -> PyTree:
    """Return the answers, or one ``readout`` (`READOUTS`), for ``stat``, the merged statistic of ``n`` instances.

    An answer has the same bits for one instance as among several.
    """
    if n > 1:
        return read_answer(combiner.finish(stat), readout)
    # A single instance is finished as two equal ones. XLA divides several numbers by a common one through its
    # reciprocal, but not a single number.
    stat = jax.tree.map(lambda array: jnp.repeat(array, 2, axis=0) if array.ndim else array, stat)
    answer = read_answer(combiner.finish(lax.optimization_barrier(stat)), readout)
    return jax.tree.map(lambda array: array[:1] if array.ndim else array, answer)


@jit(static_argnums=1)
def _finish_chunk(combiner: Combiner, readout: str | None, merged: PyTree) -> PyTree:
    """Return the answers for a chunk's ``merged`` statistic, or one ``readout`` of them (`READOUTS`)."""
    return read_answer(combiner.finish(merged), readout)


@runtime_checkable
class Answering(Protocol):
    """The protocol of models that answer instances, such as bound and sharded forests, votes, and laws of numbers.

    An estimator of `jaxunc.estimators` has such a model as ``bound_``. A new kind of model needs only these members;
    its answers need those of `HasColumns`. A model whose answers name classes also has ``class_labels``. A model whose
    forest can be bound to further combiners is an `OfForest`.
    """

    @property
    def columns(self) -> Columns:
        """The columns of the data."""
        ...

    def answer(self, X: Any, /) -> Any:
        """Return the answer for instances ``[instances features]``; a new number of them compiles no model anew."""
        ...

    def blank_answer(self) -> Any:
        """Return an answer for one instance that holds only zeros, of the shapes and types that `answer` returns."""
        ...


@runtime_checkable
class OfSums(Protocol):
    """The protocol of models whose answers are made of merged statistics of bound forests, such as moments."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """The bound forests, called the model's parts."""
        ...

    def over(self, place: Callable[[Any], Any], /) -> Any:
        """Return the same model with ``place(part)`` for each of its bound forests, such as the sharded forest."""
        ...

    def of_sums(self, *stats: PyTree) -> dict[str, Any]:
        """Return the columns of an answer for one instance, by name, from its merged statistics, one for each part.

        Exporters call it, in a program with 64-bit numbers.
        """
        ...


class OfForest:
    """Base of models with a forest: their columns and class labels are the forest's."""

    forest: Any
    combiner: Any

    @property
    def columns(self) -> Columns:
        """The columns of the data."""
        return self.forest.trees.columns

    @property
    def class_labels(self) -> tuple[Any, ...]:
        """The labels of the classes, in the order of the class axis."""
        return self.forest.class_labels


@runtime_checkable
class HasColumns(Protocol):
    """The protocol of answers that can be written as columns of a table."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that `columns` takes, such as ``"class"`` and ``"probability"`` (see `jaxunc.streaming`)."""
        ...

    def columns(self, output: str, /) -> dict[str, Any]:
        """Return the columns of one of the ``outputs`` by name: NumPy arrays ``[instances]``, ``[instances classes]``.

        The column "class" has class numbers. An array ``[instances classes]`` has a number for each class, or a set of
        classes as booleans.
        """
        ...


READOUTS = (None, "class_scores", "score", "probability", "log_probability")
"""The names of read-outs; None stands for the whole answer."""


class ReadOuts(OfForest, abc.ABC, Generic[AnswerT]):
    """Base of bound forests: a combiner's read-outs for NumPy, JAX, pandas or sparse data ``[instances features]``."""

    combiner: Combiner[AnswerT]
    """The combiner."""

    @property
    @abc.abstractmethod
    def forest(self) -> Forest:
        """The forest that was bound."""

    def blank_answer(self) -> AnswerT:
        """Return an answer for one instance that holds only zeros, of the shapes and types that `answer` returns."""
        return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), self._answer_of_one)

    @cached_property
    def _answer_of_one(self) -> PyTree:
        """The shapes and types of an answer for one instance, cached since the combiner is traced for them."""
        columns = self.forest.n_classes * len(self.combiner.count_sets)
        counts = jax.ShapeDtypeStruct((1, self.forest.n_trees, columns), self.forest.count_table.dtype)
        return jax.eval_shape(self.combiner.answer, counts)

    @overload
    def __call__(self: "ReadOuts[Answer]", X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Array: ...
    @overload
    def __call__(
        self: "ReadOuts[dict[str, Answer]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Array]: ...
    @overload
    def __call__(
        self: "ReadOuts[dict[str, Any]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Any]: ...
    @overload
    def __call__(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> AnswerT: ...
    def __call__(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Return class scores ``[instances classes]``, or whatever the combiner's ``__call__`` returns for counts."""
        return self._run(X, tree_mask, "class_scores")

    @typed_by_answer
    def score(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Return the combiner's published score ``[instances]`` of two classes, positive for class 1."""
        return self._run(X, tree_mask, "score")

    @typed_by_answer
    def probability(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Return the class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "probability")

    @typed_by_answer
    def log_probability(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Return the logarithms of the class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "log_probability")

    def answer(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> AnswerT:
        """Return the combiner's whole answer for instances ``X``: all of its read-outs in one object."""
        return self._run(X, tree_mask, None)

    @abc.abstractmethod
    def with_rule(self, combiner: Combiner[Any]) -> "ReadOuts[Any]":
        """Return the same kind of model with the forest bound to another combiner."""

    @abc.abstractmethod
    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """Return the ``readout`` (one of `READOUTS`) of the answer for instances ``X``; the whole answer for None."""


EachT = TypeVar("EachT")


@overload
def bind(
    forest: Forest, combiner: Combiner[AnswerT], *, threads: int | None = None, walk: Walk | None = None
) -> "BoundForest[AnswerT]": ...
@overload
def bind(
    forest: Forest, combiner: Mapping[str, Combiner[EachT]], *, threads: int | None = None, walk: Walk | None = None
) -> "BoundForest[dict[str, EachT]]": ...
def bind(
    forest: Forest, combiner: Combiner | Mapping[str, Combiner], *, threads: int | None = None, walk: Walk | None = None
) -> "BoundForest[Any]":
    """Prepare a forest for scoring by one combiner, or by several at once.

    The leaves' counts are lifted once, and the trees are packed for walking. Each call then only walks and merges.

    Parameters
    ----------
    forest
        The forest.
    combiner
        The combiner. Or combiners by name: instances are walked once for all, and the answer has theirs by name.
    threads
        Number of host threads that run compiled programs on a CPU. Default: one per core that this process may use.
    walk
        The way instances are walked to their leaves: ``"blocks"`` for a CPU, whose cache holds a block that goes
        tree by tree (few rows take all trees at once), or ``"levels"``, all trees a level at a time, for accelerators.
        Default: the one that suits the backend.

    Returns
    -------
    BoundForest
        The bound forest: call it, or its read-outs, on instances.

    Raises
    ------
    RuntimeError
        In a process that was forked after JAX had begun to compute. Calls of a forest bound before the fork raise it,
        too.
    TypeError
        If ``forest`` is not a `Forest` (but a model of scikit-learn, say), ``combiner`` is not a `Combiner` (but a
        class or a name), or ``threads`` is not an integer.
    ValueError
        If the combiner does not suit the forest's number of classes or of trees, the walk is unknown, or threads < 1.

    Notes
    -----
    Any number of instances goes through programs of few shapes, which are compiled when they are first needed. Data of
    the host are cut and padded there, and their answers trimmed. On a CPU the shapes are the powers of two up to 4096
    instances, and 16 384: a server that asks once for each compiles none of them later. After 32 calls with as many of
    up to 64 instances a small program cuts off their padding. A JAX array on an accelerator stays there, and is
    answered by a program for its number of instances.

    For few rows the time of JAX's dispatch counts. Simple programs of up to 16 rows run in the calling thread. With
    ``jax.config.update("jax_cpu_enable_async_dispatch", False)``, before anything is computed, all others do so, too.

    **Processes.** JAX's threads do not survive a fork. A worker that was forked (``multiprocessing``'s "fork", joblib's
    ``backend="multiprocessing"``) after a forest had been made would wait for them without end, so it is refused. Take
    "spawn", "forkserver", or joblib's "loky". One process can use all cores: `BoundForest.threads`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))
    >>> bound = ju.bind(forest, ju.EvidenceAccumulation(forest.prior))
    >>> bound.probability(X[:5]).shape
    (5, 3)
    """
    rule = as_combiner(combiner)
    check_is_forest(forest)
    if any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves((forest, rule))):  # the caller may change them
        forest, rule = jax.tree.map(copy_in, (forest, rule))
    if threads is not None:
        check_integer("threads", threads, 1, " (or None for one per core)")
    if walk is not None:
        check_one_of("walk", walk, get_args(Walk))
    walk = walk or default_walk()
    if not is_concrete(forest, rule):
        engine = Traced.of(forest, rule)
    elif ByTable.suits(forest, rule, walk):
        engine = ByTable.of(forest, rule, walk)
    else:
        engine = ByRows.of(forest, rule, walk)
    return BoundForest(engine, rule, threads or cores())


Engine: TypeAlias = ByTable | ByRows | Traced
"""The kinds of engines: each has a forest, walks instances and merges statistics; the combiner finishes."""

_TRANSIENT_ATTRIBUTES = {"_missing_guess", "_on_float32", "_on_tested", "_raw_engine", "_traceable"}
"""Attributes of a bound forest that copies and pickles leave out, since they are made again."""


@jax.tree_util.register_pytree_with_keys_class
class BoundForest(Pickled, ReadOuts[AnswerT]):
    """A forest bound to a combiner: call it, or its read-outs, on NumPy, JAX or pandas data ``[instances features]``.

    A sparse matrix of SciPy (best CSR; entries that are not stored are 0) is made dense chunk by chunk, and only in
    columns that some tree tests.

    On a CPU the answer for an instance does not depend on other instances, on the size of the batch, or on the number
    of threads: bit for bit under JAX 0.10. Compilers of later versions may round the last bit of an exponential by its
    position in an array.

    A bound forest is a pytree of an engine and a combiner, and may be passed to programs. It has no gradient there. To
    differentiate in the combiner's settings or the forest's counts, call `bind` inside the program.
    """

    _missing_guess: bool = False
    """Whether the last batch had missing values: on an accelerator the next one is first taken to have some, too."""

    def __init__(self, engine: Engine, combiner: Combiner[AnswerT], threads: int):
        self._raw_engine: Engine = engine
        self.combiner: Combiner[AnswerT] = combiner
        self.threads: int = threads
        self._engine_for_missing: Engine | None = None
        self._calls: dict[bool, TableCall] = {}
        self._is_concrete = is_concrete(engine, combiner)

    def lower(self, n_instances: int, *, missing: bool = False) -> jax.stages.Lowered:
        """Return the program for ``n_instances`` as a ``jax.stages.Lowered``, to compile and measure it.

        Parameters
        ----------
        n_instances
            How many instances the program answers, 1 or more; on a CPU it merges their first chunk.
        missing
            Whether values may be missing.

        Raises
        ------
        TypeError
            If ``n_instances`` is not an integer.
        ValueError
            If ``n_instances`` is below 1; if the engine is not `ByTable`: then there is no single program.
        """
        check_integer("n_instances", n_instances, 1)
        engine = self._engine(missing)
        if not isinstance(engine, ByTable):
            raise ValueError(f"this forest is scored {type(engine).__name__}: there is no one program of it.")
        return engine.lower(n_instances, self.combiner)

    def export(
        self, readout: str | None = "probability", *, platforms: Sequence[str] | None = None
    ) -> jax.export.Exported:
        """Return one program of the forest and the combiner, which runs by JAX alone, without this library.

        Parameters
        ----------
        readout
            ``"class_scores"``, ``"score"``, ``"probability"`` or ``"log_probability"``; None for the whole answer.
        platforms
            The platforms on which it is to run, such as ``("cpu", "cuda")``. Default: the one on which this process
            computes. The forest is walked as it was bound: bind with ``walk="levels"`` for accelerators.

        Returns
        -------
        jax.export.Exported
            A program of float32 ``[instances features]``, for any number of instances (also none), with NaN for missing
            values. Nominal columns are given as codes, as `jaxunc.tables.encode_instances` makes them. The program
            returns the read-out, or a dictionary of arrays by name where there are several. Class scores equal the
            bound forest's to the bit, probabilities except for the last bit. Its ``serialize()`` holds the forest, and
            is not larger than a file of `jaxunc.save`.

        Raises
        ------
        TypeError
            If the forest or the combiner is traced, or ``platforms`` is a text.
        ValueError
            If the combiner has no such read-out, or the forest's empty leaves are followed, which only the host can do.

        Notes
        -----
        Jit what is loaded, ``jax.jit(jax.export.deserialize(content).call)``: without it every call costs .2 ms more.
        The program is compiled for each number of instances, and refuses other shapes and types. It uses one core of a
        CPU where a bound forest uses all. Nothing is differentiable. JAX reads programs of the last six months.

        Examples
        --------
        >>> import jax, numpy as np
        >>> import jaxunc as ju
        >>> X = np.random.default_rng(0).normal(size=(99, 4)).astype(np.float32)
        >>> forest = ju.grow_random_trees(jax.random.key(0), X, X[:, 0] > 0, n_trees=9)
        >>> content = ju.bind(forest, ju.Mean()).export().serialize()
        >>> jax.jit(jax.export.deserialize(content).call)(X).shape
        (99, 2)
        """
        check_one_of("readout", readout, READOUTS)
        if isinstance(platforms, str):
            raise TypeError(f"platforms={platforms!r} is a text; pass a list of them: [{platforms!r}].")
        if not self._is_concrete:
            raise TypeError("The bound forest is traced: its values are not known. Export it outside of jit and vmap.")
        # The program's float32 instances go through float32 thresholds, without codes of the cuts.
        bound = self if self.columns.cuts is None else self._on_float32
        model = bound._engine(True), self.combiner
        return export_program(partial(_answer_traced, readout), model, self.forest.n_features, platforms)

    @cached_property
    def engine(self) -> Engine:
        """The engine, with packed arrays of JAX even if `jax.device_get` has made them NumPy's (`of_jax`).

        The pytree of the bound forest holds this engine.
        """
        return of_jax(self._raw_engine)

    @property
    def forest(self) -> Forest:
        """The forest that was bound."""
        return self.engine.forest

    def with_rule(self, combiner: Combiner[Any] | Mapping[str, Combiner[Any]]) -> "BoundForest[Any]":
        """Return the forest bound to another combiner, with the same number of threads and the same walk."""
        return bind(self.forest, combiner, threads=self.threads, walk=self.engine.walk)

    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """Return the ``readout`` of the answer, one of `READOUTS`; None for the whole answer."""
        if not (self._is_concrete and is_concrete(X, tree_mask)):
            return self._run_traced(X, tree_mask, readout)
        bound, values, missing = self._encode(X)
        mask = as_mask(tree_mask, len(values), self._call_settings[1])
        return bound._answer_rows(values, missing, mask, readout)

    def _run_traced(self, X, tree_mask, readout: str | None) -> PyTree:
        """Return the answer, or one ``readout`` of it, within the caller's program."""
        columns, n_trees, _ = self._call_settings
        with own_settings():
            X = encode_traced(X, columns)
            mask = as_mask(tree_mask, X.shape[0], n_trees)
            return map_over_devices(lambda bound, x, mask: bound._traceable(x, mask, readout), X, mask, beside=self)

    def _encode(self, X) -> tuple["BoundForest[AnswerT]", Any, bool | None]:
        """Return (bound forest that answers, encoded instances, whether values are missing) for concrete ``X``.

        The bound forest is `_on_float32` for float32 instances and trees that compare codes, `_on_tested` for sparse
        ones, else this one. None for missing values: an accelerator's program looks for them itself.
        """
        columns, _, on_device = self._call_settings
        if columns.cuts is None:
            values, missing = unchecked_rows(X, columns) if on_device else encode_rows(X, columns)
        else:
            trees, (values, missing) = encode_for(self.forest.trees, X)
            if trees is not self.forest.trees:
                return self._on_float32._encode(Encoded(values, missing))
        if isinstance(values, SparseRows):
            narrow_bound, tested_columns = self._on_tested
            if tested_columns is not None:  # only columns that trees test are made dense
                values = values.of(tested_columns, narrow_bound._call_settings[0])
                return narrow_bound._encode(Encoded(values, bool(missing)))
        return self, values, missing

    def _answer_rows(self, values, missing: bool | None, mask, readout: str | None) -> PyTree:
        """Return the answer, or one ``readout`` of it, for what `_encode` returns and a tree ``mask`` or None."""
        if self._call_settings[2]:
            return self._run_on_device(values, missing, mask, readout)
        mask, missing = None if mask is None else np.asarray(mask), bool(missing)
        if isinstance(engine := self._engine(missing), ByTable):
            return answer_by_table(self._call(missing), self.combiner, readout, values, mask, self.threads)
        if isinstance(engine, ByRows):
            return answer_by_rows(engine, self.combiner, readout, values, mask, self.threads)
        return answer_traced(engine, self.combiner, readout, values, mask)

    def _call(self, missing: bool) -> TableCall:
        """Return what a call reads of the engine `ByTable`, for data with or without missing values; cached."""
        call = self._calls.get(missing)
        if call is None:
            engine = self._engine(missing)
            assert isinstance(engine, ByTable)
            call = engine.call()
            if is_concrete(call.arrays):  # arrays of a program that is being traced must not be kept
                self._calls[missing] = call
        return call

    def _run_on_device(self, values, missing: bool | None, mask, readout: str | None) -> PyTree:
        """Return an accelerator's answer, or one ``readout`` of it, for ``values`` of the host or of a device.

        ``mask`` is a tree mask or None. ``missing`` tells whether values are missing; None if nobody has looked: the
        program then does. What is found is kept, as the guess for the next batch.
        """

        def program(with_missing: bool, x, mask) -> tuple[PyTree, Array]:
            call = self._call(with_missing)
            return answer_and_mark(call.spec, call.block, self.combiner, readout, call.arrays, x, mask)

        # Values of a row and planes of its statistic, 4 bytes each: the same number with and without missing values.
        row_numbers = values.shape[1] + self._call(False).spec.layout.width
        row_bytes = 4 * row_numbers + (0 if mask is None else mask.shape[1])
        answer, self._missing_guess = answer_on_device(
            program, values, mask, row_bytes, missing=missing, guess=self._missing_guess
        )
        return jax.device_put(answer)

    @cached_property
    def _call_settings(self) -> tuple[Columns, int, bool]:
        """(columns of the data, number of trees in a mask, whether an accelerator answers by table).

        Cached, since attributes of a module are slow.
        """
        engine = self.engine
        on_device = isinstance(engine, ByTable) and engine.packed.spec.walk == "levels"
        return engine.forest.trees.columns, engine.forest.n_trees, on_device

    @cached_property
    def _traceable(self) -> Callable[[Any, Any, str | None], PyTree]:
        """The function that answers traced instances: (instances of `encode_traced`, mask, read-out) → answer.

        It is jitted, so that `vmap` or `grad` without `jit` run it as one program. Operation by operation, combiners
        would round differently.
        """

        def answer(X: Any, mask: Any, readout: str | None) -> PyTree:
            model, answer_rows = (self._engine(True), self.combiner), partial(_answer_traced, readout)
            if isinstance(X.shape[0], int):
                return answer_rows(model, X, mask)
            return answer_any_number(answer_rows, model, X, mask)

        return jit(answer, static_argnums=2) if self._is_concrete else answer

    @cached_property
    def _on_tested(self) -> tuple["BoundForest[AnswerT]", np.ndarray | None]:
        """(bound forest on the columns that its trees test, their positions); (itself, None) if these are all."""
        engine = self.engine
        trees, positions = narrow_trees(engine.forest.trees)
        if positions is None:
            return self, None
        if isinstance(engine, Traced):
            raise NotImplementedError("Sparse data need a forest that was bound outside of a program.")
        return BoundForest(engine.on(trees), self.combiner, self.threads), positions

    @cached_property
    def _on_float32(self) -> "BoundForest[AnswerT]":
        """The bound forest whose thresholds are float32 numbers in place of codes, for instances that float32 holds."""
        engine = self.engine
        forest = dataclasses.replace(engine.forest, trees=by_float32(engine.forest.trees))
        return bind(forest, self.combiner, threads=self.threads, walk=self.engine.walk)

    def _engine(self, missing: bool) -> Engine:
        """Return the engine for data with or without ``missing`` values; cached unless it is traced."""
        engine = self.engine
        if not missing or not isinstance(engine, ByTable):  # `ByRows` and `Traced` always take missing values
            return engine
        if self._engine_for_missing is None:
            missing_engine = engine.for_missing()
            if not is_concrete(missing_engine):
                return missing_engine
            self._engine_for_missing = missing_engine
        return self._engine_for_missing

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], tuple[Any, Any]], int]:
        """Return the engine and the combiner as children, and the number of threads as static data."""
        key = jax.tree_util.GetAttrKey
        return ((key("engine"), self.engine), (key("combiner"), self.combiner)), self.threads

    @classmethod
    def tree_unflatten(cls, threads: int, children: Any) -> "BoundForest":
        """Return the bound forest made of the number of ``threads`` and of ``children`` (engine, combiner)."""
        engine, combiner = children
        return cls(engine, combiner, threads)

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes for copies and pickles by name, without those of `_TRANSIENT_ATTRIBUTES`."""
        state = {name: value for name, value in vars(self).items() if name not in _TRANSIENT_ATTRIBUTES}
        return state | {"engine": self.engine, "_calls": {}}

    def __repr__(self) -> str:
        return f"BoundForest({self.engine.forest!r}, {type(self.combiner).__name__}, threads={self.threads})"


def _answer_traced(readout: str | None, model: tuple[Engine, Combiner], X: jax.Array, mask) -> PyTree:
    """Return the answer, or one ``readout`` of it, of ``X`` under ``mask`` in a caller's program.

    The ``model`` is (engine for data with missing values, combiner).
    """
    engine, combiner = model
    if isinstance(engine, ByTable):
        # Lifted statistics are constants here: for gradients the forest has to be bound in the program.
        stat = jax.tree.map(lax.stop_gradient, engine.packed.merge(X, mask))
    else:
        stat = merge_lifted(engine.forest, combiner, X, mask)  # raises an error where empty leaves are followed
    return read_answer(combiner.finish(stat), readout)
