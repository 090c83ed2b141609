"""Distinct rows: what `numpy.unique` finds, by whichever way is the faster."""

import time

import numpy as np
import pytest

from jaxunc._numerics import distinct_rows


@pytest.mark.parametrize("largest", [1, 40, 5000, 2**22, 10**9])
@pytest.mark.parametrize("n", [1, 16, 3000])
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_as_numpy_finds_them(n, largest, fraction):
    rows = np.random.default_rng(n).integers(0, largest, (n, 2)) + fraction
    distinct, place = distinct_rows(rows)
    np.testing.assert_array_equal(distinct, np.unique(rows, axis=0))
    np.testing.assert_array_equal(distinct[place], rows)


def test_few_rows_of_large_counts_make_no_large_table():
    """As the leaves of a shallow tree: a table of all pairs of counts took 3 ms a tree."""
    rows = np.random.default_rng(0).integers(0, 2000, (16, 2)).astype(float)
    start = time.process_time()
    for _ in range(100):
        distinct_rows(rows)
    assert time.process_time() - start < 0.1
