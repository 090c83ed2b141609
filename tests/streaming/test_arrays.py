"""Arrow's arrays are made of buffers, and hold what NumPy's do."""

import numpy as np
import pytest

from jaxunc.streaming import arrow_numbers

pytestmark = pytest.mark.once


@pytest.mark.parametrize("dtype", [bool, np.int32, np.int64, np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("n", [0, 1, 8, 23])
def test_numbers_and_bools(dtype, n, rng):
    values = rng.integers(0, 2, size=2 * n).astype(dtype)
    for given in (values, values[::2]):
        assert arrow_numbers(given).to_pylist() == given.tolist()
