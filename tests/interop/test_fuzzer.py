"""A sample of the fuzzer of importers: the same models in every run, and others that a printed seed chooses.

JAXUNC_TEST_SEED sets the seed; `tests.importers` says how one model is made again, and how more are tried.
"""

import os
import time

import pytest

from tests.importers import _run

pytestmark = pytest.mark.once
SEED = int(os.environ.get("JAXUNC_TEST_SEED", time.time_ns() % 10**9))
FIXED, DRAWN = 25, 15


@pytest.mark.parametrize("library", _run.installed())
def test_models_are_answered_as_their_library_does(library, record_property):
    record_property("JAXUNC_TEST_SEED", SEED)
    print(f"JAXUNC_TEST_SEED={SEED}")  # which pytest shows where this fails
    counts = [_run.counts_of(library, 1, 1 + FIXED), _run.counts_of(library, SEED, SEED + DRAWN)]
    faults = [fault for one in counts for fault in one["faults"]]
    assert not faults, "\n".join([f"JAXUNC_TEST_SEED={SEED}", *faults])
    # Doors that may not close, of the same models in every run.
    models = counts[0]["models"]
    tried = FIXED - models.get("not made", 0)
    answered, floor = models.get("answered", 0), _run.maker(library).FLOOR
    assert answered >= floor * tried, f"{answered} of {tried} models of {library} are answered: {counts[0]['refused']}"
