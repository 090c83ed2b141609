"""The counts of the leaves that instances fall into."""

import jax.numpy as jnp
from jaxtyping import Array, Num

from jaxunc.forest import Forest

from ._empty_leaves import follows_siblings, refuse_trace, summed_counts
from ._index import leaf_index, planned_leaf_index
from ._instances import as_routable
from ._plan import make_plan


def leaf_counts(forest: Forest, X) -> Num[Array, "instances trees classes"]:
    """Class counts of the leaf that each instance ends in, for every tree.

    The tensor that `bind` avoids: instances × trees × classes numbers. X as for `leaf_index`. Differentiable in the
    forest's counts. Instances in an empty leaf are given what `Forest.with_empty_leaves` says. Raises as `leaf_index`
    does, and a ValueError for the mode "average", which averages what a rule says and not counts, or if the mode "sum"
    is traced.
    """
    if follows_siblings(forest):
        if forest.empty_leaves == "average":
            raise ValueError(
                "empty leaves of the mode 'average' have no counts of their own: the scores of several leaves are "
                "averaged. Bind a rule, or choose forest.with_empty_leaves('sum')."
            )
        refuse_trace(forest, X)
        X, plan = as_routable(X, forest), make_plan(forest, missing=True)
        return summed_counts(forest, plan, X, planned_leaf_index(forest, plan, X))
    codes = forest.code[jnp.arange(forest.n_trees), leaf_index(forest, X)]
    return forest.count_table[codes]
