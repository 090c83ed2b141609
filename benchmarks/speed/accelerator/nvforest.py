"""nvForest on the same forests, where it is installed."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

import jaxunc as ju

from .. import measure
from ..measure import on_device
from ..workloads import FULL, QUICK, WORKLOADS, fit, make_data
from .forests import make_rows
from .timing import WALK, Cases, repeats, timed_against


def nvforest(quick: bool) -> Cases:
    """Its layouts against the mean, rows and answers on the device."""
    import nvforest as peer  # not installed: the part's failure says so

    data = make_data(30, (QUICK if quick else FULL).training_size, 1)
    for shape, settings in (("depth 8", {"max_depth": 8}), ("grown out", {"max_depth": None})):
        model = fit(WORKLOADS["W2"], data, QUICK if quick else FULL, **settings)
        bound = ju.bind(ju.from_sklearn(model), ju.Mean(), walk=WALK)
        for n in (1000,) if quick else (1000, 100_000, 1_000_000):
            for layout in ("depth_first", "breadth_first", "layered"):
                load = partial(peer.load_from_sklearn, model, device="auto", layout=layout)
                yield {"trees": shape, "rows": n, "layout": layout}, partial(_against, load, bound, n, quick)


def _against(load: Callable, bound: ju.BoundForest, n: int, quick: bool) -> dict:
    engine, rows = load(), make_rows(n)
    values, wait = _values_for_it(rows)
    answer = lambda: wait(engine.predict_proba(values))
    first = measure.timed(answer)[0]
    ours = on_device(bound.probability, rows)
    found = timed_against(ours, answer, repeats(quick), "nvforest")
    theirs = np.asarray(jax.device_get(_on_host(answer())))
    difference = np.abs(theirs - np.asarray(bound.probability(rows))).max()
    return {"nvforest_first_call_s": first, **found, "max_abs_difference": float(difference)}


def _values_for_it(rows: jax.Array) -> tuple[object, Callable]:
    """Return the rows for it, on the device where CuPy is there, and what waits for its answers."""
    if jax.default_backend() == "cpu":
        return np.asarray(rows), lambda found: found
    import cupy

    def wait(found):
        cupy.cuda.Device().synchronize()
        return found

    return cupy.from_dlpack(rows), wait


def _on_host(found) -> np.ndarray:
    return found.get() if hasattr(found, "get") else np.asarray(found)
