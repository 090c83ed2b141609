"""The class that each leaf votes for."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt

from jaxunc.forest import Forest


def leaf_votes(forest: Forest) -> UInt[Array, "trees nodes"]:
    """The largest class of each leaf, the first of several; an empty leaf votes for class 0.

    Of a forest with both kinds of counts by those of the sample that grew it.
    """
    table, code = forest.leaf_rows()
    most = np.asarray(table)[:, : forest.n_classes].argmax(axis=1)
    dtype = np.uint8 if forest.n_classes <= 256 else np.uint16
    return jnp.asarray(most.astype(dtype)[np.asarray(code)])
