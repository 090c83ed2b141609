"""The three algorithms of transduction, which give the same counts, and the choice between them."""

import jax

from jaxunc._checks import check_one_of

from ._dense import dense_work, descend_dense
from ._grouped import KeptNodes, descend_grouped
from ._nodes import descend_nodes, table_bytes
from ._pairs import Pairs

ALGORITHMS = ("auto", "grouped", "nodes", "dense")

MOST_WORK = {"host": 2**30, "accelerator": 2**40}
"""Products of the dense algorithm's first step, beyond which shared samples cost less than rows of their own."""

LEAST_PAIRS = 2**24
"""Pairs times instances, below which programs for an accelerator are hardly worth compiling."""

MOST_BYTES = 2**30
"""Largest size of the whole training set's table on an accelerator, in bytes."""


def check_algorithm(algorithm: str) -> None:
    """Raise a ValueError unless the algorithm has a name that is known."""
    check_one_of("algorithm", algorithm, ALGORITHMS)


def descend(pairs: Pairs, algorithm: str, kept: KeptNodes | None = None) -> None:
    """Follow all pairs down to their leaves; the grouped algorithm takes nodes that were kept, and keeps further ones.

    Raises
    ------
    ValueError
        If the algorithm is dense, and a feature is numeric.
    """
    place = "host" if jax.default_backend() == "cpu" else "accelerator"
    if algorithm == "auto":
        algorithm = chosen_algorithm(pairs, place)
    if algorithm == "dense":
        if len(pairs.sample.numeric):
            raise ValueError(
                f"algorithm='dense' is for nominal features alone, and {len(pairs.sample.numeric)} of "
                f"{pairs.sample.columns.number} are numeric; pass algorithm='auto', or name all of them in nominal."
            )
        descend_dense(pairs, on_host=place == "host")
    elif algorithm == "nodes":
        descend_nodes(pairs)
    else:
        descend_grouped(pairs, kept)


def chosen_algorithm(pairs: Pairs, place: str) -> str:
    """Return the form that ``"auto"`` stands for, on the host or on an accelerator."""
    if 0 < dense_work(pairs) <= MOST_WORK[place]:
        return "dense"
    is_worth = pairs.n * pairs.sample.n >= LEAST_PAIRS and table_bytes(pairs) <= MOST_BYTES
    return "nodes" if place == "accelerator" and is_worth else "grouped"
