"""Order keys: integers that compare as the floats do."""

import jax
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from jaxunc._numerics import NAN_FIRST, NAN_LAST, order_key, order_key_at_or_below
from tests import _forests

keys_of = jax.jit(order_key)
SPECIAL = np.array(
    [-np.inf, -3.4e38, -1.0, -1.2e-38, -1e-40, -1e-45, -0.0, 0.0, 1e-45, 1e-40, 1.2e-38, 1.0, 3.4e38, np.inf],
    np.float32,
)


def test_special_values_keep_their_order():
    keys = np.asarray(keys_of(SPECIAL))
    np.testing.assert_array_equal(keys, _forests.order_key(SPECIAL))
    np.testing.assert_array_equal(np.sign(np.diff(keys.astype(np.int64))), np.sign(np.diff(SPECIAL.astype(np.float64))))
    assert keys[6] == keys[7] == 0
    assert keys.min() > NAN_FIRST
    assert keys.max() < NAN_LAST


def test_all_exponents(rng):
    """A million random bit patterns, sorted."""
    bits = rng.integers(-(2**31), 2**31, 1_000_000).astype(np.int32)
    values = bits.view(np.float32)
    values = np.sort(values[~np.isnan(values)])
    keys = np.asarray(keys_of(values)).astype(np.int64)
    np.testing.assert_array_equal(keys, _forests.order_key(values))
    np.testing.assert_array_equal(np.diff(keys) > 0, np.diff(values.astype(np.float64)) > 0)


def test_thresholds_round_down():
    """``float64(x) <= t`` is ``key(x) <= key(t)`` for the floats around any float64 threshold."""
    largest = float(np.finfo(np.float32).max)
    far = [np.inf, -np.inf, 1e300, -1e300, 5e-324, -5e-324]

    @given(st.lists(st.floats(allow_nan=False), min_size=64, max_size=64))
    @example([0.0, largest, -largest, -largest * (1 - 1e-9), *far, *[largest * (1 - 1e-9)] * 54])
    def check(thresholds):
        thresholds = np.array(thresholds)
        keys = order_key_at_or_below(thresholds)
        assert keys.dtype == np.int32
        assert keys.max() < NAN_LAST, "a missing value is beyond an infinite threshold"
        with np.errstate(over="ignore"):
            x = thresholds.astype(np.float32)
            near = np.stack([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
        np.testing.assert_array_equal(np.asarray(keys_of(near)) <= keys, near.astype(np.float64) <= thresholds)

    check()
