"""Sizes that compiled programs are made for, arrays padded to them, and the cores that share the work."""

import os

import numpy as np
from jaxtyping import Shaped


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def power_of_two(n: int, least: int = 1) -> int:
    """The least power of two that is not below n or ``least``: programs compiled for one size serve the next."""
    return max(least, 1 << max(n - 1, 0).bit_length())


def ceil_div(n: int, size: int) -> int:
    """How many groups of ``size`` hold n: n / size, rounded up."""
    return -(-n // size)


def multiple_of(size: int, n: int) -> int:
    """The least multiple of ``size`` that is not below n."""
    return -(-n // size) * size


def padded_rows(array: Shaped[np.ndarray, "rows ..."], n_rows: int) -> Shaped[np.ndarray, "more_rows ..."]:
    """The array with zeros behind its rows, ``n_rows`` in all; itself if it has as many."""
    if len(array) == n_rows:
        return array
    padded = np.zeros((n_rows, *array.shape[1:]), array.dtype)  # np.pad takes ten times as long for few
    padded[: len(array)] = array
    return padded
