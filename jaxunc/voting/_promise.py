"""What a criterion promises: a confidence for each instance, or a share of all of them."""

from typing import get_args

from jaxunc._checks import check_confidence, check_one_of

from ._leader import Criterion
from ._optimal_votes import DISAGREEMENT, check_disagreement

CONFIDENCE = 0.99
"""The confidence where none is given."""


def checked_promise(criterion: Criterion, confidence: float | None, disagreement: float | None) -> float:
    """Return the disagreement that criterion "optimal" promises, or the confidence of the others.

    Raises a TypeError or a ValueError for what is no such number, or belongs to another criterion.
    """
    check_one_of("criterion", criterion, get_args(Criterion))
    if criterion == "optimal":
        if confidence is not None:
            raise ValueError(
                f"confidence={confidence!r} is a promise for each instance, but criterion='optimal' makes one for the "
                "mean of all: pass disagreement=0.01 for one in a hundred, or choose criterion='bound'."
            )
        disagreement = DISAGREEMENT if disagreement is None else disagreement
        check_disagreement(disagreement)
        return float(disagreement)
    if disagreement is not None:
        raise ValueError(
            f"disagreement={disagreement!r} is what criterion='optimal' promises for the mean of all instances; "
            f"criterion={criterion!r} makes a promise for each: pass a confidence, or choose criterion='optimal'."
        )
    confidence = CONFIDENCE if confidence is None else confidence
    check_confidence(confidence)
    return float(confidence)
