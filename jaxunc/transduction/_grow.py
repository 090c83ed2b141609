"""Greedy trees by information gain, and bags of them."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_integer, check_key, check_one_of
from jaxunc._numerics import NAN_LAST, distinct_rows, order_key_at_or_below, padded_table, power_of_two
from jaxunc.forest import Forest, Trees
from jaxunc.tables import InstancesLike, LabelsLike, NominalLike

from ._one_tree import GreedyTree, SplitLimits, grow_greedy_tree
from ._presorted import Presorted, presort

CANDIDATES = ("boundary", "all")


def grow_greedy_trees(
    X: InstancesLike,
    y: LabelsLike,
    *,
    samples: Any = None,
    nominal: NominalLike | None = None,
    candidates: str = "boundary",
    min_samples_leaf: int = 2,
    max_depth: int | None = None,
) -> Forest:
    r"""Grow unpruned trees by information gain, with binary tests; the same instances give the same tree everywhere.

    A test that parts the n instances of a node into sides of n_1 and n_2 gains

    .. math:: n\,H - n_1 H_1 - n_2 H_2,\qquad n\,H = n\log_2 n-\sum_c n_c\log_2 n_c.

    Parameters
    ----------
    X
        Instances ``[instances features]`` (NumPy, JAX or pandas): numbers, used as float32, and what ``nominal`` names.
    y
        Labels ``[instances]``, two classes or more.
    samples
        The instances that each tree is grown on, positions ``[trees drawn]``; one that comes twice counts twice.
        Default: one tree, on all.
    nominal
        The nominal features: bools, names, positions or ``"auto"``, as for `jaxunc.tables.fit_columns`, which finds the
        levels. Default: none.
    candidates
        ``"boundary"``: numeric features are cut between neighbouring values whose instances have different classes;
        ``"all"``: between any two.
    min_samples_leaf
        Least number of instances on each side of a test, ≥ 1.
    max_depth
        Nodes that many tests deep are leaves, ≥ 0; None for no limit.

    Returns
    -------
    Forest
        A forest of one tree, or of as many as ``samples`` has rows. Features of a single value, or pure samples, make a
        leaf.

    Raises
    ------
    TypeError
        If a feature that is not nominal holds no numbers, or a parameter no integer.
    ValueError
        If X holds infinite numbers, y a single class, lengths differ, ``nominal`` or ``samples`` do not fit X, or a
        parameter is out of range.

    Warns
    -----
    MergedValuesWarning
        If float32 cannot tell more than 1 % of a column's distinct values from others.

    Notes
    -----
    Numeric tests are ``x <= t``, t halfway between two neighbouring values of the node's sample; a missing number lies
    below all others. Nominal tests are ``x = v`` against the rest; a missing value is a value of its own, and one that
    was not seen belongs to the rest. Gains are compared as integers (`entropy_table`), so equal ones are equal: then
    the first feature is tested, at its lowest threshold. A node is a leaf if it is pure, has fewer than twice
    ``min_samples_leaf`` instances, or no test gains. On the host; not traceable.

    References
    ----------
    Quinlan 1986; Fayyad and Irani 1992 (boundaries); Costa, Verwer and Blockeel 2013, section 4.1.

    Examples
    --------
    >>> import jaxunc as ju
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = ju.transduction.grow_greedy_trees(X, y)
    >>> tree.n_trees, tree.trees.depth, ju.leaf_counts(tree, X[:1])[0, 0].tolist()
    (1, 4, [50, 0, 0])
    """
    limits = checked_limits(candidates, min_samples_leaf, max_depth)
    sample = presort(X, y, nominal)
    if samples is None:
        return forest_of([grow_greedy_tree(sample, limits)], sample)
    rows = _checked_samples(samples, sample.n)
    return forest_of([grow_greedy_tree(sample.take(own), limits) for own in rows], sample)


def bagging(key: jax.Array, X: InstancesLike, y: LabelsLike, *, n_trees: int = 10, **settings: Any) -> Forest:
    """Grow greedy trees on samples drawn with replacement, each as large as the whole (Breiman 1996).

    Parameters
    ----------
    key
        A typed key, ``jax.random.key(seed)``. Tree i is the same whatever ``n_trees``.
    X, y
        See `grow_greedy_trees`.
    n_trees
        Number of trees, ≥ 1.
    **settings
        Those of `grow_greedy_trees`, but for ``samples``.

    Returns
    -------
    Forest
        With the counts of the samples drawn (in-bag); ``prior`` are the frequencies of the whole.

    Raises
    ------
    TypeError, ValueError
        As `grow_greedy_trees`; a TypeError if ``key`` is no typed key.

    Examples
    --------
    >>> import jax, jaxunc as ju
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ju.transduction.bagging(jax.random.key(0), X, y, n_trees=3).n_trees
    3
    """
    check_key(key)
    check_integer("n_trees", n_trees, 1)
    if np.ndim(y) != 1:
        raise ValueError(f"y has shape {np.shape(y)}; pass one label per instance, shape (instances,).")
    return grow_greedy_trees(X, y, samples=bootstrap_rows(key, n_trees, len(np.asarray(y))), **settings)


def bootstrap_rows(key: jax.Array, n_trees: int, n: int) -> np.ndarray:
    """Return the positions that `bagging` draws, ``[trees instances]``."""
    keys = jax.vmap(lambda tree: jax.random.fold_in(key, tree))(jnp.arange(n_trees))
    return np.asarray(jax.vmap(lambda own: jax.random.randint(own, (n,), 0, n))(keys))


def checked_limits(candidates: str, min_samples_leaf: int, max_depth: int | None = None) -> SplitLimits:
    """Return the limits of a node, checked."""
    check_one_of("candidates", candidates, CANDIDATES)
    check_integer("min_samples_leaf", min_samples_leaf, 1)
    if max_depth is not None:
        check_integer("max_depth", max_depth, 0)
    return SplitLimits(candidates == "boundary", int(min_samples_leaf), max_depth)


def forest_of(trees: Sequence[GreedyTree], sample: Presorted) -> Forest:
    """Return the forest of greedy trees; ``sample`` is the set that all were drawn from."""
    # Rounded widths, so that forests of about one size share compiled programs. Nodes beyond a tree's own lead
    # to themselves, as leaves do, and have the code of the zero vector: nothing reaches them.
    width = power_of_two(max(len(tree.child) for tree in trees), 64)
    feature = np.zeros((len(trees), width), np.int32)
    threshold = np.full((len(trees), width), NAN_LAST, np.int32)
    child = np.tile(np.arange(width, dtype=np.int32), (len(trees), 1))
    code = np.zeros((len(trees), width), np.int32)
    rows, places = [np.zeros((1, sample.n_classes))], []
    for t, tree in enumerate(trees):
        own = np.array(tree.child, np.int32)
        inner = own != np.arange(len(own))
        feature[t, : len(own)] = tree.feature
        threshold[t, : len(own)][inner] = order_key_at_or_below(np.array(tree.threshold)[inner])
        child[t, : len(own)] = own
        places.append(np.flatnonzero(~inner))
        rows.append(np.array(tree.counts, float)[~inner])
    table, place = distinct_rows(np.concatenate(rows))  # row 0 is the zero vector: counts are not negative
    ends = np.cumsum([1, *map(len, places)])
    for t, leaves in enumerate(places):
        code[t, leaves] = place[ends[t] : ends[t + 1]]
    frequencies = np.bincount(sample.label, minlength=sample.n_classes) / sample.n
    return Forest(
        trees=Trees(
            feature=jnp.asarray(feature),
            threshold=jnp.asarray(threshold),
            child=jnp.asarray(child),
            missing_right=jnp.zeros(child.shape, bool),
            tree_depth=jnp.asarray([tree.depth for tree in trees], jnp.int32),
            columns=sample.columns,
        ),
        count_table=padded_table(table),
        code=jnp.asarray(code),
        prior=jnp.asarray(frequencies, jnp.result_type(float)),
        n_samples=jnp.asarray(sample.n, jnp.result_type(float)),
        class_labels=sample.class_labels,
    )


def _checked_samples(samples, n: int) -> np.ndarray:
    rows = np.asarray(samples)
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "iu":
        raise ValueError(
            f"samples has shape {rows.shape} and dtype {rows.dtype}; pass positions of instances, integers "
            "[trees drawn]."
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"samples holds {rows.min()} to {rows.max()}; positions of {n} instances are 0 to {n - 1}.")
    return rows
