"""The average of several combiners over one forest, whose leaves are looked up once."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jaxunc._checks import is_concrete
from jaxunc._numerics import copy_in, float_dtype, log_average, log_softmax
from jaxunc._types import PyTree

from ._answer import Answer, margin
from ._combiner import Combiner
from ._fields import learned_field
from ._together import lift_each


class Stack(Combiner[Answer]):
    r"""The average of several combiners' probabilities.

    .. math:: P(c) = \sum_i v_i P_i(c)

    Where rows do not tell which of two combiners is better, an average of both loses little against the better one. Its
    log loss is at most log 1/v_i above that of combiner i in any row, and often below both.

    Parameters
    ----------
    rules
        Combiners with probabilities: by name, or a sequence, where names are positions (``"0"``, ``"1"``, …). Each
        reads its own of the leaves' counts (`Combiner.count_sets`).
    weights
        v, adding to 1, one number per combiner ``[rules]`` in their order. Default: all alike.

    Raises
    ------
    TypeError
        If something is no `Combiner`, or ``rules`` are neither by name nor a sequence.
    ValueError
        Without combiners, if the weights are no probabilities or of another number or, when called, if a combiner has
        no probabilities.

    Notes
    -----
    Class scores: log P, which do not saturate; score: their difference. A combiner that is undefined (no tree) makes
    the whole undefined. Gradient: smooth in the weights (0 included) and in the numbers of the combiners.

    References
    ----------
    A linear opinion pool (Stone 1961); of weights learned from rows that no combiner has seen, stacking (Wolpert 1992).
    """

    rules: dict[str, Combiner]
    weights: Float[Array, "rules"] = learned_field("simplex")

    def __init__(self, rules: Any, weights: Any = None):
        if isinstance(rules, list | tuple):
            digits = len(str(len(rules) - 1))  # so that names are sorted as the combiners are
            rules = {f"{index:0{digits}}": part for index, part in enumerate(rules)}
        if not isinstance(rules, Mapping) or not all(isinstance(name, str) for name in rules):
            raise TypeError(f"rules={rules!r:.80} are no combiners by name; pass a dictionary or a list of them.")
        if not rules:
            raise ValueError("rules is empty; pass combiners by name: Stack({'mean': Mean(), 'vote': Vote()}).")
        for name, part in rules.items():
            if not isinstance(part, Combiner):
                raise TypeError(f"rules[{name!r}]={part!r} is no Combiner; pass some with probabilities, as Mean().")
        weights = np.full(len(rules), 1 / len(rules)) if weights is None else weights
        if np.shape(weights) != (len(rules),):
            raise ValueError(
                f"weights has shape {np.shape(weights)}; pass one number for each of {len(rules)} combiners."
            )
        # Pytrees keep dictionaries sorted by name: so do weights.
        order = sorted(range(len(rules)), key=list(rules).__getitem__)
        self.rules = {name: rules[name] for name in sorted(rules)}
        self.weights = copy_in(weights, float_dtype(weights))[jnp.array(order)]
        if is_concrete(weights):
            values = np.asarray(weights, float)
            if not (np.all(values >= 0) and abs(values.sum() - 1) < 1e-4):
                raise ValueError(f"weights={values.tolist()} must be at least 0 and add to 1.")

    @property
    def merge(self) -> PyTree:
        """The merges of the combiners, by name."""
        return {name: part.merge for name, part in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> PyTree:
        """Lift every combiner, each from the counts that it reads."""
        return lift_each(self, counts)

    def finish(self, stat: PyTree) -> Answer:
        """Average the combiners' answers."""
        logs = []
        for name, part in self.rules.items():
            answer = part.finish(stat[name])
            if not isinstance(answer, Answer) or answer.log_probability is None:
                raise ValueError(f"rules[{name!r}] ({type(part).__name__}) has no probabilities to average.")
            logs.append(answer.log_probability)
        stacked = jnp.stack(logs, axis=-1)
        # Averaged as logarithms, so that probabilities below the smallest float count, too.
        log_share = log_average(stacked, self.weights.astype(stacked.dtype))
        log_share = log_softmax(log_share)  # which adds to 1 but for rounding
        score = margin(log_share) if log_share.shape[-1] == 2 else None
        return Answer(log_share, score, jnp.exp(log_share), log_share)
