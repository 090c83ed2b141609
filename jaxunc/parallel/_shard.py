"""A bound forest distributed over a mesh of devices: `shard` makes a `ShardedForest`."""

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from jaxunc._checks import check_integer, is_concrete
from jaxunc._numerics import Pickled, ceil_div, multiple_of
from jaxunc._types import AnswerT
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.inference import (
    READOUTS,
    BoundForest,
    ByRows,
    ByTable,
    OfSums,
    Part,
    ReadOuts,
    Spec,
    answer_on_device,
    as_mask,
    cut,
    default_walk,
    shapes_of,
)
from jaxunc.tables import dense_alone, encode_instances, is_sparse, unchecked_rows

from ._device_programs import (
    InstanceShards,
    Program,
    TreeShards,
    answer_on_mesh,
    finish_chunk,
    merge_and_finish_on_mesh,
    merge_on_mesh,
    on_every_device,
    place,
    rows_on_mesh,
    stretch_of,
    trees_per_shard,
)
from ._mesh import Call, Grid, as_grid, digest, exchange_calls

OfSumsT = TypeVar("OfSumsT", bound=OfSums)
_ACCELERATOR_LOCK = threading.Lock()
"""Lock for calls on accelerators: programs of two threads deadlock if devices begin them in different orders."""


@overload
def shard(bound: BoundForest[AnswerT], mesh: Mesh) -> "ShardedForest[AnswerT]": ...
@overload
def shard(bound: OfSumsT, mesh: Mesh) -> OfSumsT: ...
def shard(bound: Any, mesh: Mesh) -> Any:
    r"""Distribute a bound forest over many devices, of one process or of many.

    Instances are distributed along the mesh's axis ``'data'``, trees along ``'tree'``. Each device walks its instances
    through its trees and merges their statistics. The merged statistics :math:`c_s` of the S tree shards are joined in
    the order of the trees, by the join :math:`\oplus` that belongs to each merge. The combiner makes the answer of

    .. math:: c = (\dots (c_1 \oplus c_2) \oplus \dots) \oplus c_S

    Parameters
    ----------
    bound
        A bound forest with any combiner, as `bind` returns it. Or `jaxunc.regression.LeafMoments`, or the ``bound_`` of
        a fitted `jaxunc.estimators.UncertainForestRegressor`.
    mesh
        Devices, with the axes ``'data'`` and ``'tree'``: ``jax.make_mesh((4, 2), ("data", "tree"))``. More devices
        along 'data' score more instances at a time, without communication. More devices along 'tree' divide the memory
        that a forest takes: for forests that are larger than the memory of a device.

    Returns
    -------
    ShardedForest
        A model that is called as ``bound`` is; for a model that is not a `BoundForest`, a model of the same class. With
        several processes each passes its own rows ``[instances features]``, any number of them, and gets their answers.
        Every process makes the same calls in the same order. Processes that share a position along 'data' (where the
        axis 'tree' spans processes) pass the same rows.

    Raises
    ------
    TypeError
        If ``bound`` is not one of these models, or ``mesh`` not a mesh of devices.
    ValueError
        If the mesh has other axes, or this process has none of its devices. If two processes share some but not all of
        their positions along 'data', or 'tree' is longer than the number of trees. If the forest or the combiner is
        traced, or empty leaves are followed (`Forest.with_empty_leaves`). Calls raise what those of ``bound`` raise. A
        call raises a ValueError in all processes if one process refused its data, or their calls do not fit together.

    Notes
    -----
    With one tree shard the answers equal those of ``bound`` to the last bit. With several, sums over trees are rounded
    once more for each shard (compensated, so about as exact). Exact sums, minima, maxima, collected planes are equal.

    Accelerators of one process answer any number of rows by one program, as they do for `bind`. Rows that lie on the
    mesh stay there, and those of one of its devices are copied to all; their answers lie on the mesh.

    Cost: one collective of ``[instances, stat]`` with tree shards, on accelerators one more of the answers, none
    without; many processes also exchange a few numbers before each call. Trees are padded to a multiple of the places
    by trees that contribute nothing.

    Memory: each device has its trees and one chunk of instances. ``bound`` itself lies where it was made: on
    accelerators import and bind under ``jax.default_device(jax.devices("cpu")[0])`` what does not fit one of them.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))
    >>> bound = ju.bind(forest, ju.EvidenceAccumulation(forest.prior))
    >>> sharded = ju.shard(bound, jax.make_mesh((jax.device_count(), 1), ("data", "tree")))
    >>> bool(np.all(sharded(X) == bound(X)))
    True
    """
    if isinstance(bound, OfSums):
        return bound.over(lambda part: shard(part, mesh))
    if not isinstance(bound, BoundForest):
        more = " A vote that stops early is driven by the host." if type(bound).__name__ == "BoundVote" else ""
        raise TypeError(
            f"bound is a {type(bound).__name__}; pass a bound forest, such as jaxunc.bind(forest, jaxunc.Mean()).{more}"
        )
    grid = as_grid(mesh)
    if not is_concrete(bound.engine, bound.combiner):
        raise ValueError(
            "the forest or its combiner is traced, so its trees cannot be placed: shard outside of jit, grad and vmap, "
            "or use jaxunc.inference.merge_leaves in a shard_map of your own."
        )
    n_trees = bound.forest.n_trees
    if grid.n_tree > n_trees:
        raise ValueError(
            f"mesh has {grid.n_tree} places along 'tree', but the forest has {n_trees} trees: each place needs one. "
            f"Use more places along 'data' instead, as in jax.make_mesh(({grid.n_data * grid.n_tree}, 1), "
            "('data', 'tree'))."
        )
    return ShardedForest(bound, grid)


