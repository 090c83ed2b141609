"""What remains of the classes when some are preferred to others."""

import jax.numpy as jnp
from jaxtyping import Array, Bool


def undominated(preferred: Bool[Array, "... classes classes"]) -> Bool[Array, "... classes"]:
    """The classes c' to which no class c is preferred, entry (c, c'); all classes if there is no such class."""
    kept = ~jnp.any(preferred, axis=-2)
    return kept | ~jnp.any(kept, axis=-1, keepdims=True)
