"""A sample of the fuzzer of importers: the same models in every run, and others that JAXUNC_TEST_SEED chooses.

`tests.importers` says how one model is made again, and how more are tried. JAXUNC_TEST_MODELS sets how many of each
library this takes.
"""

import os

import pytest

from tests._exhaustive import SEED
from tests.importers import _run, _tables

pytestmark = pytest.mark.once
MODELS = int(os.environ.get("JAXUNC_TEST_MODELS", "5"))
LEAST = 10_000_000  # leaves of large models that are compared
FEW = 2  # models by which a small sample may lie below its library's floor


@pytest.mark.room
@pytest.mark.parametrize("library", _run.installed())
def test_models_are_answered_as_by_their_library(library):
    fixed, drawn = _run.counts_of(library, 0, MODELS), _run.counts_of(library, SEED + 10**6, SEED + 10**6 + MODELS // 2)
    faults = [*fixed["faults"], *drawn["faults"]]
    assert not faults, "\n".join([f"JAXUNC_TEST_SEED={SEED}", *faults])
    assert fixed["by program"], "leaf_index was not asked"
    # Doors that may not close, by models that are the same in every run.
    models, maker = fixed["models"], _run.maker(library)
    tried, answered = MODELS - models.get("not made", 0), models.get("answered", 0)
    assert answered >= maker.FLOOR * tried - FEW, f"{answered} of {tried} are answered; refused: {fixed['refused']}"
    closed = [way for way in maker.WAYS if way not in fixed["answered"]]
    assert MODELS < 60 or not closed, f"no model goes in by {closed}; refused: {fixed['refused']}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("library", [name for name in _run.installed() if name != "onnx"])
def test_leaves_of_large_models(library, monkeypatch):
    """Of 240 trees and 9000 rows each; those of ONNX are in `test_from_onnx`."""
    monkeypatch.setattr(_tables, "SIZE", _tables.LARGE)
    visits = 0
    for seed in range(SEED, SEED + 200):
        outcome = _run.try_seed(library, seed)
        assert not outcome.faults, f"{seed}: {outcome.faults}"
        visits += outcome.leaves.total()
        if visits >= LEAST:
            return
    pytest.fail(f"{visits} leaves were compared, of {LEAST}")
