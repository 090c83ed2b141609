"""What the growing of a block of trees carries from step to step."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Complex64, Int32, Num, UInt32


class Data(NamedTuple):
    """The sample, numeric features before nominal ones; padded, so that sets of like size share programs."""

    keys: Int32[Array, "cells"]
    """Order keys of numeric features and ranks of nominal ones, feature by feature, ``stride`` cells apart."""
    stride: Int32[Array, ""]
    label: Int32[Array, "instances"]
    weight: Num[Array, "instances"]
    n_features: Int32[Array, ""]
    n_numeric: Int32[Array, ""]
    n_ranks: Int32[Array, "features"]
    """Number of ranks of each nominal feature, gaps included; 0 for a numeric one."""


class Limits(NamedTuple):
    """When a node stays a leaf."""

    min_leaf: Int32[Array, ""]
    min_split: Int32[Array, ""]
    max_depth: Int32[Array, ""]


class Open(NamedTuple):
    """Nodes that may still be split, tree by tree, in slots of a fixed number.

    A multi-way test is made as binary cuts of its feature's ranks. Between the cuts the parts are open nodes too, of a
    range of ranks ``low … high``; a part of one rank is a child, a part without instances an empty leaf.
    """

    slot: Int32[Array, "open"]
    """Tree · nodes of a tree + node."""
    first: Int32[Array, "open"]
    """Where its instances begin among the lanes."""
    size: Int32[Array, "open"]
    tried: Int32[Array, "open"]
    depth: Int32[Array, "open"]
    """Tests above it, a multi-way test counting once."""
    cuts: Int32[Array, "open"]
    """Binary tests above it."""
    cutting: Int32[Array, "open"]
    """The nominal feature whose ranks are being cut, or -1."""
    low: Int32[Array, "open"]
    high: Int32[Array, "open"]
    group: Int32[Array, "open"]
    """The node (number in its tree) whose multi-way test is being cut."""
    used: tuple[UInt32[Array, "open"], ...]
    """Bits of the nominal features that were drawn on the path."""


class Grown(NamedTuple):
    """The nodes of a block of trees, flat: tree · nodes of a tree + node."""

    feature: Int32[Array, "slots"]
    test: Complex64[Array, "slots"]
    """Pairs of the threshold and the left child's number in the tree, which is -1 in a leaf."""
    counts: Num[Array, "cells"]
    """Class counts of leaves, class by class within a slot."""
    group: Int32[Array, "slots"]
    """For children of a multi-way test, and its empty leaves: the number of its topmost node; else -1."""
    size: Int32[Array, "slots"]
    """Instances of a child of a multi-way test."""
    n_nodes: Int32[Array, "trees"]
    depth: Int32[Array, "trees"]


class State(NamedTuple):
    """All of it."""

    open: Open
    lanes: Complex64[Array, "lanes"]
    """The instances of open nodes, node after node, each tree with its own: pairs of the instance and the place of its
    node among the open ones. After them, those that have reached leaves, with -1 - the leaf's slot."""
    grown: Grown
    n_open: Int32[Array, ""]
    n_lanes: Int32[Array, ""]
    """How many lanes belong to open nodes."""
    stalled: Bool[Array, ""]
    """The last step was not made: it would have left more nodes open than there is room for."""
