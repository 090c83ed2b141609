"""Counts that look like frequencies: a warning where they enter."""

import warnings

import numpy as np
from jaxtyping import Array, Num

from jaxunc._checks import is_concrete


class FractionsWarning(UserWarning):
    """Rows of counts that all add to 1: class frequencies, it seems, which do not say how many instances there were."""


def warn_of_fractions(counts: Num[Array | np.ndarray, "... classes"], *, stacklevel: int = 2) -> None:
    """Warn if every row that is not empty adds to 1 and some entry is no integer; under a trace nothing is known."""
    if not is_concrete(counts) or np.issubdtype(counts.dtype, np.integer):
        return
    values = np.asarray(counts)
    sizes = values.sum(axis=-1, dtype=float)
    if np.any(sizes > 0) and np.all((np.abs(sizes - 1) < 1e-4) | (sizes == 0)) and np.any(values != np.rint(values)):
        warnings.warn(
            "every row of the counts adds to 1: these look like class frequencies, and every leaf then counts as one "
            "instance. scikit-learn's tree_.value holds frequencies since version 1.4; multiply them by "
            "tree_.weighted_n_node_samples, or use jaxunc.from_sklearn(model), which does.",
            FractionsWarning,
            stacklevel=stacklevel + 1,
        )
