"""Counting what is compiled."""

import logging
import re
from contextlib import contextmanager

import jax


@contextmanager
def compilations():
    """A list that fills with the names of the programs that are compiled inside the block."""
    names: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record):
            found = re.match(r"Finished XLA compilation of (\S+)", record.getMessage())
            if found:
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
