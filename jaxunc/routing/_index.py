"""Which leaf an instance falls into, tree by tree."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int32, Num

from jaxunc.forest import Forest, Trees
from jaxunc.tables._instances import as_traceable

from ._plan import Plan, column_keys, make_plan
from ._walk import Form, block_size, default_form, over_blocks, unrolled_depth, walk_levels, walk_tree


def leaf_index(trees: Trees | Forest, X, *, form: Form | None = None) -> Int32[Array, "instances trees"]:
    """The node that each instance ends in, for every tree.

    X ``[instances features]``, NumPy, JAX or pandas, is compared as float32; NaN is a missing value, ±inf and
    subnormals are compared exactly. ``form``: as for `bind`. Raises a ValueError or TypeError as a bound forest does
    where columns are not the trees' or hold no numbers; of a traced X only the shape is checked. No gradient.
    """
    trees = trees.trees if isinstance(trees, Forest) else trees
    X = as_traceable(X, trees.columns)
    return planned_leaf_index(trees, make_plan(trees, missing=True), X, form)


def planned_leaf_index(trees: Trees, plan: Plan, X: Num[Array, "instances features"], form: Form | None = None):
    """`leaf_index` by a plan that is made already, with missing values."""
    form = form or default_form()
    return _leaf_index(plan, X, form=form, depth=unrolled_depth(form, trees))


@partial(jax.jit, static_argnames=("form", "depth"))
def _leaf_index(plan: Plan, x, *, form: Form, depth: int):
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
