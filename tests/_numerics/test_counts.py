"""Counts in a type that holds them, and distinct rows: what `numpy.unique` finds."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc._numerics import as_counts, distinct_rows
from jaxunc.scorers import dominance, idm_interval
from jaxunc.smoothing import BetaPrior, smooth
from tests._refusal import refuses

HUGE = np.array([[5 * 10**9, 10**9], [2**33, 2**33]])


@pytest.mark.parametrize("counts", [HUGE, HUGE.astype(np.uint64), HUGE.tolist()], ids=["int64", "uint64", "list"])
def test_what_does_not_fit_becomes_floats(counts, x64):
    kept = as_counts(counts)
    assert jnp.issubdtype(kept.dtype, jnp.integer) == x64
    np.testing.assert_allclose(np.asarray(kept, float), HUGE, rtol=1e-7)


def test_what_fits_stays_whole():
    for counts in ([[2**31 - 1, 0]], np.array([[2**31 - 1, 0]]), np.zeros((0, 2), int), np.array([[7]], np.uint8)):
        assert jnp.issubdtype(as_counts(counts).dtype, jnp.integer)
        np.testing.assert_array_equal(as_counts(counts), counts)
    assert as_counts(np.array([[2**32 - 1, 0]], np.uint32)).dtype == jnp.uint32


def test_in_a_trace_the_type_is_kept():
    for dtype in (jnp.int32, jnp.uint8, jnp.float32):
        assert jax.eval_shape(as_counts, jax.ShapeDtypeStruct((3, 2), dtype)).dtype == dtype
    assert jax.eval_shape(as_counts, jax.ShapeDtypeStruct((3, 2), jnp.float16)).dtype == jnp.float32
    assert jax.eval_shape(lambda c: as_counts([[c, 1.0]]), jnp.ones(())).shape == (1, 2)


@pytest.mark.once
@pytest.mark.parametrize(
    "function",
    [
        lambda counts: idm_interval(counts, 1).lower,
        lambda counts: dominance(counts, 1),
        lambda counts: smooth(counts, BetaPrior(1.0, 1.0, 0)),
    ],
    ids=["idm_interval", "dominance", "smooth"],
)
def test_functions_of_counts_take_them_whole(function):
    np.testing.assert_array_equal(function(HUGE), function(HUGE.astype(float)))


@pytest.mark.once
def test_negative_counts_are_refused_before_they_wrap():
    refuses(ValueError, "negative", idm_interval, np.array([[-(2**32), 1]]), 1)
    refuses(ValueError, "negative", ju.Pooling(), np.array([[-(2**32), 1]]))


@pytest.mark.parametrize("largest", [1, 40, 5000, 2**22, 10**9])
@pytest.mark.parametrize("n", [1, 16, 3000])
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_as_numpy_finds_them(n, largest, fraction):
    rows = np.random.default_rng(n).integers(0, largest, (n, 2)) + fraction
    distinct, place = distinct_rows(rows)
    np.testing.assert_array_equal(distinct, np.unique(rows, axis=0))
    np.testing.assert_array_equal(distinct[place], rows)


def test_few_rows_of_large_counts_make_no_large_table():
    """As the leaves of a shallow tree: a table of all pairs of counts has 16 MB."""
    rows = np.random.default_rng(0).integers(0, 2000, (16, 2)).astype(float)
    tracemalloc.start()
    try:
        distinct_rows(rows)
        assert tracemalloc.get_traced_memory()[1] < 2**16
    finally:
        tracemalloc.stop()
