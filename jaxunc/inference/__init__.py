"""Walks of instances to their leaves, whose statistics are merged on the way.

Read `_bind`, `_by_table`, `_packed_trees` and `_walk`, in this order, to follow a prediction. This drawing of a tree of
three tests shows the words that these modules use::

    node 0: x0 > 3?
         ├─ no   node 1: leaf                       top:    the tests of the nodes 0, 1, 2
         └─ yes  node 2: x1 > 5?
                      ├─ no   node 3: x0 > 9?       exits:  0  1  2  3
                      │            ├─ no   node 5   lead to 1  1  3  4
                      │            └─ yes  node 6
                      └─ yes  node 4: leaf          places: 0  1  2  3 | 4  5  6  7  8  9  10
                                                    nodes:  1  1  3  4 | 0  1  2  3  4  5  6

*Top*: the uppermost tests of a tree, made for all instances of a block, one test after the other and without a branch.
In the drawing they are the tests of the first two levels (a leaf's test always says no). Usually they are those of the
31 tallest nodes. The top of a shallow tree is the whole tree, completed: its tests select the leaf's value directly.
*Exit*: an edge that leaves the top, numbered from the left. The results of the top's tests rule out all exits but one.
*Place*: a position in a walk. The first places are the exits, each a copy of the node behind it; then come the nodes.
So an exit's number is also its place. An instance (5, 2) leaves the top by exit 2, a copy of node 3. The test there
says no, and the instance arrives at place 9, which is node 5.
*Lift*: to compute a statistic of each leaf from its class counts, as a combiner does. A *leaf table* holds the results.
*Plane*: one number of that statistic, for every node of every tree; planes are looked up by places. An array of many
numbers a node, as of many classes, is one *wide* plane.
*Word*: an integer with a bit for each of 31 sets of categories that trees test. It is looked up by an instance's code
once for all trees. Words are columns behind the columns of the data (`_plan.compact`); a node that tests a set reads
the set's bit.
*Carry*: for each instance the statistics of its leaves in the trees so far, merged.
"""

from ._bind import (
    READOUTS,
    Answering,
    BoundForest,
    HasColumns,
    OfForest,
    OfSums,
    ReadOuts,
    bind,
)
from ._by_rows import ByRows
from ._by_table import ByTable, finish_rows, shapes_of
from ._device_calls import answer_on_device, in_blocks
from ._drive import (
    SMALL,
    Chunk,
    HostProgram,
    Part,
    Shapes,
    cut,
    drive,
    encode_for,
    narrow_trees,
    on_tested,
    over_rows,
    room_for,
    thread_map,
)
from ._leaves import (
    leaf_counts,
    leaf_index,
    leaf_index_on_host,
    planned_leaf_counts,
    planned_leaf_index,
    refuse_average,
)
from ._merge_leaves import as_mask, leaf_table, merge_leaves
from ._packed_trees import Carry, PackedTrees, Spec
from ._plan import Borders, Plan, column_keys, known_plan, make_plan, tall_top
from ._planes import rejoin
from ._walk import (
    GAP_OF_CODES,
    Walk,
    block_size,
    by_column,
    codes_of,
    default_walk,
    keys_of_one,
    look_up_together,
    unrolled_depth,
    walk_levels,
    walk_pairs,
    walk_tree,
    walks_at_once,
)

__all__ = ["BoundForest", "bind", "leaf_counts", "leaf_index", "leaf_table", "merge_leaves"]
