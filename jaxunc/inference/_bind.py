"""A forest and a combiner bound together: the fast way to score data.

`bind` chooses an engine: `ByTable` nearly always; `ByRows` where its leaf table would be too large or empty leaves are
followed; `Traced` inside of someone's program. Each has a function that says the steps of its answer, and
`BoundForest._run` calls it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar, get_args, overload

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxunc._checks import check_integer, check_one_of, is_concrete
from jaxunc._numerics import Pickled, along_instances, copy_in, cores, jit, own_settings
from jaxunc._types import AnswerT, PyTree
from jaxunc.combiners import Combiner, as_combiner, read_answer
from jaxunc.forest import Forest, check_is_forest
from jaxunc.tables import Columns, Encoded, SparseRows, encode_rows, encode_traced

from ._by_rows import ByRows, answer_by_rows
from ._by_table import ByTable, TableCall, answer_by_table
from ._drive import tested
from ._fold import Traced, answer_traced, as_mask, merge_lifted
from ._packed_trees import of_jax
from ._read_outs import READOUTS, ReadOuts
from ._walk import FEW, Walk, default_walk

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

    Lifts the leaves' counts once and packs the trees for walking; each call then routes and merges.

    Parameters
    ----------
    forest
        The forest.
    combiner
        The combiner; or combiners by name, which share one routing and answer by name.
    threads
        Host threads that drive compiled chunks on CPU; default one per core that this process may use.
    walk
        How instances are walked to their leaves: ``"blocks"``, tree by tree through the cache of a CPU, or
        ``"levels"``, all trees at once for accelerators. Default: what suits the backend.

    Returns
    -------
    BoundForest
        Call it, or its read-outs, on instances.

    Raises
    ------
    RuntimeError
        In a process that was forked after JAX had begun to compute, here and when what was bound before is called.
    TypeError
        If ``forest`` is not a `Forest` (a model of scikit-learn, say), ``combiner`` not a `Combiner` (a class, a name),
        or ``threads`` not an integer.
    ValueError
        If the combiner does not suit the forest (its number of classes, of trees), the walk is unknown, or threads < 1.

    Notes
    -----
    Any number of instances goes through programs of few shapes, which are compiled when they are first needed: data of
    the host are cut and padded there, and their answers trimmed. On a CPU those are the powers of two up to 2048
    and 8192 instances: a server that asks once for each compiles nothing later. (A JAX array that lies on an
    accelerator stays there, and is cut by small programs for its number of instances.)

    For few rows JAX's own dispatch counts. Simple programs of up to 16 rows run in the thread that calls;
    ``jax.config.update("jax_cpu_enable_async_dispatch", False)``, before anything is computed, has all others do so.

    **Processes.** JAX's threads do not survive a fork. A worker that was forked (``multiprocessing``'s "fork", joblib's
    ``backend="multiprocessing"``) from a process where a forest had been made would wait for them without end, and is
    refused. Take "spawn" or "forkserver", or joblib's "loky"; `BoundForest.threads` uses all cores of one process.

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
    if any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves((forest, rule))):  # which may be written to
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
"""A way from instances to answers: a forest, and what the combiner lifts from it. To finish is the combiner's part."""

_MADE_ANEW = {"_given", "_on_tested", "_traceable"}


