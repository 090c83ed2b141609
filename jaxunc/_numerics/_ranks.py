"""Settings that may have axes of their own, beside arrays."""

from jaxtyping import Array, Shaped


def same_rank(*arrays: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    """Return the arrays with leading axes of length one until all have as many: broadcasting that is asked for.

    Tests forbid the other kind, in which a missing axis is a mistake as often as a wish.
    """
    rank = max(array.ndim for array in arrays)
    return tuple(array.reshape((1,) * (rank - array.ndim) + array.shape) for array in arrays)
