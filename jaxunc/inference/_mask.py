"""Which trees count for which instance."""

import numpy as np

from jaxunc._checks import refuse_masked


def as_mask(mask, n_instances: int, n_trees: int):
    """A tree mask as an array; raises unless it is absent or boolean ``[instances trees]``."""
    if mask is None:
        return None
    refuse_masked("tree_mask", mask)
    mask = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"tree_mask has dtype {mask.dtype}; pass booleans, True where the tree counts.")
    if mask.shape != (n_instances, n_trees):
        raise ValueError(f"tree_mask has shape {mask.shape}; expected {(n_instances, n_trees)} (instances, trees).")
    return mask
