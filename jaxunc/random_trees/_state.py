"""State of a growing block of trees, carried from step to step."""

from typing import NamedTuple

from jaxtyping import Array, Complex64, Int32, UInt32


class Shape(NamedTuple):
    """Sizes and options that a program's structure depends on."""

    n_trees: int
    n_nodes: int
    """Room for the nodes of a tree."""
    n_lanes: int
    """Room for the instances of all trees."""
    n_open: int
    """Room for open nodes: enough for any step."""
    n_cells: int
    """Room for counting the values of multi-way tests, where their children must be counted; else 0."""
    n_classes: int
    n_words: int
    """32-bit words for the nominal features that a path has used; 0 if no feature is nominal."""
    missing: bool
    """Whether numeric features may be missing, and nodes draw a side for them."""
    lane_chunk: int
    node_chunk: int
    """Numbers of lanes, and of nodes, that are worked on at a time: on a CPU as many as stay in the cache, else all."""


class EncodedData(NamedTuple):
    """The sample, numeric features before nominal ones; padded, so that sets of like size share programs."""

    keys: Int32[Array, "cells"]
    """Order keys of numeric features and ranks of nominal ones, feature by feature, ``stride`` cells apart."""
    stride: Int32[Array, ""]
    label: Int32[Array, "instances"]
    weight: Int32[Array, "instances"] | None
    """Weights of the instances; None for fractions, which are summed on the host."""
    n_features: Int32[Array, ""]
    n_numeric: Int32[Array, ""]
    n_ranks: Int32[Array, "features"]
    """Number of ranks of each nominal feature, gaps included; 0 for a numeric one."""


class Limits(NamedTuple):
    """Conditions under which a node stays a leaf."""

    min_samples_leaf: Int32[Array, ""]
    min_split: Int32[Array, ""]
    max_depth: Int32[Array, ""]


class OpenCuts(NamedTuple):
    """State of open nodes within multi-way tests.

    Such a test is made as binary cuts of its feature's ranks. Between the cuts the parts are open nodes too, of a
    range of ranks ``low … high``; a part of one rank is a child, a part without instances an empty leaf.
    """

    n_cuts: Int32[Array, "open"]
    """Number of binary tests above the node."""
    cutting: Int32[Array, "open"]
    """Nominal feature whose ranks are being cut, or -1."""
    low: Int32[Array, "open"]
    high: Int32[Array, "open"]
    group: Int32[Array, "open"]
    """Node (number in its tree) whose multi-way test is being cut."""
    used: tuple[UInt32[Array, "open"], ...]
    """Bits of the nominal features that were drawn on the path."""


class Open(NamedTuple):
    """Nodes that may still be split, tree by tree."""

    slot: Int32[Array, "open"]
    """Slot of the node: tree · nodes of a tree + node."""
    first: Int32[Array, "open"]
    """Place of the node's first instance among the lanes."""
    size: Int32[Array, "open"]
    tried: Int32[Array, "open"]
    depth: Int32[Array, "open"]
    """Number of tests above the node, a multi-way test counting once."""
    cuts: OpenCuts | None
    """State within multi-way tests; None if no feature is nominal."""


class Grown(NamedTuple):
    """The nodes of a block of trees, flat: tree · nodes of a tree + node."""

    feature: Int32[Array, "slots"]
    test: Complex64[Array, "slots"]
    """Pairs of the threshold and the left child's number in the tree, which is -1 in a leaf."""
    member: Complex64[Array, "slots"]
    """Pairs of a topmost node's number and the number of instances, for children and empty leaves of a multi-way test.

    Elsewhere pairs of -1 and 0. A single pair if no feature is nominal.
    """
    n_nodes: Int32[Array, "trees"]
    depth: Int32[Array, "trees"]


class Scratch(NamedTuple):
    """Results that the passes of a step hand on to each other."""

    open: Open
    """Open nodes that the step tries."""
    lanes: Complex64[Array, "lanes"]
    """Lanes of the open nodes."""
    test: Complex64[Array, "open"]
    """Packed tests of the open nodes."""
    before: Int32[Array, "lanes"]
    """Number of lanes before each that go right, doubled, and 1 more if the lane goes right itself."""
    move: Complex64[Array, "2*open"]
    """Target of the lanes of open nodes, left sides before right ones: where they go, and to which node."""
    values: Int32[Array, "open"]
    """Start of the cells in which a multi-way test's values are counted, by node.

    Where one instance is enough for a child, nothing is counted: 1 if there is a value above that of the cut, else 0.
    """
    cells: Int32[Array, "cells"]
    """Number of times that values occur."""
    frequent: Int32[Array, "cells"]
    """Number of cells before each that occur often enough, doubled, and 1 more if the cell does itself."""
    n_cells: Int32[Array, ""]


class State(NamedTuple):
    """The whole state between two steps."""

    n_open: Int32[Array, ""]
    n_lanes: Int32[Array, ""]
    """Number of lanes that belong to open nodes."""
    n_done: Int32[Array, ""]
    """Number of lanes that have reached leaves."""
    follow: Open
    """Followers of the last step's nodes: the left side of each, and from the middle on the right ones.

    Those that are no open nodes are passed over.
    """
    place: Int32[Array, "open"]
    """Places of the open nodes among the followers."""
    lanes: Complex64[Array, "2*lanes"]
    """Instances of open nodes, node after node, each tree with its own: pairs of the instance and its node's place.

    The place is that among the open nodes. In the second half, lanes that have reached leaves: pairs with the leaf's
    slot.
    """
    grown: Grown
    scratch: Scratch
