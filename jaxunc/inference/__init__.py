"""Instances → leaves, and the leaves' statistics merged on the way."""

from ._answering import Answering, HasColumns, OfForest
from ._bind import BoundForest, bind
from ._by_rows import ByRows
from ._drive import Chunk, Part, Shapes, cut, drive, over_rows, spread
from ._fold import fold
from ._host_program import HostProgram
from ._index import leaf_index, leaf_index_on_host, planned_leaf_index
from ._leaf_table import leaf_table
from ._leaves import leaf_counts, planned_leaf_counts, refuse_average
from ._mask import as_mask
from ._packed_trees import Carry, PackedTrees, Spec
from ._plan import Plan, column_keys, known_plan, make_plan, tall_top
from ._planes import rejoin
from ._read_outs import READOUTS, ReadOuts
from ._streamed import Streamed, shapes_of
from ._tested import on_tested
from ._walk import Walk, block_size, by_column, default_walk, unrolled_depth, walk_levels, walk_pairs, walk_tree

__all__ = [
    "Answering",
    "BoundForest",
    "Carry",
    "HasColumns",
    "PackedTrees",
    "bind",
    "fold",
    "leaf_counts",
    "leaf_index",
    "leaf_table",
]
