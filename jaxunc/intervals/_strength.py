"""The strength s of the imprecise Dirichlet model: how many instances it imagines beyond those that it saw."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import is_concrete
from jaxunc._numerics import float_dtype
from jaxunc.tables import NumbersLike


def checked_strength(s: NumbersLike) -> Float[Array, "..."]:
    """Return s as a float of the precision that is computed in; a ValueError unless it is positive and finite."""
    check_strength(s)
    return jnp.asarray(s, float_dtype(s))


def one_strength(s: NumbersLike) -> Float[Array, "..."]:
    """Return the one strength of a rule, as `checked_strength` does; a ValueError for several."""
    checked = checked_strength(s)
    if checked.size != 1:
        raise ValueError(
            f"s has shape {checked.shape}; a rule has one strength for all classes, trees and instances: pass one "
            "number. To compare several, bind several rules by name."
        )
    return checked


def check_strength(s: NumbersLike) -> None:
    """Raise a ValueError unless s is positive and finite, without a device."""
    if is_concrete(s):
        values = np.asarray(s)
        if fits := jnp.issubdtype(values.dtype, jnp.number):
            values, limits = values.astype(float), jnp.finfo(float_dtype(values))
            fits = np.all((values >= limits.tiny) & (values <= limits.max))
        if not fits:
            raise ValueError(
                f"s={s!r} must be a positive, finite number: the instances that an interval allows for beyond those "
                "counted. Usual are 1 and 2; with s = 0 the interval would be a point."
            )
