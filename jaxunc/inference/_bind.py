"""A forest and a combiner bound together: the fast way to score data.

`bind` chooses an engine. `ByTable` is the usual one. `ByRows` serves where the leaf table would be too large, or empty
leaves are followed; `Traced` serves where the forest or the combiner is traced. `BoundForest._run` calls the engine.

`Answering` and `HasColumns` are the protocols of models and of answers: files, streams and clusters use these alone.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, get_args, overload, runtime_checkable

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
from jaxunc.forest import Forest, check_is_forest
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
from ._by_table import ByTable, FlatCombiner, TableCall, answer_and_mark, answer_by_table
from ._device_calls import answer_on_device
from ._drive import by_float32, encode_for, narrow_trees
from ._merge_leaves import Traced, answer_traced, as_mask, merge_lifted
from ._packed_trees import of_jax
from ._walk import FEW, Walk, default_walk


@runtime_checkable
class Answering(Protocol):
    """The protocol of models that answer instances: bound and sharded forests, votes, laws of `jaxunc.regression`.

    An estimator of `jaxunc.estimators` has such a model as ``bound_``. Its answers have the members of `HasColumns`. A
    model whose answers name classes also has ``class_labels``. A model whose forest can be bound to further combiners
    is an `OfForest`.
    """

    @property
    def columns(self) -> Columns:
        """The columns of the data."""
        ...

    def answer(self, X: Any, /) -> Any:
        """Return the answer for instances ``X [instances features]``; a new number of them compiles no model anew."""
        ...

    def blank_answer(self) -> Any:
        """Return an answer for one instance that holds only zeros, of the shapes and types that `answer` returns."""
        ...


@runtime_checkable
class OfSums(Protocol):
    """The protocol of models whose answers are made of merged statistics of bound forests, such as moments."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """The bound forests whose merged statistics make the answer."""
        ...

    def over(self, place: Callable[[Any], Any], /) -> Any:
        """Return the same model with ``place(part)`` in place of each bound forest ``part``, such as a sharded one."""
        ...

    def of_sums(self, *stats: PyTree) -> dict[str, Any]:
        """Return the columns of an answer for one instance, by name.

        ``stats`` are the instance's merged statistics, one of each of the `parts`. Exporters call this method, in a
        program with 64-bit numbers.
        """
        ...


class OfForest:
    """Base of models with a forest, whose columns and class labels they have."""

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
        """The names that `columns` takes, such as ``"class"`` and ``"probability"`` (see `jaxunc.streaming`)."""
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
    """Base of bound forests: a combiner's read-outs for NumPy, JAX, pandas or sparse data ``[instances features]``.

    A ``tree_mask``, booleans ``[instances trees]``, tells which trees count for which instance; by default all do.
    """

    combiner: Combiner[AnswerT]
    """What makes one answer of the leaves that an instance reaches."""

    @property
    @abc.abstractmethod
    def forest(self) -> Forest:
        """The forest that was bound."""

    def blank_answer(self) -> AnswerT:
        """Return an answer for one instance that holds only zeros, of the shapes and types that `answer` returns."""
        return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), self._answer_of_one)

    @cached_property
    def _answer_of_one(self) -> PyTree:
        """The answer for one instance, with shapes and types in place of arrays; cached, since it takes a trace."""
        n_columns = self.forest.n_classes * len(self.combiner.count_sets)  # the count sets lie side by side
        counts = jax.ShapeDtypeStruct((1, self.forest.n_trees, n_columns), self.forest.count_table.dtype)
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
        """Return the class scores ``[instances classes]``, or the combiner's whole answer if it is no `Answer`."""
        return self._run(X, tree_mask, "class_scores")

    @typed_by_answer
    def score(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Return the combiner's score ``[instances]`` for two classes, defined by its authors: positive for class 1."""
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
        """Return a model of the same kind, with the forest bound to ``combiner`` in place of this one."""

    @abc.abstractmethod
    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """Return one ``readout`` (`READOUTS`) of the answer for instances ``X``; for None the whole answer."""


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
        The way instances are walked to their leaves. ``"blocks"`` is for a CPU, whose cache holds a block that goes
        tree by tree (few rows take all trees at once). ``"levels"``, all trees a level at a time, is for accelerators.
        Default: the one that suits the backend.

    Returns
    -------
    BoundForest
        The bound forest: call it, or its read-outs, on instances.

    Raises
    ------
    RuntimeError
        In a process that was forked after JAX had begun to compute; also when a forest bound before the fork is called.
    TypeError
        If ``forest`` is not a `Forest` (but a model of scikit-learn, say), ``combiner`` is not a `Combiner` (but a
        class or a name), or ``threads`` is not an integer.
    ValueError
        If the combiner does not suit the forest's number of classes or of trees, the walk is unknown, or threads < 1.

    Notes ----- Any number of instances goes through programs of few shapes, which are compiled when they are first
    needed. Data of the host are cut and padded there, and their answers joined and trimmed. On a CPU the shapes are the
    powers of two up to 4096 instances, and 16 384. A server that asks once for each compiles none of them later. After
    32 calls with as many instances a small program joins and trims their answers, for at most 64 numbers of instances.
    A JAX array on an accelerator stays there, and is answered by a program for its number of instances.

    For few rows the time of JAX's dispatch counts. Simple programs of up to 16 rows run in the calling thread. With
    ``jax.config.update("jax_cpu_enable_async_dispatch", False)``, before anything is computed, all others do.

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

_TRANSIENT_ATTRIBUTES = {"_flat_combiner", "_missing_guess", "_on_float32", "_on_tested", "_raw_engine", "_traceable"}
"""Attributes of a bound forest that copies and pickles leave out, since they are made again."""


@jax.tree_util.register_pytree_with_keys_class
class BoundForest(Pickled, ReadOuts[AnswerT]):
    """A forest bound to a combiner: call it, or its read-outs, on NumPy, JAX or pandas data ``[instances features]``.

    A sparse matrix of SciPy (best CSR; entries that are not stored are 0) is made dense chunk by chunk, and only in
    columns that some tree tests.

    On a CPU the answer for an instance does not depend on other instances, the size of the batch or the number of
    threads. Under JAX 0.10 this holds for each bit; compilers of later versions may round the last bit of an
    exponential by its position in an array.

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
        model = bound._engine(missing=True), self.combiner
        return _export_program(partial(_answer_traced, readout), model, self.forest.n_features, platforms)

    @cached_property
    def engine(self) -> Engine:
        """The engine that answers, as the bound forest's pytree holds it.

        Its packed arrays are JAX's, even if `jax.device_get` has made them NumPy's (`of_jax`).
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
        """Return one ``readout`` (`READOUTS`) of the answer for instances ``X``; for None the whole answer."""
        if not (self._is_concrete and is_concrete(X, tree_mask)):
            return self._run_traced(X, tree_mask, readout)
        bound, values, missing = self._encode(X)
        _, n_trees, _ = self._call_settings
        mask = as_mask(tree_mask, len(values), n_trees)
        return bound._answer_rows(values, missing, mask, readout)

    def _run_traced(self, X, tree_mask, readout: str | None) -> PyTree:
        """Return what `_run` returns where ``X``, ``tree_mask`` or the bound forest is traced by a caller's program."""
        columns, n_trees, _ = self._call_settings

        def answer_rows(bound, rows, mask):
            return bound._traceable(rows, mask, readout)

        with own_settings():
            X = encode_traced(X, columns)
            mask = as_mask(tree_mask, X.shape[0], n_trees)
            return map_over_devices(answer_rows, X, mask, beside=self)

    def _encode(self, X) -> tuple["BoundForest[AnswerT]", Any, bool | None]:
        """Return (bound forest that answers, encoded instances, whether values are missing) for concrete ``X``.

        If the trees compare codes, but ``X`` holds float32 numbers, `_on_float32` answers. Sparse instances are
        answered by the bound forest of `_on_tested`, others by this one. On an accelerator the last value may be None:
        a program then looks for missing values.
        """
        columns, _, on_device = self._call_settings
        if columns.cuts is None:
            values, missing = unchecked_rows(X, columns) if on_device else encode_rows(X, columns)
        else:
            trees, (values, missing) = encode_for(self.forest.trees, X)
            if trees is not self.forest.trees:  # trees that compare float32 numbers
                return self._on_float32._encode(Encoded(values, missing))
        if isinstance(values, SparseRows):
            narrow_bound, tested_columns = self._on_tested
            if tested_columns is not None:  # only columns that trees test are made dense
                narrow_columns, _, _ = narrow_bound._call_settings
                values = values.of(tested_columns, narrow_columns)
                return narrow_bound._encode(Encoded(values, bool(missing)))
        return self, values, missing

    def _answer_rows(self, values, missing: bool | None, mask, readout: str | None) -> PyTree:
        """Return the answer, or one ``readout`` of it, for encoded instances ``values``.

        ``values`` and ``missing`` are what `_encode` returns; ``mask`` is a tree mask or None.
        """
        _, _, on_device = self._call_settings
        if on_device:
            return self._run_on_device(values, missing, mask, readout)
        if mask is not None:
            mask = np.asarray(mask)
        missing = bool(missing)  # never None here: only accelerators leave the search to a program
        engine = self._engine(missing)
        if isinstance(engine, ByTable):
            # `_call` keeps the members of this engine that calls read, since attributes of a module are slow.
            return answer_by_table(self._call(missing), self._flat_combiner, readout, values, mask, self.threads)
        if isinstance(engine, ByRows):
            return answer_by_rows(engine, self.combiner, readout, values, mask, self.threads)
        return answer_traced(engine, self.combiner, readout, values, mask)

    def _call(self, missing: bool) -> TableCall:
        """Return what a call reads of the `ByTable` for data with or without ``missing`` values; cached."""
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

        ``missing`` tells whether values are missing; None lets the program look for them. Whether there were any is
        kept, as a guess for the next batch.
        """

        def program(with_missing: bool, x, mask) -> tuple[PyTree, Array]:
            call = self._call(with_missing)
            return answer_and_mark(call.spec, call.block, self.combiner, readout, call.arrays, x, mask)

        # A row's values and the planes of its statistic take 4 bytes each, also if values are missing; a mask's
        # booleans take one byte each.
        n_numbers = values.shape[1] + self._call(missing=False).spec.layout.width
        row_bytes = 4 * n_numbers + (0 if mask is None else mask.shape[1])
        answer, self._missing_guess = answer_on_device(
            program, values, mask, row_bytes, missing=missing, guess=self._missing_guess
        )
        return jax.device_put(answer)

    @cached_property
    def _call_settings(self) -> tuple[Columns, int, bool]:
        """(columns of the data, number of trees, whether an accelerator answers by table); cached: modules are slow."""
        engine = self.engine
        on_device = isinstance(engine, ByTable) and engine.packed.spec.walk == "levels"
        return engine.forest.trees.columns, engine.forest.n_trees, on_device

    @cached_property
    def _flat_combiner(self) -> "FlatCombiner":
        """The combiner, flattened once for all calls on the host."""
        return FlatCombiner.of(self.combiner)

    @cached_property
    def _traceable(self) -> Callable[[Any, Any, str | None], PyTree]:
        """The function (instances of `encode_traced`, tree mask or None, read-out) → answer; cached.

        It is jitted, so that `vmap` or `grad` without `jit` run it as one program: operation by operation, combiners
        would round differently. The function of a traced bound forest is not jitted.
        """

        def answer(X: Any, mask: Any, readout: str | None) -> PyTree:
            model = self._engine(missing=True), self.combiner
            answer_rows = partial(_answer_traced, readout)
            if isinstance(X.shape[0], int):  # else the number of instances is symbolic, for a caller's `jax.export`
                return answer_rows(model, X, mask)
            return _answer_any_number(answer_rows, model, X, mask)

        return jit(answer, static_argnums=2) if self._is_concrete else answer

    @cached_property
    def _on_tested(self) -> tuple["BoundForest[AnswerT]", np.ndarray | None]:
        """(this bound forest with only the columns that its trees test, positions of these columns); cached.

        It is (the bound forest itself, None) if the trees test all columns.
        """
        engine = self.engine
        trees, positions = narrow_trees(engine.forest.trees)
        if positions is None:
            return self, None
        if isinstance(engine, Traced):
            raise NotImplementedError("Sparse data need a forest that was bound outside of a program.")
        return BoundForest(engine.on(trees), self.combiner, self.threads), positions

    @cached_property
    def _on_float32(self) -> "BoundForest[AnswerT]":
        """This bound forest with thresholds that are float32 numbers, not codes: for instances of float32; cached."""
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
        # A copy has `engine` itself, not the `_raw_engine` that it is made from; its calls are made again.
        return state | {"engine": self.engine, "_calls": {}}

    def __repr__(self) -> str:
        return f"BoundForest({self.engine.forest!r}, {type(self.combiner).__name__}, threads={self.threads})"


def _answer_traced(readout: str | None, model: tuple[Engine, Combiner], X: jax.Array, mask) -> PyTree:
    """Return the answer for encoded instances ``X``, or one ``readout`` of it, in a caller's program.

    ``model`` is (engine for data with missing values, combiner), and ``mask`` a tree mask or None.
    """
    engine, combiner = model
    if isinstance(engine, ByTable):
        # Lifted statistics are constants here: for gradients the forest has to be bound in the program.
        stat = jax.tree.map(lax.stop_gradient, engine.packed.merge(X, mask))
    else:
        stat = merge_lifted(engine.forest, combiner, X, mask)  # raises an error where empty leaves are followed
    return read_answer(combiner.finish(stat), readout)


_EXPORTED_BLOCKS = (FEW, 512, 2048)
"""Sizes of blocks in an exported program. It uses the smallest that holds all instances, else the largest."""

_RowsAnswer: TypeAlias = Callable[[PyTree, jax.Array, Any], PyTree]
"""Function that answers a block: (model, instances, tree mask or None) → answer, of arrays with a row for each
instance, and of numbers for all instances."""


def _export_program(
    answer_rows: _RowsAnswer, model: PyTree, n_features: int, platforms: Sequence[str] | None
) -> jax.export.Exported:
    """Return the program of `BoundForest.export`, which holds the arrays of ``model`` as constants.

    It takes float32 ``[instances n_features]``, any number of them. ``platforms`` are those of `BoundForest.export`.
    """

    def answer(x: jax.Array) -> PyTree:
        # Plain arrays, since the types of answers cannot be read without this library.
        return _name_arrays(_answer_any_number(answer_rows, model, x, mask=None))

    # A symbolic size is 1 at least, but there may be no instances.
    (n,) = jax.export.symbolic_shape("instances_and_one - 1")
    rows = jax.ShapeDtypeStruct((n, n_features), jnp.float32)
    with own_settings():
        return jax.export.export(jax.jit(answer), platforms=platforms)(rows)


def _answer_any_number(answer_rows: _RowsAnswer, model: PyTree, x: jax.Array, mask: Any) -> PyTree:
    """Return ``answer_rows(model, x, mask)``, made in blocks; the number of instances ``x`` may be symbolic."""
    # Barriers hide that the model's arrays are constants: as such the compiler would round differently than in a bound
    # forest's programs, where they are arguments.
    model = jax.tree.map(lax.optimization_barrier, model)
    # The branch of the smallest block that holds all instances, else the last: the number of blocks that are too small.
    # A program is compiled for a concrete number of instances, so that the other branches are dropped.
    branch = sum((jnp.asarray(x.shape[0]) > size).astype(jnp.int32) for size in _EXPORTED_BLOCKS[:-1])
    answer_block = partial(answer_rows, model)
    return lax.switch(branch, [partial(_in_blocks, answer_block, size) for size in _EXPORTED_BLOCKS], x, mask)


def _in_blocks(answer_block: Callable[[jax.Array, Any], PyTree], size: int, x: jax.Array, mask: Any) -> PyTree:
    """Return the answers ``answer_block(rows, mask of rows)`` for all instances ``x``, in blocks of ``size`` rows."""
    n = x.shape[0]
    n_rows = n // size * size + size  # one block at least, possibly empty, so that shapes are known for n = 0
    padded = jax.tree.map(lambda array: jnp.pad(array, ((0, n_rows - n), (0, 0))), (x, mask))

    def block_at(start):
        return jax.tree.map(lambda array: lax.dynamic_slice_in_dim(array, start, size), padded)

    answer = jax.eval_shape(lambda: answer_block(*block_at(0)))
    # A number in the answer stands for all instances, and does not depend on them: each block has it. So one block is
    # answered also for n = 0.
    blank = jax.tree.map(lambda part: jnp.zeros((n_rows, *part.shape[1:]) if part.ndim else (), part.dtype), answer)

    def write_block(i, answers):
        def write(whole, block_rows):
            if block_rows.ndim == 0:
                return block_rows
            return lax.dynamic_update_slice_in_dim(whole, block_rows, i * size, 0)

        return jax.tree.map(write, answers, answer_block(*block_at(i * size)))

    n_blocks = jnp.maximum(-(-jnp.asarray(n) // size), 1)
    answers = lax.fori_loop(0, n_blocks, write_block, blank)
    return jax.tree.map(lambda array: array[:n] if array.ndim else array, answers)


def _name_arrays(answer: PyTree) -> PyTree:
    """Return ``answer`` if it is an array, else its arrays by name: a dictionary, read without this library's types."""
    if isinstance(answer, jax.Array):
        return answer
    leaves = jax.tree_util.tree_leaves_with_path(answer)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
