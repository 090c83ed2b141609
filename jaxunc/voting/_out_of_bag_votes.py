"""Votes for the instances that a forest was grown on, of the trees that were grown without them."""

import numpy as np
from jaxtyping import Int64

from jaxunc._checks import is_concrete
from jaxunc._numerics import ceil_div
from jaxunc.forest import Forest
from jaxunc.inference import as_mask, leaf_index
from jaxunc.tables import Encoded, InstancesLike, MaskLike, SparseRows, encode_rows

from ._leaf_votes import leaf_votes
from ._until_settled import check_votes

ENTRIES = 2**22
"""Number of leaves that are looked up at a time."""


def out_of_bag_votes(forest: Forest, X: InstancesLike, tree_mask: MaskLike) -> Int64[np.ndarray, "instances classes"]:
    """Return how many trees vote for each class, of those that ``tree_mask`` has for an instance.

    For training instances and the mask of `jaxunc.counting.oob_mask`, these are votes as new instances would get them:
    what `fit_vote_prior` and `forest_size_for` learn from, without any data set aside.

    Parameters
    ----------
    forest
        As for `predict_until_settled`, which says how a leaf votes: with its own counts. They should be those of the
        bags (`jaxunc.from_sklearn` has them): in counts of all training instances each would vote for itself.
    X
        The instances, as for `bind`, in the order of the mask.
    tree_mask
        Booleans ``[instances trees]``, True where the tree votes.

    Returns
    -------
    np.ndarray
        Votes ``[instances classes]``, int64; trees that abstain are in none. Zeros where no tree votes.

    Raises
    ------
    TypeError
        If ``forest`` is no `Forest`, the mask holds no booleans, or something is traced.
    ValueError
        As `bind` for the instances; if the mask has another shape, or empty leaves are followed.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(200, random_state=0).fit(X, y)
    >>> unseen = ju.counting.oob_mask(model, len(X), X=X, y=y)
    >>> votes = out_of_bag_votes(ju.from_sklearn(model), X, unseen)
    >>> print(ju.voting.fit_vote_prior(votes).round(1))
    [0.1 0.2]
    """
    check_votes(forest)
    if not is_concrete(X, tree_mask):
        raise TypeError("votes are counted on the host: call this outside of jit.")
    if tree_mask is None:
        raise TypeError("tree_mask is None; pass which trees have not seen an instance (jaxunc.counting.oob_mask).")
    values = encode_rows(X, forest.trees.columns).values
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    n, n_trees, n_classes = len(values), forest.n_trees, forest.n_classes
    mask, of_leaves = np.asarray(as_mask(tree_mask, n, n_trees)), leaf_votes(forest)
    found = np.zeros((n, n_classes), np.int64)
    step = max(1, ENTRIES // n_trees)
    for part in (slice(step * i, step * (i + 1)) for i in range(ceil_div(n, step))):
        known = Encoded(values[part], missing=True)  # looked up already
        votes = of_leaves[np.arange(n_trees), np.asarray(leaf_index(forest.trees, known))]
        instance, tree = np.nonzero(mask[part] & (votes < n_classes))
        np.add.at(found[part], (instance, votes[instance, tree]), 1)
    return found
