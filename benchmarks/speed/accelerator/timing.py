"""The first call, which compiles, and later ones."""

from collections.abc import Callable, Iterator

import jax
import numpy as np

from .. import measure
from ..measure import interleaved, ratio, summary

Case = tuple[dict, Callable[[], dict]]
"""What is measured, in words and numbers; and the measurement, which may fail."""
Cases = Iterator[Case]

WALK = "levels"
"""The form for accelerators, whatever the backend."""


def repeats(quick: bool) -> int:
    """Return the number of rounds."""
    return 2 if quick else 5


def timed(call: Callable[[], object], rounds: int) -> dict:
    """Return the times of the first call and of later ones."""
    first = measure.timed(call)[0]
    return {"first_call_s": first, **summary(interleaved({"it": call}, rounds)["it"])}


def timed_against(call: Callable[[], object], reference: Callable[[], object], rounds: int, name: str) -> dict:
    """Return the same, and the ratio to a reference, round by round, under its name."""
    first = measure.timed(call)[0]
    times = interleaved({"it": call, "reference": reference}, rounds)
    return {"first_call_s": first, **summary(times["it"]), f"ratio_to_{name}": ratio(times["it"], times["reference"])}


def from_host(function: Callable, rows: jax.Array) -> Callable[[], object]:
    """Return a call that answers rows of the host and fetches the answers."""
    values = np.asarray(rows)
    return lambda: jax.tree.map(np.asarray, function(values))
