"""`explain`: which columns make an answer what it is."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import is_concrete
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest, check_is_forest, have_same_arrays
from jaxunc.tables import InstancesLike, encode_instances

from ._by_level import make_plan, values_by_level
from ._paths import shares_of_cover, unroll
from ._statistic import LeafStatistic, leaf_statistic, margins_of


class Attributions(NamedTuple):
    """Shares of each column in a sum: ``values.sum(1) + base`` is what is explained, for each instance."""

    values: Float[Array, "instances features stat"]
    base: Float[Array, "stat"]
    """What is expected of an instance of which nothing is known."""
    of: str
    """What is explained: "probability", "class scores", "pooled counts", "uncertainty", …"""
    names: tuple[Any, ...]
    """What each number of ``stat`` is about: class labels, or kinds of uncertainty."""


def explain(
    forest: Forest | AdditiveTrees, combiner: Combiner | None, X: InstancesLike, *, background: Forest | None = None
) -> Attributions:
    r"""Return the Shapley values of each column, for what a combiner's leaves add up to.

    The value of a set S of columns is expected where these are known. At a test of another column an instance goes to
    both sides, in the shares of the rows that did. Column i has

    .. math:: \phi_i = \sum_{S \not\ni i} \frac{|S|!\,(F - |S| - 1)!}{F!} \big(v(S \cup \{i\}) - v(S)\big)

    What is explained, ``of`` in the result:

    * ``"probability"``: `Mean` of shares or of a bounded score for two classes, `Vote`, `EpistemicWeighting`,
      ``BetaAggregation("exact")``;
    * ``"class scores"``: `EvidenceAccumulation` (log odds), `DempsterRule` (log commonalities), other `Mean`;
    * ``"pooled counts"``: `Pooling`;
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
        Instances ``[instances features]``, as for `bind`; not sparse.
    background
        A forest of the same trees, whose counts say which shares of rows go where; default: the forest's own. An
        `AdditiveTrees` has none: pass ``ju.count_leaves(model.trees, X, y)``.

    Returns
    -------
    Attributions
        ``values`` ``[instances features stat]`` and ``base`` ``[stat]``; ``values.sum(1) + base`` is the answer.

    Raises
    ------
    TypeError, ValueError
        If the combiner's answer is no sum of what leaves say, or a leaf vetoes a class. If a forest follows empty
        leaves, the background is of other trees, or X is what `bind` refuses.

    Notes
    -----
    Exact up to rounding. A column that no test asks has 0; so has every column of a tree of one leaf. Where no row of
    the cover came, both sides of a test have one half. Not differentiable.

    References
    ----------
    Lundberg et al. 2020, "From local explanations to global understanding", the path-dependent value function.

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
    if not is_concrete(forest, combiner, background) or not is_concrete(X):
        raise TypeError("explain follows trees on the host, which cannot be traced: call it outside of jit and vmap.")
    stat, cover = _asked(forest, combiner, background)
    trees = forest.trees
    encoded = encode_instances(X, trees.columns)
    unrolled = unroll(trees)
    shares = shares_of_cover(unrolled, cover)
    of_paths = stat.table[unrolled.tree, unrolled.leaf]
    values = jnp.zeros((len(encoded.values), trees.n_features, len(stat.names)), jnp.result_type(float))
    if unrolled.levels and len(values):
        values = values_by_level(make_plan(trees, unrolled, shares, stat.table), encoded)
    base = stat.constant + shares.passing.prod(axis=1) @ of_paths
    return Attributions(values, jnp.asarray(base, values.dtype), stat.of, stat.names)


def _asked(forest: Any, combiner: Any, background: Any) -> tuple[LeafStatistic, np.ndarray]:
    """What is explained, and the rows in each leaf."""
    if isinstance(forest, AdditiveTrees):
        if combiner is not None:
            raise TypeError(
                f"combiner is a {type(combiner).__name__}, and leaves of an AdditiveTrees hold values, no counts: "
                "pass None, or explain ju.count_leaves(model.trees, X, y)."
            )
        if background is None:
            raise ValueError(
                "an AdditiveTrees does not say how many rows reached its leaves: pass "
                "background=ju.count_leaves(model.trees, X, y)."
            )
        stat = margins_of(forest)
    else:
        check_is_forest(forest)
        if forest.follows_forks:
            raise ValueError(
                f"empty leaves of the mode {forest.empty_leaves!r} are answered by other leaves, and say nothing "
                "themselves. Pass forest.with_empty_leaves('parent') or 'zeros'."
            )
        stat = leaf_statistic(forest, combiner)
    covered: Any = forest if background is None else background
    check_is_forest(covered, "background")
    if not have_same_arrays(forest.trees, covered.trees):
        raise ValueError("background is a forest of other trees; pass a recount: ju.count_leaves(forest, X, y).")
    return stat, np.asarray(covered.count_table, np.float64).sum(axis=1)[np.asarray(covered.code)]
