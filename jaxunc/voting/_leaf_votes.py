"""The class that each leaf votes for."""

import numpy as np
from jaxtyping import Int, Num, UInt

from jaxunc._checks import outside_traces
from jaxunc.forest import Forest

ABSTAINS = -1
"""Vote of a tree that abstains."""


def votes_of_counts(
    counts: Num[np.ndarray, "... classes"], tree: Int[np.ndarray, "..."] | int
) -> Int[np.ndarray, "..."]:
    """Return the votes of leaves with such counts, each in a tree of that number; `ABSTAINS` if all classes tie.

    A leaf votes for its largest class. In tree number t (from 0) a leaf in which k classes are tied votes for the one
    at place t mod k among these: over the trees each has an equal share, as `Vote` gives it. A leaf in which *all*
    classes are tied, as in an empty one, would give them equal shares, which decide nothing: it abstains. So with two
    classes the winner of all votes is that of `Vote` exactly, with more that of an ensemble without end is.
    """
    tied = counts == counts.max(axis=-1, keepdims=True)
    number = tied.sum(axis=-1)
    # Ties take turns over the trees: a fixed choice would favour a class, a random one change from call to call.
    place = np.asarray(tree) % number
    chosen = (tied & (np.cumsum(tied, axis=-1) == place[..., None] + 1)).argmax(axis=-1)
    return np.where(number == counts.shape[-1], ABSTAINS, chosen)


def leaf_votes(forest: Forest) -> UInt[np.ndarray, "trees nodes"]:
    """Return the class that each leaf votes for (`votes_of_counts`); the number of classes where it abstains.

    By the forest's own counts. What is no leaf has some class or other.
    """
    table, code = map(np.asarray, forest.leaf_rows())
    n_classes = forest.n_classes
    # Bytes instead of counts: all that a vote needs of a leaf, and few enough to stay in the cache.
    most = table.argmax(axis=1).astype(np.uint8 if n_classes < 256 else np.uint16)
    votes = most[code]
    is_tied = (table == table.max(axis=1, keepdims=True)).sum(axis=1) > 1
    with outside_traces():  # a forest of known arrays may be bound while others are traced
        is_leaf = np.asarray(forest.trees.is_leaf)
    tree, node = np.nonzero(is_tied[code] & is_leaf)
    chosen = votes_of_counts(table[code[tree, node]], tree)
    votes[tree, node] = np.where(chosen == ABSTAINS, n_classes, chosen)
    return votes
