"""Sizes of programs, and arrays padded to them."""

import numpy as np
import pytest

from jaxunc._numerics import ceil_div, cores, multiple_of, padded_rows, power_of_two

pytestmark = pytest.mark.once


def test_sizes():
    assert [power_of_two(n) for n in (0, 1, 2, 3, 4, 5, 1000)] == [1, 1, 2, 4, 4, 8, 1024]
    assert [power_of_two(n, 64) for n in (0, 64, 65)] == [64, 64, 128]
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [multiple_of(4, n) for n in (0, 1, 4, 5)] == [0, 4, 4, 8]
    assert cores() >= 1


def test_padding_is_zeros_behind():
    rows = np.arange(6, dtype=np.int16).reshape(3, 2)
    padded = padded_rows(rows, 5)
    assert padded.dtype == np.int16
    np.testing.assert_array_equal(padded, np.pad(rows, ((0, 2), (0, 0))))
    assert padded_rows(rows, 3) is rows
