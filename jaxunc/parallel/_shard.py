"""A bound forest dealt out over a mesh of devices."""

from jax.sharding import Mesh

from jaxunc._checks import is_concrete
from jaxunc._types import AnswerT
from jaxunc.inference import BoundForest

from ._grid import as_grid
from ._sharded_forest import ShardedForest


def shard(bound: BoundForest[AnswerT], mesh: Mesh) -> ShardedForest[AnswerT]:
    r"""Deal a bound forest out over many devices, of one process or of many.

    Along the mesh's axis ``'data'`` instances are dealt out, along ``'tree'`` trees. Each device walks its instances
    through its trees; what they contributed is joined in the order of the trees, by each merge's own rule

    .. math:: c = (\dots (c_1 \oplus c_2) \oplus \dots) \oplus c_S

    for S tree shards, and finished.

    Parameters
    ----------
    bound
        A bound forest, as `bind` returns it, of any rule.
    mesh
        Devices, with the axes ``'data'`` and ``'tree'``: ``jax.make_mesh((4, 2), ("data", "tree"))``. More places along
        'data' score more instances at a time, at no communication. More along 'tree' divide the memory that a forest
        takes: for forests that are larger than a device.

    Returns
    -------
    ShardedForest
        To be called as ``bound`` is. With many processes each passes its own rows ``[instances features]``, as many as
        it has, and gets their answers; every process makes the same calls in the same order. Where the axis 'tree'
        spans processes, these pass the same rows.

    Raises
    ------
    TypeError
        If ``bound`` is no `BoundForest`, or ``mesh`` no mesh of devices.
    ValueError
        If the axes of the mesh are others, or this process has none of its devices. If processes share places along
        'data' in part, or there are more places along 'tree' than trees; if the forest or the rule is traced; if empty
        leaves are followed (`Forest.with_empty_leaves`). Calls raise what those of ``bound`` do, and a ValueError in
        all processes if one refused its data or their calls do not fit together.

    Notes
    -----
    Values: without tree shards those of ``bound`` to the last bit; with them sums over trees are rounded once more for
    each shard (compensated, so about as exact). Exact sums, minima, maxima and collected planes are the same.

    Cost: one collective of ``[instances, stat]`` with tree shards, none without; many processes also exchange a few
    numbers before each call. Trees are padded to a multiple of the places by trees that contribute nothing.

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
    if not isinstance(bound, BoundForest):
        more = " A vote that stops early is driven by the host." if type(bound).__name__ == "BoundVote" else ""
        raise TypeError(
            f"bound is a {type(bound).__name__}; pass a bound forest, such as jaxunc.bind(forest, jaxunc.Mean()).{more}"
        )
    grid = as_grid(mesh)
    if not is_concrete(bound.engine, bound.combiner):
        raise ValueError(
            "the forest or its rule is traced, so its trees cannot be placed: shard outside of jit, grad and vmap, or "
            "use jaxunc.inference.PackedTrees in a shard_map of your own."
        )
    n_trees = bound.forest.n_trees
    if grid.n_tree > n_trees:
        raise ValueError(
            f"mesh has {grid.n_tree} places along 'tree', but the forest has {n_trees} trees: each place needs one. "
            f"Use more places along 'data' instead, as in jax.make_mesh(({grid.n_data * grid.n_tree}, 1), "
            "('data', 'tree'))."
        )
    return ShardedForest(bound, grid)