@jax.tree_util.register_pytree_with_keys_class
class BoundForest(Pickled, ReadOuts[AnswerT]):
    """A forest bound to a combiner: call it, or its read-outs, on NumPy, JAX or pandas data ``[instances features]``.

    A sparse matrix of SciPy (CSR best; what is not stored is 0) is made dense chunk by chunk, and of it the columns
    alone that some tree tests.

    On a CPU the answer for an instance does not depend on the others, on the size of the batch, or on the number of
    threads: bit for bit under JAX 0.10. The compilers of later ones may round the last bit of an exponential by its
    place.

    A pytree of an engine and a combiner: it may be passed to programs. There it has no gradient; to differentiate in
    the combiner's settings or the forest's counts, bind inside the program, and it is the pure `fold`.
    """

    def __init__(self, engine: Engine, combiner: Combiner[AnswerT], threads: int):
        self._given: Engine = engine
        self.combiner: Combiner[AnswerT] = combiner
        self.threads: int = threads
        self._engine_for_missing: Engine | None = None
        self._calls: dict[bool, TableCall] = {}
        self._is_concrete = is_concrete(engine, combiner)

    def lower(self, n_instances: int, *, missing: bool = False) -> jax.stages.Lowered:
        """The program of ``n_instances``, for those who measure: ``.compile()`` it; a ValueError if the host drives."""
        engine = self._engine(missing)
        if not isinstance(engine, ByTable):
            raise ValueError(f"this forest is scored {type(engine).__name__}: there is no one program of it.")
        return engine.lower(n_instances)

    def export(
        self, readout: str | None = "probability", *, platforms: Sequence[str] | None = None
    ) -> jax.export.Exported:
        """Return one program of the forest and the combiner, which runs by JAX alone, without this library.

        Parameters
        ----------
        readout
            ``"class_scores"``, ``"score"``, ``"probability"`` or ``"log_probability"``; None for all that the combiner
            answers.
        platforms
            Where it is to run, such as ``("cpu", "cuda")``; default: where this process computes. The forest is walked
            as it was bound: bind with ``walk="levels"`` for accelerators.

        Returns
        -------
        jax.export.Exported
            A program of float32 ``[instances features]``, for any number of instances, none too, and for missing values
            (NaN). Columns with levels are given as codes, as `jaxunc.tables.encode_instances` makes them. It
            returns the read-out, or a dictionary of arrays by their names where there are several: what the bound
            forest answers, class scores to the bit, and probabilities but for the last bit. Its ``serialize()`` holds
            the forest, and is not larger than a file of `jaxunc.save`.

        Raises
        ------
        TypeError
            If the forest or the combiner is traced, or ``platforms`` is a text.
        ValueError
            If the combiner has no such read-out, or the forest's empty leaves are followed, which the host drives.

        Notes
        -----
        What is loaded should be jitted, ``jax.jit(jax.export.deserialize(content).call)``, else every call costs .2 ms
        more. It compiles for each number of instances and refuses other shapes and types, and it uses one core of a CPU
        where a bound forest uses all. Nothing is differentiable. JAX reads programs of the last six months.

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
        return _exported(self._engine(True), self.combiner, readout, platforms)

    @cached_property
    def engine(self) -> Engine:
        """The engine with arrays of JAX, of one that may lie on the host (`jax.device_get`).

        JAX is handed this one, also where it takes the bound forest apart.
        """
        return of_jax(self._given)

    @property
    def forest(self) -> Forest:
        """The forest that was bound."""
        return self.engine.forest

    def with_rule(self, combiner: Combiner[Any] | Mapping[str, Combiner[Any]]) -> "BoundForest[Any]":
        """Return the forest bound to another combiner, driven by as many threads."""
        return bind(self.forest, combiner, threads=self.threads)

    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """Encode the instances, and let the engine answer; where something is traced, inside of that program."""
        columns, n_trees = self._expected
        if not (self._is_concrete and is_concrete(X, tree_mask)):
            with own_settings():
                X = encode_traced(X, columns)
                mask = as_mask(tree_mask, X.shape[0], n_trees)
                return along_instances(lambda bound, x, mask: bound._traceable(x, mask, readout), X, mask, beside=self)
        values, missing = encode_rows(X, columns)
        if isinstance(values, SparseRows):
            narrow, tested_columns = self._on_tested
            if tested_columns is not None:
                return narrow._run(Encoded(values.of(tested_columns, narrow._expected[0]), missing), tree_mask, readout)
        mask = as_mask(tree_mask, len(values), n_trees)
        mask = None if mask is None else np.asarray(mask)
        engine = self._engine(missing)
        if isinstance(engine, ByTable):
            call = self._calls.get(missing)
            if call is None:
                call = engine.call()
                if is_concrete(call.arrays):  # an engine that was made within someone's program is not kept
                    self._calls[missing] = call
            return answer_by_table(call, self.combiner, readout, values, mask, self.threads)
        if isinstance(engine, ByRows):
            return answer_by_rows(engine, self.combiner, readout, values, mask, self.threads)
        return answer_traced(engine, self.combiner, readout, values, mask)

    @cached_property
    def _expected(self) -> tuple[Columns, int]:
        """The columns of data, and the number of trees in a mask; cached, since attributes of a module are slow."""
        return self.engine.forest.trees.columns, self.engine.forest.n_trees

    @cached_property
    def _traceable(self) -> Callable[[Any, Any, str | None], PyTree]:
        """The function that is called while a caller's program is traced.

        It is jitted, so that `vmap` or `grad` without `jit` run it as one program: operation by operation, combiners
        would round differently.
        """

        def answer(X: Any, mask: Any, readout: str | None) -> PyTree:
            engine, combiner = self._engine(True), self.combiner
            if isinstance(X.shape[0], int):
                return read_answer(combiner.finish(_merge(engine, combiner, X, mask)), readout)
            return _of_any_number(engine, combiner, readout, X, mask)

        return jit(answer, static_argnums=2) if self._is_concrete else answer

    @cached_property
    def _on_tested(self) -> tuple["BoundForest[AnswerT]", np.ndarray | None]:
        """The forest by the columns that its trees test, and their positions; None where it is this one."""
        engine = self.engine
        trees, positions = tested(engine.forest.trees)
        if positions is None:
            return self, None
        if isinstance(engine, Traced):
            raise NotImplementedError("Sparse data need a forest that was bound outside of a program.")
        return BoundForest(engine.on(trees), self.combiner, self.threads), positions

    def _engine(self, missing: bool) -> Engine:
        engine = self.engine
        if not missing or not isinstance(engine, ByTable):  # the others take missing values as they are
            return engine
        if self._engine_for_missing is None:
            made = engine.for_missing()
            if not is_concrete(made):
                return made
            self._engine_for_missing = made
        return self._engine_for_missing

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], tuple[Any, Any]], int]:
        """The engine and the combiner; the number of threads is not traced."""
        key = jax.tree_util.GetAttrKey
        return ((key("engine"), self.engine), (key("combiner"), self.combiner)), self.threads

    @classmethod
    def tree_unflatten(cls, threads: int, children: Any) -> "BoundForest":
        """Make the bound forest again, for JAX."""
        engine, combiner = children
        return cls(engine, combiner, threads)

    def _attributes(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without what is made anew: programs, and forests for sparse data."""
        state = {name: value for name, value in vars(self).items() if name not in _MADE_ANEW}
        return state | {"engine": self.engine, "_calls": {}}

    def __repr__(self) -> str:
        return f"BoundForest({self.engine.forest!r}, {type(self.combiner).__name__}, threads={self.threads})"


