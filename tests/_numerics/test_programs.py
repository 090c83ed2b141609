"""Sizes of programs, arrays padded to them, and what is kept while arrays live."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import _numerics

pytestmark = pytest.mark.once


def test_sizes():
    assert [_numerics.power_of_two(n) for n in (0, 1, 2, 3, 4, 5, 1000)] == [1, 1, 2, 4, 4, 8, 1024]
    assert [_numerics.power_of_two(n, 64) for n in (0, 64, 65)] == [64, 64, 128]
    assert [_numerics.ceil_div(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [_numerics.multiple_of(4, n) for n in (0, 1, 4, 5)] == [0, 4, 4, 8]
    assert _numerics.cores() >= 1


def test_padding_is_zeros_behind():
    rows = np.arange(6, dtype=np.int16).reshape(3, 2)
    padded = _numerics.padded_rows(rows, 5)
    assert padded.dtype == np.int16
    np.testing.assert_array_equal(padded, np.pad(rows, ((0, 2), (0, 0))))
    assert _numerics.padded_rows(rows, 3) is rows


@pytest.mark.parametrize("number", [np.float32(0.25), 0.25, np.bool_(True)])
def test_results_are_kept_while_all_arrays_live(number):
    """Numbers beside them cannot be watched: nothing is kept of numbers alone."""
    kept, first, second, made = _numerics.KeptWhileAlive(), jnp.arange(3), jnp.arange(4), []
    for settings in ("a", "b", "a"):
        result = kept.get((first, second, number), settings, lambda: made.append(0) or len(made))
        assert result == "ab".index(settings) + 1
    assert len(made) == len(kept) == 2
    assert kept.get((number,), None, lambda: "made") == "made"
    del second
    gc.collect()
    assert len(kept) == 0
    kept.get((first,), "a", lambda: made.append(0))
    assert len(made) == 3


def test_the_newest_results_are_kept():
    kept, array, made = _numerics.KeptWhileAlive(most=2), jnp.arange(3), []
    watched = lambda: [call for call in [*weakref.finalize._registry] if call.peek() and call.peek()[0] is array]
    for settings in "abcbca":
        kept.get((array,), settings, lambda: made.append(0))
    assert len(made) == 4
    assert len(kept) == 2
    assert len(watched()) == 2
    del array
    gc.collect()
    assert len(kept) == 0


def test_the_platform_is_that_of_the_device_that_is_named(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert _numerics.default_platform() == "gpu"
    for device in ("cpu", jax.devices("cpu")[0]):
        with jax.default_device(device):
            assert _numerics.default_platform() == "cpu"


def test_what_is_copied_in_is_not_written_to():
    values = np.arange(256, dtype=np.float32)
    kept = _numerics.copy_in(values)
    values[:] = -1
    np.testing.assert_array_equal(kept, np.arange(256))
    assert _numerics.copy_in(kept) is kept
    assert _numerics.copy_in(0.5).weak_type
    assert _numerics.copy_in([1, 2]).dtype == jnp.asarray([1, 2]).dtype


def test_nothing_is_kept_of_what_may_be_written_to():
    kept, values = _numerics.KeptWhileAlive(), np.zeros(3)
    assert kept.get((values,), None, lambda: values.sum()) == 0
    values[:] = 1
    assert kept.get((values,), None, lambda: values.sum()) == 3
    assert not len(kept)
