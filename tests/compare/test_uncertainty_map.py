"""The map of two uncertainties: values, edges, precision, transformations and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc.compare import uncertainty_map
from tests._refusal import refusals

N = 12


def test_map_of_the_definition_and_of_one_instance(rng):
    values, correct = rng.integers(-1, 11, size=(2, 36)) / 8, rng.random(36) < 0.5
    values = values.astype(np.float32)
    drawn = uncertainty_map(*values, correct, n_bins=4, upper=(1.0, 0.5))
    edges = (np.arange(5) / 4, np.arange(5) / 8)
    inside = [np.clip(v, e[0], e[-1]) for v, e in zip(values, edges, strict=True)]
    np.testing.assert_array_equal(drawn.size, np.histogram2d(*inside, bins=edges)[0])
    wrong = [v[~correct] for v in inside]
    np.testing.assert_array_equal(drawn.errors, np.histogram2d(*wrong, bins=edges)[0])
    np.testing.assert_array_equal(drawn.aleatoric_edges, edges[0])
    np.testing.assert_array_equal(drawn.epistemic_edges, edges[1])
    assert drawn.size.dtype == drawn.errors.dtype == np.int32

    folds = [uncertainty_map(*values[:, i::2], correct[i::2], n_bins=4, upper=(1.0, 0.5)) for i in (0, 1)]
    np.testing.assert_array_equal(folds[0].size + folds[1].size, drawn.size)
    np.testing.assert_array_equal(folds[0].errors + folds[1].errors, drawn.errors)
    drawn = uncertainty_map(np.float32([7]), np.float32([-1e-9]), np.array([0]), n_bins=2)
    np.testing.assert_array_equal(drawn.size, [[0, 0], [1, 0]])
    np.testing.assert_array_equal(drawn.errors, drawn.size)


@pytest.mark.exhaustive
def test_transformations(x64):
    certainty, correct = np.arange(2 * N).reshape(2, N) % 5 / 4, np.arange(2 * N).reshape(2, N) % 3 > 0
    draw = lambda s, c: uncertainty_map(s, 1 - s, c, n_bins=3)
    together = jax.jit(jax.vmap(draw))(jnp.asarray(certainty), jnp.asarray(correct))
    for i in range(2):
        alone = draw(jnp.asarray(certainty[i]), correct[i])
        for a, b in zip(alone, together, strict=True):
            assert a.dtype == b.dtype == (np.int32 if a.ndim == 2 else np.float64 if x64 else np.float32)
            np.testing.assert_allclose(a, b[i], rtol=1e-6)


def test_what_is_unknown_in_a_trace_is_left_out_and_strict_promotion():
    values, correct = jnp.arange(float(N)), jnp.arange(N) % 2
    draw = jax.jit(lambda v, c: uncertainty_map(v, v, c, n_bins=3))
    assert np.sum(draw(values, correct).size) == N
    for broken in (draw(values.at[3].set(jnp.nan), correct), draw(values, correct.at[3].set(2))):
        assert np.sum(broken.size) == N - 1
    values, y = jnp.ones(N), jnp.ones(N, jnp.int32)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        assert jax.eval_shape(uncertainty_map, values, values, y).size.shape == (20, 20)


V, CORRECT = np.arange(4.0), np.array([0, 1, 0, 1])


def draw(aleatoric=V, epistemic=V, correct=CORRECT, **options):
    return lambda: uncertainty_map(aleatoric, epistemic, correct, **options)


test_refusals = refusals(
    ("NaN", draw(V * np.nan), "aleatoric holds NaN"),
    ("epistemic NaN", draw(V, V * np.nan), "epistemic holds NaN"),
    ("classes", draw(np.zeros((4, 2))), r"aleatoric has shape \(4, 2\).*summed over the classes"),
    ("epistemic of classes", draw(V, np.zeros((4, 2))), r"epistemic has shape \(4, 2\).*summed over the classes"),
    ("lengths", draw(V, V[:3]), r"epistemic has shape \(3,\) and aleatoric \(4,\)"),
    ("length of correct", draw(correct=CORRECT[:3]), r"correct has shape \(3,\)"),
    ("correct", draw(correct=2 * CORRECT), "correct holds 2"),
    ("no rows", draw(V[:0], V[:0], CORRECT[:0]), "correct is empty"),
    ("floats", draw(correct=CORRECT.astype(float)), "correct has dtype float", TypeError),
    ("no bins", draw(n_bins=0), "n_bins=0 must be at least 1"),
    ("half a bin", draw(n_bins=2.5), "integer", TypeError),
    *(
        (f"upper {upper}", draw(upper=upper), "upper.*two positive numbers")
        for upper in ((1.0, 0.0), (np.inf, 1.0), (np.nan, 1.0), (1.0,))
    ),
)
