"""Instances → leaves, and the leaves' statistics merged on the way."""

from ._bind import BoundForest, bind
from ._by_rows import ByRows
from ._by_table import ByTable, HostProgram, shapes_of
from ._drive import Chunk, Part, Shapes, cut, drive, on_tested, over_rows, spread
from ._fold import as_mask, fold, leaf_table
from ._leaves import (
    leaf_counts,
    leaf_index,
    leaf_index_on_host,
    planned_leaf_counts,
    planned_leaf_index,
    refuse_average,
)
from ._packed_trees import Carry, PackedTrees, Spec
from ._plan import Plan, column_keys, known_plan, make_plan, tall_top, while_alive
from ._planes import rejoin
from ._read_outs import READOUTS, Answering, HasColumns, OfForest, ReadOuts
from ._walk import Walk, block_size, by_column, default_walk, unrolled_depth, walk_levels, walk_pairs, walk_tree

__all__ = ["BoundForest", "bind", "fold", "leaf_counts", "leaf_index", "leaf_table"]
