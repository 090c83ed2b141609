"""Which outputs trees count for, and leaf values laid out accordingly."""

from collections.abc import Sequence

import numpy as np


def trees_of_stage(outputs: Sequence[np.ndarray], n_outputs: int) -> int | None:
    """Return the number of trees of one stage, where each counts for one output and stages go through these in order.

    None where trees count for several outputs, or in another order.
    """
    if any(len(own) != 1 for own in outputs):
        return None
    order = np.concatenate(outputs)
    changes = np.flatnonzero(order != order[0])
    parallel = int(changes[0]) if len(changes) else 1
    period = parallel * n_outputs
    is_regular = len(order) % period == 0 and np.array_equal(order, np.arange(len(order)) % period // parallel)
    return period if is_regular else None


def laid_out(values: Sequence[np.ndarray], outputs: Sequence[np.ndarray], n_outputs: int) -> list[np.ndarray]:
    """Return values ``[nodes each]`` of each tree for a `AdditiveTrees`: one for each node, or one for each output."""
    if n_outputs == 1 or trees_of_stage(outputs, n_outputs) is not None:
        return list(values)
    wide = [np.zeros((len(own), n_outputs)) for own in values]
    for own, narrow, which in zip(wide, values, outputs, strict=True):
        own[:, which] = narrow
    return wide
