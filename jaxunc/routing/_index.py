"""Which leaf an instance falls into, tree by tree."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int32, Num

from jaxunc.forest import Forest

from ._instances import as_routable
from ._plan import Plan, column_keys, make_plan
from ._walk import block_size, default_form, over_blocks, unrolled_depth, walk_levels, walk_tree


def leaf_index(forest: Forest, X) -> Int32[Array, "instances trees"]:
    """The node that each instance ends in, for every tree.

    X ``[instances features]``, NumPy, JAX or pandas, is compared as float32; NaN is a missing value, ±inf and
    subnormals are compared exactly. Raises a ValueError or TypeError as a bound forest does where columns are not the
    forest's or hold no numbers; of a traced X only the shape is checked. No gradient.
    """
    X = as_routable(X, forest)
    return planned_leaf_index(forest, make_plan(forest, missing=True), X)


def planned_leaf_index(forest: Forest, plan: Plan, X: Num[Array, "instances features"]):
    """`leaf_index` by a plan that is made already, with missing values."""
    form = default_form()
    return _leaf_index(plan, X, form=form, depth=unrolled_depth(form, forest))


@partial(jax.jit, static_argnames=("form", "depth"))
def _leaf_index(plan: Plan, x, *, form: str, depth: int):
    n, n_trees = x.shape[0], plan.nodes.shape[0]
    size = block_size(form, n_trees, 2 * x.shape[1])

    def block(out, start, _):
        rows = min(size, n)
        keys = column_keys(lax.dynamic_slice_in_dim(x, start, rows), missing=True)
        if form == "levels":
            leaves = walk_levels(plan, keys, depth) - jnp.arange(n_trees, dtype=jnp.int32) * plan.nodes.shape[1]
        else:
            by_column = keys.T
            leaves = lax.scan(lambda _, tree: (None, walk_tree(tree, by_column)), None, plan)[1].T
        return lax.dynamic_update_slice(out, leaves, (start, 0))

    out = jnp.zeros((n, n_trees), jnp.int32)
    return over_blocks(block, out, n, size) if n else out
