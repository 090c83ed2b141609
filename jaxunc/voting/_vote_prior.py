"""The votes of a forest's leaves, and a Dirichlet prior of the votes for an instance, learned from a sample.

`leaf_votes` (the class that each leaf votes for) → `out_of_bag_votes` → `fit_vote_prior`, whose α this room's functions
take as ``prior``, by `checked_prior`.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int64, Num, UInt
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from jaxunc._checks import check_bool, check_class_axis, check_counts, is_concrete, warn
from jaxunc._numerics import KeptWhileAlive, ceil_div
from jaxunc.forest import Forest, check_is_forest
from jaxunc.inference import as_mask, leaf_index
from jaxunc.smoothing import PriorStatus, fit_dirichlet_prior
from jaxunc.tables import Encoded, InstancesLike, MaskLike, NumbersLike, SparseRows, encode_rows

SMALLEST, LARGEST = 1e-3, 1e4  # range of a fitted α; the α of a class that no tree votes for would fall to 0

ROUTED_ENTRIES = 2**22  # number of pairs of an instance and a tree whose leaves are looked up at a time

ABSTAINS = -1  # vote of a tree that abstains


class VotePriorWarning(UserWarning):
    """Warning that no prior could be fitted to the votes, and that the uniform one is returned."""


def fit_vote_prior(
    vote_counts: Num[Array | np.ndarray, "instances classes"], *, symmetric: bool = False
) -> Float[np.ndarray, "classes"]:
    r"""Fit the Dirichlet prior under which the votes for a sample of instances are most likely.

    It maximises :math:`\sum_h \log B(t^h + \alpha) - \log B(\alpha)`, the Dirichlet-multinomial log-likelihood of the
    votes :math:`t^h` for instance h. Under the uniform prior (α = 1) all shares of votes are equally likely. Where more
    instances are nearly tied (Hernández-Lobato et al. name liver and threenorm), votes stop too early by it.

    Parameters
    ----------
    vote_counts
        Votes of several trees for instances that the trees were not grown on (held out, or out of bag)
        ``[instances classes]``. Instances without a vote are left out, and trees that abstain are not counted.
    symmetric
        Whether all classes share one α. Then nothing is assumed about which class is common, and votes of three
        classes and more are settled by the fast tables.

    Returns
    -------
    np.ndarray
        The prior α ``[classes]``, within [1e-3, 1e4]. All 1, with a warning, if trees agree on every instance, if
        instances differ no more than by chance (one instance, or all alike), or if the search does not converge.

    Raises
    ------
    ValueError
        If votes are negative or not finite, or have another shape. If no instance has two votes, so that nothing says
        how far votes agree.

    Warns
    -----
    VotePriorWarning
        If no prior could be fitted, and the uniform one is returned.

    References
    ----------
    Hernández-Lobato et al. 2011, section 4 (votes that stop too early); the remedy is not in the paper.
    """
    check_bool("symmetric", symmetric)
    check_class_axis(vote_counts, "vote_counts")
    check_counts(vote_counts, "vote_counts")
    counts = np.asarray(vote_counts, float)
    if counts.ndim != 2:
        raise ValueError(f"vote_counts has shape {counts.shape}; expected [instances classes].")
    counts = counts[counts.sum(axis=1) > 0]
    if not (counts.sum(axis=1) >= 2).any():
        raise ValueError("no instance has two votes or more; how far votes agree cannot be seen from one each.")
    if symmetric:
        class_alpha = _symmetric(counts)
        alpha = np.full(counts.shape[1], class_alpha)
        status = PriorStatus.FITTED
        # At an end of the range, which the search only approaches, no α inside is the most likely.
        if class_alpha < 1.05 * SMALLEST:
            status = PriorStatus.PURE
        elif class_alpha > LARGEST / 1.05:
            status = PriorStatus.CONCENTRATED
    else:
        fitted = fit_dirichlet_prior(counts, "marginal")
        alpha = np.asarray(fitted.alpha, float)
        status = PriorStatus(int(fitted.status))
    if status is PriorStatus.FITTED:
        # Scaled as a whole, which keeps the mean; single entries are cut only where a class has hardly any votes.
        return np.clip(alpha * min(1, LARGEST / alpha.max()), SMALLEST, LARGEST)
    warn(
        f"{_REASONS[status]}, so no prior can be learned from these votes (instances: {len(counts)}), and the uniform "
        "one is returned. Pass votes for more instances, which the trees were not grown on.",
        VotePriorWarning,
    )
    return np.ones(counts.shape[1])


_REASONS = {
    PriorStatus.PURE: "on no instance do trees disagree",
    PriorStatus.CONCENTRATED: "instances differ no more than by chance",
    PriorStatus.NOT_CONVERGED: "the search for the most likely prior did not converge",
}


def _symmetric(counts: np.ndarray) -> float:
    """Return the α, one for all classes, under which the votes ``counts [instances classes]`` are most likely."""
    distinct, repeats = np.unique(counts, axis=0, return_counts=True)
    n_classes = counts.shape[1]
    n_votes = distinct.sum(axis=1)

    def minus_log_likelihood(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        class_terms = (gammaln(distinct + alpha) - gammaln(alpha)).sum(axis=1)
        # log B(t + α) - log B(α) for each distinct row of votes t
        log_likelihood = class_terms + gammaln(n_classes * alpha) - gammaln(n_votes + n_classes * alpha)
        return -repeats @ log_likelihood

    optimum: Any = minimize_scalar(minus_log_likelihood, bounds=np.log([SMALLEST, LARGEST]))
    return float(np.exp(optimum.x))


def checked_prior(prior: NumbersLike, n_classes: int, *, traceable: bool = False) -> Any:
    """Return ``prior``, one number or one for each class, as α ``[classes]``.

    Raises a ValueError if a number is not positive and finite, the shape is another, or the prior is traced and not
    ``traceable``. Of a traced prior only the shape is checked.
    """
    is_traced = not is_concrete(prior)
    if is_traced and not traceable:
        raise ValueError("prior is traced, but the table is made on the host; call it outside of jit.")
    alpha: Any = jnp.asarray(prior) if is_traced else np.asarray(prior)
    is_sound = is_traced or (alpha.dtype.kind in "iuf" and np.all(alpha > 0) and np.all(np.isfinite(alpha)))
    if not (is_sound and alpha.shape in ((), (n_classes,))):
        raise ValueError(
            f"prior={prior!r} must be one positive number, or one for each of the {n_classes} classes; "
            "1 is the uniform prior, and fit_vote_prior learns it from votes."
        )
    return jnp.broadcast_to(alpha, (n_classes,)) if is_traced else np.broadcast_to(alpha.astype(float), (n_classes,))


def out_of_bag_votes(forest: Forest, X: InstancesLike, tree_mask: MaskLike) -> Int64[np.ndarray, "instances classes"]:
    """Return how many trees vote for each class; ``tree_mask`` says which trees vote on which instance.

    With the mask of `jaxunc.counting.oob_mask` only trees vote that were not grown on the instance. From these votes
    `fit_vote_prior` and `forest_size_for` learn without data set aside.

    Parameters
    ----------
    forest
        As for `predict_until_settled`. Its counts should be those of the bags, as `jaxunc.from_sklearn` makes them: in
        counts of all training instances each instance would vote for itself.
    X
        The instances, as for `bind`, in the order of the mask.
    tree_mask
        Booleans ``[instances trees]``, True where the tree votes.

    Returns
    -------
    np.ndarray
        Votes ``[instances classes]``, int64, without trees that abstain. Zeros where no tree votes.

    Raises
    ------
    TypeError
        If ``forest`` is not a `Forest`, the mask does not hold booleans, or an argument is traced.
    ValueError
        As `bind` for the instances. If the mask has another shape, or empty leaves are followed.

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
    mask = np.asarray(as_mask(tree_mask, n, n_trees))
    votes_of_leaves = leaf_votes(forest)
    vote_counts = np.zeros((n, n_classes), np.int64)
    block_size = max(1, ROUTED_ENTRIES // n_trees)
    for i in range(ceil_div(n, block_size)):
        block = slice(block_size * i, block_size * (i + 1))
        encoded = Encoded(values[block], missing=True)  # checked and encoded above
        votes = votes_of_leaves[np.arange(n_trees), np.asarray(leaf_index(forest.trees, encoded))]
        # A vote that is the number of classes is an abstention.
        instance, tree = np.nonzero(mask[block] & (votes < n_classes))
        np.add.at(vote_counts[block], (instance, votes[instance, tree]), 1)
    return vote_counts


def votes_of_counts(
    counts: Num[np.ndarray, "... classes"], tree: Int[np.ndarray, "..."] | int
) -> Int[np.ndarray, "..."]:
    """Return the class that each leaf votes for, from its class counts; ``tree`` is the number of its tree, from 0.

    A leaf votes for its largest class. If k classes are tied, a leaf of tree t votes for the one at position t mod k
    among them. A leaf in which *all* classes are tied, such as an empty one, abstains (`ABSTAINS`).
    """
    is_tied = counts == counts.max(axis=-1, keepdims=True)
    n_tied = is_tied.sum(axis=-1)
    # Ties take turns over the trees: a fixed choice would favour a class, a random one change from call to call.
    position = np.asarray(tree) % n_tied
    position_of_class = np.cumsum(is_tied, axis=-1) - 1  # among the tied classes; without meaning for others
    voted_class = (is_tied & (position_of_class == position[..., None])).argmax(axis=-1)
    return np.where(n_tied == counts.shape[-1], ABSTAINS, voted_class)


def check_votes(forest: Any) -> None:
    """Raise a TypeError or a ValueError unless ``forest`` is an untraced `Forest` whose trees have one vote each."""
    if not isinstance(forest, Forest):
        name = type(forest).__name__
        if any(word in name for word in ("Boost", "XGB", "LGBM", "Booster")):
            raise TypeError(
                f"forest is a {name}. The trees of a boosted model correct each other: they are not exchangeable and "
                "do not vote, so no number of them settles the answer of the rest."
            )
        check_is_forest(forest)
    if not is_concrete(forest):
        raise TypeError("the forest is traced; votes are dropped on the host: call this outside of jit.")
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} lead to several leaves, which have no one vote; choose "
            "forest.with_empty_leaves('parent') or 'zeros'."
        )


