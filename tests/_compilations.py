"""Counting what is compiled."""

import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass

import jax

MOST_PROGRAMS, MOST_WITH_ROOMS = 5200, 7600
"""Programs that the suite compiles in float32 by two workers, at most. CONTRIBUTING says so, too."""


@dataclass
class Programs:
    """The programs that this process has compiled."""

    total: int = 0


def count_programs() -> Programs:
    """Programs that are counted from now on."""
    programs = Programs()

    def listen(event: str, seconds: float, **_):
        programs.total += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(listen)
    return programs


@contextmanager
def compilations(*, joining: bool = False):
    """A list that fills with the names of the programs that are compiled inside the block.

    What joins parts, after many calls with as many rows, is left out unless it is asked for by ``joining``.
    """
    from jaxunc.inference import _drive  # not before conftest's import hook

    for counts in (_drive._CALLS, _drive._FREQUENT):  # no number of instances is frequent because of the tests before
        counts.clear()
    names: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record):
            found = re.match(r"Finished XLA compilation of (\S+)", record.getMessage())
            if found and (joining or found[1] != "jit(_join_on_device)"):
                names.append(found[1])

    logger, handler = logging.getLogger("jax"), Collect()
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with jax.log_compiles():
            yield names
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