def _merge(engine: Engine, combiner: Combiner, X: jax.Array, mask) -> PyTree:
    """The merged statistic while a caller's program is traced; the engine is for missing values."""
    if isinstance(engine, ByTable):
        # What was lifted is constant: gradients need the combiner to be bound in the program.
        return jax.tree.map(lax.stop_gradient, engine.packed.merge(X, mask))
    return merge_lifted(engine.forest, combiner, X, mask)  # refused where empty leaves are followed


EXPORTED_BLOCKS = (FEW, 512, 2048)
"""Instances that an exported program walks together: the smallest of these that takes all, or the largest."""


def _exported(
    engine: Engine, combiner: Combiner, readout: str | None, platforms: Sequence[str] | None
) -> export.Exported:
    """Return the program of an engine that takes missing values; the forest is part of it."""

    def answer(x: jax.Array) -> PyTree:
        return _named(_of_any_number(engine, combiner, readout, x, None))

    # A symbol stands for one instance at least, and there may be none.
    (n,) = export.symbolic_shape("instances_and_one - 1")
    rows = jax.ShapeDtypeStruct((n, engine.forest.n_features), jnp.float32)
    with own_settings():
        return export.export(jax.jit(answer), platforms=platforms)(rows)


def _of_any_number(engine: Engine, combiner: Combiner, readout: str | None, x: jax.Array, mask: Any) -> PyTree:
    """The answer for a symbolic number of instances, in an exported program; the engine is for missing values."""
    # As arguments, which they are for a bound forest: the compiler rounds by constants in other ways.
    engine, combiner = jax.tree.map(lax.optimization_barrier, (engine, combiner))

    def answer_block(x: jax.Array, mask: Any) -> PyTree:
        return read_answer(combiner.finish(_merge(engine, combiner, x, mask)), readout)

    # Which of them is known when the program is compiled for a number of instances, and the others are dropped.
    chosen = sum((jnp.asarray(x.shape[0]) > size).astype(jnp.int32) for size in EXPORTED_BLOCKS[:-1])
    return lax.switch(chosen, [partial(_in_blocks, answer_block, size) for size in EXPORTED_BLOCKS], x, mask)


def _in_blocks(answer_block: Callable[[jax.Array, Any], PyTree], size: int, x: jax.Array, mask: Any) -> PyTree:
    """Return the answers for all instances, block by block, the last one padded."""
    n = x.shape[0]
    n_rows = n // size * size + size  # a block that may be empty: of none there is no shape
    rows = jax.tree.map(lambda array: jnp.pad(array, ((0, n_rows - n), (0, 0))), (x, mask))
    block_at = lambda start: jax.tree.map(lambda array: lax.dynamic_slice_in_dim(array, start, size), rows)
    answer = jax.eval_shape(lambda: answer_block(*block_at(0)))
    room = jax.tree.map(lambda part: jnp.zeros((n_rows, *part.shape[1:]), part.dtype), answer)

    def write_block(i, room):
        write = lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, i * size, 0)
        return jax.tree.map(write, room, answer_block(*block_at(i * size)))

    filled = lax.fori_loop(0, -(-jnp.asarray(n) // size), write_block, room)
    return jax.tree.map(lambda array: array[:n], filled)


def _named(answer: PyTree) -> PyTree:
    """Return an array as it is, and other answers as a dictionary: readers of the program lack this library's types."""
    if isinstance(answer, jax.Array):
        return answer
    leaves = jax.tree_util.tree_leaves_with_path(answer)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
