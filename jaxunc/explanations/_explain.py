"""`explain`: which columns make an answer what it is."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxunc._checks import is_concrete
from jaxunc._numerics import KeptWhileAlive
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest, Trees, check_is_forest, have_same_arrays
from jaxunc.inference import as_mask, leaf_index, tested
from jaxunc.tables import Encoded, InstancesLike, MaskLike, SparseRows, encode_rows

from ._attributions import Attributions
from ._by_background import values_by_background
from ._by_cover import Walk, make_walk, values_by_cover
from ._paths import Unrolled, unroll
from ._statistic import LeafStatistic, leaf_statistic, margins_of


def explain(
    forest: Forest | AdditiveTrees,
    combiner: Combiner | None,
    X: InstancesLike,
    *,
    background: Forest | InstancesLike | None = None,
    tree_mask: MaskLike | None = None,
) -> Attributions:
    r"""Return the Shapley values of each column, for what a combiner's leaves add up to.

    The value of a set S of columns is what is expected where these alone are known. Column i has

    .. math:: \phi_i = \sum_{S \not\ni i} \frac{|S|!\,(F - |S| - 1)!}{F!} \big(v(S \cup \{i\}) - v(S)\big)

    Of a column that is not known, ``background`` says what is expected:

    * by a forest's counts, an instance goes to both sides of its tests, in the shares of the rows that did;
    * by a table, the value of each row of it is taken in turn, and v is the mean over the rows.

    What is explained, ``of`` in the result:

    * ``"probability"``: `Mean` of shares or of a bounded score for two classes, `Vote`, `EpistemicWeighting`,
      ``BetaAggregation("exact")``;
    * ``"class scores"``: `EvidenceAccumulation` (log odds), `DempsterRule` (log commonalities), other `Mean`;
    * ``"pooled counts"``: `Pooling`; ``"pooled shares"``: `LearnedPool`, before they are divided by their weights;
    * ``"uncertainty"``: ``UncertaintyDecomposition("plausibility")``, aleatoric and epistemic apart; of the kind
      ``"entropy"`` the aleatoric part;
    * ``"bounds of the probability"``: `AveragedIntervals`, all lower and then all upper ones;
    * ``"raw"``: the sums of an `AdditiveTrees`, before the link.

    Parameters
    ----------
    forest
        A forest, or an `AdditiveTrees`.
    combiner
        One of those above, or such a one `Weighted`; None for an `AdditiveTrees`.
    X
        Instances ``[instances features]``, as for `bind`. The result has all columns, also of a sparse matrix.
    background
        A table of rows; or a forest of the same trees, whose counts say which shares of rows go where. Default: the
        forest's own. An `AdditiveTrees` has none: pass rows, or ``ju.count_leaves(model.trees, X, y)``.
    tree_mask
        Which trees count for which instance, booleans ``[instances trees]``; default all.

    Returns
    -------
    Attributions
        ``values`` ``[instances features stat]`` and ``base`` ``[stat]``, with a mask ``[instances stat]``;
        ``values.sum(1) + base`` is the answer.

    Raises
    ------
    TypeError, ValueError
        If the combiner's answer is no sum of what leaves say, or a leaf vetoes a class. If a forest follows empty
        leaves, the background is of other trees, or X is what `bind` refuses.

    Notes
    -----
    Exact up to rounding. A column that no test asks has 0; so has every column of a tree of one leaf. Where no row of
    the counts came, both sides of a test have one half. An instance whose mask has no tree has 0, and the base is what
    is said of no tree. Not differentiable.

    The time grows with the leaves; against a table also with its rows, of which some hundred are enough to tell.
    Memory is that of a block of instances and of the result. Forests of like size share compiled programs.

    References
    ----------
    Lundberg et al. 2020, "From local explanations to global understanding": both value functions. "Quadrature
    TreeSHAP", arXiv 2605.04497: sums over coalitions as an integral that few points make exact.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5, np.float32)
    >>> forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, X[:, 0] > 0))
    >>> shares = ju.explain(forest, ju.Mean(), X[:1])
    >>> bool(abs(shares.values.sum(1) + shares.base - ju.bind(forest, ju.Mean()).probability(X[:1])).max() < 1e-6)
    True
    """
    if not is_concrete(forest, combiner, background, tree_mask) or not is_concrete(X):
        raise TypeError("explain follows trees on the host, which cannot be traced: call it outside of jit and vmap.")
    stat = _asked(forest, combiner)
    covered = _background(forest, background)
    trees, kept, encoded = forest.trees, None, encode_rows(X, forest.trees.columns)
    if any(isinstance(part.values, SparseRows) for part in (encoded, covered) if isinstance(part, Encoded)):
        trees, kept = tested(trees)
        encoded = _at(kept, trees, encoded)
        covered = _at(kept, trees, covered) if isinstance(covered, Encoded) else covered
    n_rows, n_stats, dtype = len(encoded.values), len(stat.names), jnp.result_type(float)
    mask = as_mask(tree_mask, n_rows, trees.n_trees)
    mask = None if mask is None else np.asarray(mask)
    table, divisor = stat.table, np.ones((n_rows, 1))
    if stat.weights is not None and mask is None:
        table = table / stat.weights.sum()
    elif stat.weights is not None:
        divisor = (mask @ stat.weights)[:, None]
        divisor = np.where(divisor > 0, divisor, 1)
    unrolled = _UNROLLED.get(_arrays(trees), None, lambda: unroll(trees))
    of_paths, by_tree = table[unrolled.tree, unrolled.leaf], np.zeros((trees.n_trees, n_stats))
    # The numbers of a leaf that add up to the same for all, such as probabilities: the last one follows.
    follows = n_stats > 1 and _is_constant(unrolled.tree, of_paths.sum(axis=1), np.abs(of_paths).max(), dtype)
    own = slice(n_stats - follows)
    if isinstance(covered, Encoded):
        leaves = np.asarray(leaf_index(trees, covered))
        by_tree = np.take_along_axis(table, leaves.T[..., None], axis=1).mean(axis=1)
        answer = lambda: values_by_background(unrolled, of_paths[:, own], encoded, covered, mask)  # noqa: E731
    else:
        arrays = *_arrays(trees), covered.count_table, covered.code
        walk = _WALKS.get(arrays, dtype, lambda: make_walk(unrolled, _cover(covered)))
        np.add.at(by_tree, unrolled.tree, walk.shares[:, None] * of_paths)
        answer = lambda: values_by_cover(walk, of_paths[:, own], encoded, mask)  # noqa: E731
    has_tests = n_rows > 0 and len(unrolled.nodes.edge) > 0
    values = np.asarray(answer()) if has_tests else np.zeros((n_rows, trees.n_features, n_stats - follows), dtype)
    if follows:
        values = np.concatenate([values, -values.sum(axis=-1, keepdims=True)], axis=-1)
    base = by_tree.sum(axis=0)
    if mask is not None:
        base, values = mask @ by_tree / divisor, values / divisor[..., None].astype(dtype)
    if kept is not None:
        tested_alone, values = values, np.zeros((n_rows, forest.trees.n_features, n_stats), dtype)
        values[:, kept] = tested_alone
    base = (base + stat.constant).astype(dtype)
    values, base = jax.device_put((values, base))
    columns = forest.trees.columns
    return Attributions(values, base, stat.of, stat.names, columns.names or tuple(map(str, range(columns.number))))


def _is_constant(tree: np.ndarray, value: np.ndarray, scale: float, dtype: np.dtype) -> bool:
    """Whether a number of leaves is the same for all of a tree, up to rounding."""
    first = np.unique(tree, return_index=True)[1]
    return bool(np.all(np.abs(value - value[first][tree]) <= 8 * np.finfo(dtype).eps * scale))


_UNROLLED: KeptWhileAlive[Unrolled] = KeptWhileAlive()
_WALKS: KeptWhileAlive[Walk] = KeptWhileAlive()
"""By all arrays of trees and of the counts that are the cover: forests are explained again and again."""


def _arrays(trees: Trees) -> tuple[Array, ...]:
    return trees.feature, trees.threshold, trees.child, trees.missing_right


def _cover(covered: Forest) -> np.ndarray:
    """The rows in each leaf."""
    return np.asarray(covered.count_table, np.float64).sum(axis=1)[np.asarray(covered.code)]


def _at(kept: np.ndarray | None, trees: Trees, rows: Encoded) -> Encoded:
    """The columns that are tested."""
    if isinstance(rows.values, SparseRows):
        return Encoded(rows.values.of(kept, trees.columns), rows.missing)
    return rows if kept is None else Encoded(np.asarray(rows.values)[:, kept], rows.missing)


def _asked(forest: Any, combiner: Any) -> LeafStatistic:
    """What is explained."""
    if isinstance(forest, AdditiveTrees):
        if combiner is not None:
            raise TypeError(
                f"combiner is a {type(combiner).__name__}, and leaves of an AdditiveTrees hold values, no counts: "
                "pass None, or explain ju.count_leaves(model.trees, X, y)."
            )
        return margins_of(forest)
    check_is_forest(forest)
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} are answered by other leaves, and say nothing "
            "themselves. Pass forest.with_empty_leaves('parent') or 'zeros'."
        )
    return leaf_statistic(forest, combiner)


def _background(forest: Forest | AdditiveTrees, background: Any) -> Forest | Encoded:
    """The forest whose counts are the cover, or the rows of a table."""
    if background is None and isinstance(forest, AdditiveTrees):
        raise ValueError(
            "an AdditiveTrees does not say how many rows reached its leaves: pass background, a table of rows or "
            "ju.count_leaves(model.trees, X, y)."
        )
    covered = forest if background is None else background
    if isinstance(covered, Trees | AdditiveTrees) or any(
        hasattr(type(covered), name) for name in ("predict", "answer")
    ):
        raise TypeError(
            f"background is a {type(covered).__name__}; pass a table of rows, or a forest of the same trees, such as "
            "ju.count_leaves(forest, X, y)."
        )
    if not isinstance(covered, Forest):
        sample = encode_rows(covered, forest.trees.columns, "background")
        if not len(sample.values):
            raise ValueError("background has no rows; pass one at least.")
        return sample
    if not have_same_arrays(forest.trees, covered.trees):
        raise ValueError("background is a forest of other trees; pass a recount: ju.count_leaves(forest, X, y).")
    return covered
