"""Tests of intervals and sets of categories on their way out: ONNX Runtime, treelite, and back in."""

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.ensembles import TreeEnsemble
from jaxunc.interop import from_onnx, from_treelite, to_onnx, to_treelite

from ._random_sets import KINDS, random_sets, rows_of

pytestmark = pytest.mark.once
ROWS, CLOSE = 400, 1e-6


def check_onnx(model, X, given):
    """Check that a file loads and answers in ONNX Runtime, and comes back with the same leaves."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    written = to_onnx(model)
    onnx.checker.check_model(written, full_check=True)
    session = runtime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    (raw,) = session.run(["raw"], {"X": X})
    np.testing.assert_allclose(raw, model.raw(given), rtol=CLOSE, atol=CLOSE)
    back = from_onnx(written)
    again = from_onnx(to_onnx(back))
    leaves = np.asarray(model.leaf_values(given))
    for one in (back, again):
        np.testing.assert_array_equal(one.leaf_values(X), leaves)
        np.testing.assert_array_equal(one.raw(X), model.raw(given))


def check_treelite(model, X, given):
    """Check that treelite's own inference answers the same, and that a model comes back with the same leaves."""
    pytest.importorskip("treelite", minversion="4.8")
    from treelite import gtil

    made = to_treelite(model)
    expected = np.asarray(model.predict(given)).reshape(len(X), -1)
    if expected.shape[1] == 2 and model.n_outputs == 1:
        expected = expected[:, 1:]
    found = gtil.predict(made, X.astype(np.float64)).reshape(len(X), -1)
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)
    back = from_treelite(made)
    assert isinstance(back, TreeEnsemble)
    again = from_treelite(to_treelite(back))
    leaves = np.asarray(model.leaf_values(given))
    for one in (back, again):
        np.testing.assert_array_equal(one.leaf_values(X.astype(np.float64)), leaves)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.exhaustive(keep=12)
def test_random_sets(kind, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    model = random_sets(rng, kind)
    X, given = rows_of(rng, model, ROWS)
    check_onnx(model, X, given)
    check_treelite(model, X, given)