def leaf_votes(forest: Forest) -> UInt[np.ndarray, "trees nodes"]:
    """Return the class that each leaf of a forest votes for; the number of classes if the leaf abstains.

    Entries of nodes that are no leaves have no meaning. The array is read-only, and is kept while the forest's arrays
    live: a byte for each node, two from 256 classes on.
    """
    table, code = forest.leaf_rows()
    child = forest.trees.child

    def make_votes():
        return _leaf_votes(np.asarray(table), np.asarray(code), np.asarray(child), forest.n_classes)

    return _VOTES.get((table, code, child), forest.n_classes, make_votes)


_VOTES: KeptWhileAlive[UInt[np.ndarray, "trees nodes"]] = KeptWhileAlive()


def _leaf_votes(table, code, child, n_classes: int) -> UInt[np.ndarray, "trees nodes"]:
    """Return the class that each leaf votes for, as `leaf_votes` does, from distinct class counts.

    ``table [rows classes]`` has the distinct counts of leaves, ``code [trees nodes]`` each node's row of the table, and
    ``child [trees nodes]`` each node's left child.
    """
    # Bytes, small enough to stay in the cache, also for ``n_classes`` itself, the vote of a leaf that abstains.
    vote_of_row = table.argmax(axis=1).astype(np.uint8 if n_classes < 256 else np.uint16)
    votes = vote_of_row[code]
    # Tied leaves of equal counts vote for different classes in different trees.
    has_tie = (table == table.max(axis=1, keepdims=True)).sum(axis=1) > 1
    tree, node = np.nonzero(has_tie[code] & _is_leaf(child))
    tied_votes = votes_of_counts(table[code[tree, node]], tree)
    votes[tree, node] = np.where(tied_votes == ABSTAINS, n_classes, tied_votes)
    votes.setflags(write=False)
    return votes


def _is_leaf(child: Int[np.ndarray, "trees nodes"]) -> Bool[np.ndarray, "trees nodes"]:
    """Return whether each node is a leaf, from the nodes' left children: in use, and without children.

    A node is in use if it is the root, or a child of another node; the others are padding.
    """
    is_inner = child != np.arange(child.shape[1], dtype=child.dtype)  # a leaf is its own child
    is_used = np.zeros(child.shape, bool)
    tree, node = np.nonzero(is_inner)
    left = child[tree, node]
    is_used[:, 0] = is_used[tree, left] = is_used[tree, left + 1] = True  # the right child comes after the left one
    return is_used & ~is_inner
