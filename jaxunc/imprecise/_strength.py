"""The strength s of the imprecise Dirichlet model: how many instances it imagines beyond those that it saw."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import is_concrete
from jaxunc._numerics import float_dtype


def checked_strength(s) -> Float[Array, "..."]:
    """s as a float of the precision that is computed in; a ValueError unless it is positive and finite."""
    if is_concrete(s):
        dtype = jnp.finfo(float_dtype(s))
        values = np.asarray(s, dtype=float)
        if not np.all((values >= dtype.tiny) & (values <= dtype.max)):
            raise ValueError(
                f"s={s} must be a positive, finite number: the instances that an interval allows for beyond those "
                "counted. Usual are 1 and 2; with s = 0 the interval would be a point."
            )
    return jnp.asarray(s, float_dtype(s))
