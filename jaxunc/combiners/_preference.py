"""Preferences of trees, with the mass behind each."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxunc._numerics import safe_divide
from jaxunc.intervals import undominated


class Preference(NamedTuple):
    """The mass of the trees that prefer one class to another."""

    mass: Float[Array | np.ndarray, "... classes classes"]
    """Entry (c, c') is the mass of the trees that prefer c to c'; 0 on the diagonal."""
    total: Float[Array | np.ndarray, "..."]
    """The mass of all trees, those included that abstain. 0 if no tree counts, or all leaves are empty."""
    excess: Float[Array | np.ndarray, "... classes classes"] | None = None
    """2 mass - total, taken before rounding, so that exact halves are 0: ≥ 0 where at least half of the mass prefers c
    to c'. None in preferences made by hand: then of the mass and the total as they are."""

    @property
    def belief(self) -> Array:
        """The belief of "class 1" ``[...]``: the share of the mass that prefers it, 0 of no mass. For two classes."""
        return self._share(1, 0)

    @property
    def plausibility(self) -> Array:
        """The plausibility of "class 1" ``[...]``: the share that does not prefer class 0, 1 of no mass. As above."""
        return 1 - self._share(0, 1)

    @property
    def remaining(self) -> Bool[Array | np.ndarray, "... classes"]:
        """The classes that no half of the mass rejects: `jaxunc.decisions.nondominated`, without its checks.

        NumPy of NumPy arrays.
        """
        xp = np if isinstance(self.mass, np.ndarray) else jnp
        total = self.total[..., None, None]
        excess = 2 * self.mass - total if self.excess is None else self.excess
        n_classes = self.mass.shape[-1]
        beside = xp.broadcast_to(~xp.eye(n_classes, dtype=bool), self.mass.shape)
        preferred = (excess >= 0) & (total > 0) & beside
        if n_classes == 2:
            # Class 0 is asked first, and needs more than half.
            zero = (excess[..., 0, 1] > 0) & (total[..., 0, 0] > 0)
            one = preferred[..., 1, 0] & ~zero
            return xp.stack([~one, ~zero], axis=-1)
        return undominated(preferred)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names that `columns` knows."""
        return ("set",)

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The sets of classes that remain, as bools ``[instances classes]``."""
        return {output: np.asarray(self.remaining)}

    def _share(self, preferred: int, other: int) -> Array:
        if self.mass.shape[-1] != 2:
            raise ValueError(
                f"belief and plausibility of class 1 are those of two classes; this preference has "
                f"{self.mass.shape[-1]}. Divide the mass of a pair by the total instead."
            )
        return safe_divide(jnp.asarray(self.mass[..., preferred, other]), jnp.asarray(self.total))
