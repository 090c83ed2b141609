"""What the growing of a block of trees carries from step to step."""

from typing import NamedTuple

from jaxtyping import Array, Complex64, Int32, UInt32


class Shape(NamedTuple):
    """What a program's structure depends on."""

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
    """How much is worked on at a time: on a CPU what stays in the cache, else all."""


class EncodedData(NamedTuple):
    """The sample, numeric features before nominal ones; padded, so that sets of like size share programs."""

    keys: Int32[Array, "cells"]
    """Order keys of numeric features and ranks of nominal ones, feature by feature, ``stride`` cells apart."""
    stride: Int32[Array, ""]
    label: Int32[Array, "instances"]
    weight: Int32[Array, "instances"] | None
    """None for fractions, which are summed on the host."""
    n_features: Int32[Array, ""]
    n_numeric: Int32[Array, ""]
    n_ranks: Int32[Array, "features"]
    """Number of ranks of each nominal feature, gaps included; 0 for a numeric one."""


class Limits(NamedTuple):
    """When a node stays a leaf."""

    min_samples_leaf: Int32[Array, ""]
    min_split: Int32[Array, ""]
    max_depth: Int32[Array, ""]


class OpenCuts(NamedTuple):
    """What open nodes know of multi-way tests.

    Such a test is made as binary cuts of its feature's ranks. Between the cuts the parts are open nodes too, of a
    range of ranks ``low … high``; a part of one rank is a child, a part without instances an empty leaf.
    """

    n_cuts: Int32[Array, "open"]
    """Binary tests above the node."""
    cutting: Int32[Array, "open"]
    """The nominal feature whose ranks are being cut, or -1."""
    low: Int32[Array, "open"]
    high: Int32[Array, "open"]
    group: Int32[Array, "open"]
    """The node (number in its tree) whose multi-way test is being cut."""
    used: tuple[UInt32[Array, "open"], ...]
    """Bits of the nominal features that were drawn on the path."""


class Open(NamedTuple):
    """Nodes that may still be split, tree by tree."""

    slot: Int32[Array, "open"]
    """Tree · nodes of a tree + node."""
    first: Int32[Array, "open"]
    """Where its instances begin among the lanes."""
    size: Int32[Array, "open"]
    tried: Int32[Array, "open"]
    depth: Int32[Array, "open"]
    """Tests above it, a multi-way test counting once."""
    cuts: OpenCuts | None
    """None if no feature is nominal."""


class Grown(NamedTuple):
    """The nodes of a block of trees, flat: tree · nodes of a tree + node."""

    feature: Int32[Array, "slots"]
    test: Complex64[Array, "slots"]
    """Pairs of the threshold and the left child's number in the tree, which is -1 in a leaf."""
    member: Complex64[Array, "slots"]
    """For children of a multi-way test, and its empty leaves: pairs of the number of its topmost node and the number of
    instances; else of -1 and 0. A single pair if no feature is nominal."""
    n_nodes: Int32[Array, "trees"]
    depth: Int32[Array, "trees"]


class Scratch(NamedTuple):
    """What the passes of a step hand on to each other."""

    open: Open
    """The open nodes that the step tries."""
    lanes: Complex64[Array, "lanes"]
    """Their lanes."""
    test: Complex64[Array, "open"]
    """Of open nodes: their tests, packed."""
    before: Int32[Array, "lanes"]
    """Of lanes: how many before it go right, doubled, and 1 more if it goes right itself."""
    move: Complex64[Array, "2*open"]
    """Of open nodes, left sides before right ones: where their lanes go, and to which node."""
    values: Int32[Array, "open"]
    """Of nodes with a multi-way test: where the cells begin in which its values are counted. Where one instance is
    enough for a child, nothing is counted: 1 if there is a value above that of the cut, else 0."""
    cells: Int32[Array, "cells"]
    """How often values occur."""
    frequent: Int32[Array, "cells"]
    """Of cells: how many before it occur often enough, doubled, and 1 more if it does itself."""
    n_cells: Int32[Array, ""]


class State(NamedTuple):
    """All of it."""

    n_open: Int32[Array, ""]
    n_lanes: Int32[Array, ""]
    """How many lanes belong to open nodes."""
    n_done: Int32[Array, ""]
    """How many have reached leaves."""
    follow: Open
    """What followed the nodes of the last step: the left side of each, and from the middle on the right ones. Those
    that are no open nodes are passed over."""
    place: Int32[Array, "open"]
    """Where among them the open nodes are."""
    lanes: Complex64[Array, "2*lanes"]
    """The instances of open nodes, node after node, each tree with its own: pairs of the instance and the place of its
    node among the open ones. In the second half, those that have reached leaves: pairs with the leaf's slot."""
    grown: Grown
    scratch: Scratch
