"""Settings of the induction of trees."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int64


class InductionSettings(NamedTuple):
    """Settings of the induction of trees."""

    boundaries: bool
    """Whether cuts lie between different classes alone, and nodes that are pure without the instance are leaves."""
    min_samples_leaf: int
    """Least number of instances on each side of a test, the inserted one among them."""
    entropy: Int64[np.ndarray, " sizes"]
    """Entropies as integers: `jaxunc.transduction.entropy_table`."""