class ShardedForest(Pickled, ReadOuts[AnswerT]):
    """A bound forest distributed over a mesh of devices, as `shard` returns it; called as a `BoundForest` is.

    It lies on the devices of one process: a copy lies there, too, and to pickle it raises a TypeError.
    """

    _missing_guess: bool = False
    """Whether the last batch had missing values: on an accelerator the next one is first taken to have some, too."""

    def __init__(self, bound: BoundForest[AnswerT], grid: Grid):
        self.bound: BoundForest[AnswerT] = bound
        self.combiner: Combiner[AnswerT] = bound.combiner
        self._grid = grid
        self._engine = _engine_of(bound)
        self._combiner = on_every_device(grid, bound.combiner)
        self._tree_shards: dict[bool, TreeShards] = {False: place(grid, self._engine.packed)}

    def __copy__(self) -> "ShardedForest[AnswerT]":
        return ShardedForest(self.bound, self._grid)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ShardedForest[AnswerT]":
        return ShardedForest(copy.deepcopy(self.bound, memo), self._grid)

    def _attributes(self) -> Any:
        raise TypeError(
            "a sharded forest lies on this process's devices, and cannot be pickled. Pickle its bound forest "
            "(sharded.bound), and shard that again."
        )

    @property
    def forest(self) -> Forest:
        """The forest that was bound."""
        return self.bound.forest

    @property
    def mesh(self) -> Mesh:
        """Mesh of the devices, with the axes ``('data', 'tree')``."""
        return self._grid.mesh

    @property
    def arrays(self) -> list[jax.Array]:
        """Packed trees and leaf tables on the devices; their ``addressable_shards`` say how much lies on each."""
        return jax.tree.leaves(self._tree_shards[False].arrays)

    def with_rule(self, combiner: Combiner[Any] | Mapping[str, Combiner[Any]]) -> "ShardedForest[Any]":
        """Return the forest bound to ``combiner``, distributed over the same devices."""
        return ShardedForest(self.bound.with_rule(combiner), self._grid)

    def lower(self, n_instances: int, *, missing: bool = False) -> jax.stages.Lowered:
        """Return the lowered program for ``n_instances`` of all processes, to compile and measure it.

        ``missing`` says whether values may be missing.
        """
        check_integer("n_instances", n_instances, 1)
        tree_shards = self._shards_for(missing)
        n_features = self.bound.forest.n_features
        no_mask = None
        if self._answers_in_one:
            shape = multiple_of(self._grid.n_data, n_instances), n_features
            x = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=self._grid.sharding("data"))
            inputs = tree_shards.arrays, tree_shards.shared, x, no_mask
            return answer_on_mesh.lower(self._answer_program(tree_shards), self._combiner, "class_scores", *inputs)
        part = self._parts(ceil_div(n_instances, self._grid.n_data), missing)[0]
        shape = self._grid.n_data, part.chunk.rows, n_features
        x = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=self._grid.sharding("data"))
        n_blocks = None if part.number is None else jax.ShapeDtypeStruct((), jnp.int32)
        inputs = tree_shards.arrays, tree_shards.shared, x, no_mask, n_blocks
        return merge_on_mesh.lower(self._program(tree_shards, part), *inputs)

    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """Return one ``readout`` (`READOUTS`) of the answer for this process's instances ``X``; for None all of it.

        ``tree_mask`` is a tree mask of these instances or None.
        """
        self._refuse_traced(X, tree_mask)
        if self._answers_in_one:
            return self._run_on_accelerators(X, tree_mask, readout)
        values, mask, calls = self._agree_on_call(X, tree_mask, readout)
        grid = self._grid
        some_are_missing = any(call.missing for call in calls.values())
        tree_shards = self._shards_for(some_are_missing)
        shards = InstanceShards(grid, len(values))
        # A stretch is the instances at one position along 'data'; all are cut into the same parts. Every process runs
        # as many parts as the one with the longest stretches: a collective waits for all of them.
        n_longest = max(stretch_of(grid, process, call.n_instances) for process, call in calls.items())
        parts = self._parts(n_longest, tree_shards.spec.missing)
        if mask is not None:
            padding = grid.n_tree * trees_per_shard(grid, mask.shape[1]) - mask.shape[1]
            mask = np.pad(mask, ((0, 0), (0, padding)))

        def score(part: Part) -> PyTree:
            """Return the answers for the same part of every stretch, distributed over the mesh."""
            x = shards.of(part, values)
            in_mask = None
            if mask is not None:  # [data rows trees]: the rows are not distributed, the trees are
                in_mask = shards.of(part, mask, None, "tree")
            inputs = (tree_shards.arrays, tree_shards.shared, x, in_mask, part.number)
            program = self._program(tree_shards, part)
            if tree_shards.spec.walk == "levels":  # on accelerators; on CPUs all read-outs share a program that merges
                return merge_and_finish_on_mesh(program, self._combiner, readout, *inputs)
            return finish_chunk(grid, self._combiner, readout, merge_on_mesh(program, *inputs))

        return shards.collect(parts, self._one_ahead(score, parts, shards))

    def _run_on_accelerators(self, X, tree_mask, readout: str | None) -> PyTree:
        """Return `_run`'s result on accelerators of one process, where the program also looks for missing values.

        Two programs answer batches with and without missing values. If it is not known which of them ``X`` needs, the
        one that the last batch needed runs first. If that one finds missing values that it does not expect, the other
        answers.
        """
        forest = self.bound.forest
        grid = self._grid
        if is_sparse(X):
            raise dense_alone("X")
        values, missing = unchecked_rows(X, forest.trees.columns)
        n = len(values)
        mask = as_mask(tree_mask, n, forest.n_trees)

        def program(missing: bool, x, mask) -> tuple[PyTree, jax.Array]:
            tree_shards = self._shards_for(missing)
            x = rows_on_mesh(grid, x)
            mask = None if mask is None else rows_on_mesh(grid, mask)
            static = self._answer_program(tree_shards)
            return answer_on_mesh(static, self._combiner, readout, tree_shards.arrays, tree_shards.shared, x, mask)

        # Of a row, its answer and its mask, which are shared out among the devices along 'data'.
        n_values = values.shape[1] + self._engine.packed.spec.layout.width
        mask_bytes = 0 if mask is None else forest.n_trees
        row_bytes = ceil_div(4 * n_values + mask_bytes, grid.n_data)
        options = {"missing": missing, "guess": self._missing_guess, "n_devices": grid.mesh.size}
        with _ACCELERATOR_LOCK:
            # Arrays of JAX go to the mesh first: rows that lie on all its devices are answered there.
            if isinstance(values, jax.Array) and n > 0:
                values = rows_on_mesh(grid, values)
            if isinstance(mask, jax.Array) and n > 0:
                mask = rows_on_mesh(grid, mask)
            answer, self._missing_guess = answer_on_device(program, values, mask, row_bytes, **options)
        if isinstance(values, jax.Array) and n:
            return answer
        return jax.tree.map(lambda part: jax.device_put(part[:n] if part.ndim else part), jax.device_get(answer))

    @property
    def _answers_in_one(self) -> bool:
        """Whether the mesh has accelerators of this process alone, which answer a batch by one program."""
        return self._grid.is_alone and self._tree_shards[False].spec.walk == "levels"

    def _answer_program(self, tree_shards: TreeShards) -> Program:
        """Return the static arguments of `answer_on_mesh` for the trees ``tree_shards``."""
        return Program(self._grid, tree_shards.spec, self.bound.forest.n_trees, self._block(tree_shards.spec))

    def _block(self, spec: Spec) -> int:
        """Return the number of instances that an accelerator works on at a time, with trees packed as ``spec`` says."""
        n_trees = trees_per_shard(self._grid, self._engine.packed.n_trees)
        shapes = shapes_of(spec, n_trees, self.bound.forest.n_features)
        return (shapes.large or shapes.single).block

    def _one_ahead(self, score, parts: Sequence[Part], shards: InstanceShards):
        """Yield the answer ``score(part)`` of each of ``parts``, in order, fetched to the host by ``shards``.

        An accelerator works on the next part while an answer is fetched. CPU devices do not: they share the cores, and
        programs that wait for each other could take all threads.
        """
        platform = self._grid.mesh.devices.flat[0].platform
        n_ahead = 0 if platform == "cpu" else 1  # answers that stay on the devices
        answers = []
        for part in parts:
            answers.append(score(part))
            if len(answers) > n_ahead:
                yield shards.fetch(answers.pop(0))
        yield from map(shards.fetch, answers)

    def _refuse_traced(self, X, tree_mask) -> None:
        """Raise a TypeError if ``X`` or ``tree_mask`` is traced."""
        if not is_concrete(X, tree_mask):
            raise TypeError(
                "X or tree_mask is traced: a sharded forest runs programs of its own. Inside jit, grad or vmap use the "
                "bound forest, or jaxunc.inference.merge_leaves in a shard_map of your own."
            )

    def _agree_on_call(self, X, tree_mask, readout: str | None):
        """Return (encoded instances, tree mask or None, `Call` of each process by its index), once all processes agree.

        ``X`` and ``tree_mask`` are this process's, ``readout`` is one of `READOUTS`. Raises the errors that the data
        raise, and those of `exchange_calls`.
        """
        forest = self.bound.forest
        readout_index = READOUTS.index(readout)
        error = None
        # Stand-ins, for the call of a process that refuses its data.
        values = np.zeros((0, forest.n_features), np.float32)
        mask = None
        missing = False
        try:
            encoded, missing = encode_instances(X, forest.trees.columns)
            values = np.asarray(encoded)
            mask = as_mask(tree_mask, len(values), forest.n_trees)
            mask = None if mask is None else np.asarray(mask)
        # Raised below: the other processes must hear of it first, else they would wait for this process without end.
        except (TypeError, ValueError) as caught:
            error = caught
        # Processes that share a row of devices must pass the same instances: checksums are compared, not the data.
        checksum = digest(values, mask) if self._grid.spans else 0
        call = Call(
            refused=int(error is not None),
            n_instances=len(values),
            missing=int(missing),
            masked=int(mask is not None),
            readout=readout_index,
            digest=checksum,
        )
        calls = exchange_calls(self._grid, call)
        if error is not None:
            raise error
        return values, mask, calls

    def _program(self, tree_shards: TreeShards, part: Part) -> Program:
        """Return the static arguments of `merge_on_mesh` for a ``part`` of the instances and all ``tree_shards``."""
        block = None if part.number is None else part.chunk.block
        return Program(self._grid, tree_shards.spec, self.bound.forest.n_trees, block)

    def _parts(self, n_instances: int, missing: bool) -> tuple[Part, ...]:
        """Return the parts of ``n_instances`` at one position along 'data'; with ``missing``, values may be missing."""
        packed = self._engine.packed
        spec = packed.spec._replace(missing=missing)
        n_trees = trees_per_shard(self._grid, packed.n_trees)
        shapes = shapes_of(spec, n_trees, self.bound.forest.n_features)
        return cut(n_instances, shapes, threads=1)

    def _shards_for(self, missing: bool) -> TreeShards:
        """Return the trees on the devices, for data with or without ``missing`` values; made when first used."""
        if missing not in self._tree_shards:
            trees = self.bound.forest.trees
            with jax.default_device(next(iter(trees.feature.devices()))):
                self._tree_shards[missing] = place(self._grid, self._engine.for_missing().packed)
        return self._tree_shards[missing]

    def __repr__(self) -> str:
        forest, combiner = self.bound.forest, type(self.bound.combiner).__name__
        return f"ShardedForest({forest!r}, {combiner}, data={self._grid.n_data}, tree={self._grid.n_tree})"


def _engine_of(bound: BoundForest) -> ByTable:
    """Return the engine of ``bound``, or a new one, with a leaf table; a ValueError if empty leaves are followed."""
    engine = bound.engine
    forest = bound.forest
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} are followed by the host, instance by instance. Bind "
            "forest.with_empty_leaves('parent') or 'zeros', whose leaves have counts."
        )
    if isinstance(engine, ByTable):
        return engine
    # A leaf table that is too large for one device is divided among several.
    walk = engine.walk if isinstance(engine, ByRows) else default_walk()
    return ByTable.of(forest, bound.combiner, walk)
