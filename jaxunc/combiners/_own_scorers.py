"""Scorers of a user's own: their scores must lie where their width says, or probabilities would be cut in silence."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Num

from jaxunc._checks import is_concrete
from jaxunc.scorers import score_bound

if TYPE_CHECKING:
    from ._combiner import Combiner


def check_own_scorers(rule: "Combiner", counts: Num[Array, "... classes"]) -> None:
    """Refuse a rule whose scorer, a user's own, gives these leaves scores beyond its width; traced ones pass."""
    scorers = list(_own_scorers(rule))
    if not scorers or not is_concrete(scorers, counts):
        return
    for scorer in scorers:
        scores, bound = np.asarray(scorer(counts)), score_bound(scorer, counts.shape[-1])
        if scores.shape not in (counts.shape, counts.shape[:-1]):  # lifting says what is wrong
            continue
        if scores.size and np.abs(scores).max(initial=0, where=~np.isnan(scores)) > bound * (1 + 1e-4):
            place = np.unravel_index(np.nanargmax(np.abs(scores)), scores.shape)
            raise ValueError(
                f"the scorer {getattr(scorer.func, '__name__', 'of the rule')} gives the leaf "
                f"{np.asarray(counts)[place[: counts.ndim - 1]].tolist()} the score {scores[place]:.6g}; scores up to "
                f"±{bound:.6g} read as probabilities. Declare how far they reach, @jaxunc.scorers.scorer(width=…): inf "
                "for scores without a bound, which have no probability."
            )


def _own_scorers(rule: Any) -> Iterator[Partial]:
    """The scorers that see the counts as they are: those of each class against the others see counts of two."""
    from ._one_vs_rest import OneVsRest  # which is a rule itself

    if isinstance(rule, OneVsRest):
        return
    is_part = lambda part: part is not rule and hasattr(part, "lift")  # noqa: E731
    scorer = vars(rule).get("scorer")
    if isinstance(scorer, Partial) and not _module(scorer).startswith("jaxunc."):
        yield scorer
    for part in jax.tree.leaves(vars(rule), is_leaf=is_part):
        if is_part(part):
            yield from _own_scorers(part)


def _module(function: Any) -> str:
    while hasattr(function, "func"):
        function = function.func
    return getattr(function, "__module__", None) or ""
