"""What decides how trees are induced."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int64


class InductionSettings(NamedTuple):
    """How trees are induced."""

    boundaries: bool
    """Whether cuts lie between different classes alone, and nodes that are pure without the instance are leaves."""
    min_samples_leaf: int
    """How many instances each side of a test has at least, the inserted one among them."""
    entropy: Int64[np.ndarray, " sizes"]
    """`jaxunc.greedy.entropy_table`."""
