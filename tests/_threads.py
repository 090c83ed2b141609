"""Threads that ask the same model at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import jax
import numpy as np


def agree_at_once(ask: Callable[[Any], Any], batches: Sequence[Any]) -> None:
    """Have a thread for each batch ask, all of them beginning together; the answers are those of a batch alone."""
    start = Barrier(len(batches))

    def wait_and_ask(batch: Any) -> Any:
        start.wait(60)
        return ask(batch)

    with ThreadPoolExecutor(len(batches)) as pool:
        answers = list(pool.map(wait_and_ask, batches))
    for answer, batch in zip(answers, batches, strict=True):
        jax.tree.map(np.testing.assert_array_equal, answer, ask(batch))
