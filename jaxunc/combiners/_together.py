"""Several rules over one routing."""

from collections.abc import Mapping
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jaxunc._checks import is_concrete
from jaxunc._numerics import float_dtype, log_average, log_softmax
from jaxunc._types import PyTree

from ._answer import Answer, margin
from ._combiner import Combiner, columns_of, learned_field

EachT = TypeVar("EachT")
"""What the rules answer, each."""


class Together(Combiner[dict[str, EachT]]):
    """Several rules at once: their planes side by side, each with its own merge, routed once.

    ``Together(mean=Mean(), eva=EvidenceAccumulation(prior))`` answers with a dictionary of what each rule answers.
    Raises a ValueError without rules, a TypeError for anything that is not a `Combiner`.

    Parameters
    ----------
    **rules
        Rules by the name that each answers under.
    """

    rules: dict[str, Combiner[EachT]]

    def __init__(self, **rules: Combiner[EachT]):
        if not rules:
            raise ValueError("Together needs at least one rule, by name: Together(mean=Mean()).")
        for name, rule in rules.items():
            if not isinstance(rule, Combiner):
                raise TypeError(f"{name}={rule!r} is no Combiner; Together combines rules that stream, such as Mean().")
        self.rules = rules

    @property
    def merge(self) -> PyTree:
        """The merges of the rules, by name."""
        return {name: rule.merge for name, rule in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
        """Lift every rule, each from the counts that it reads."""
        return {
            name: rule.lift(columns_of(counts, self.count_sets, rule.count_sets)) for name, rule in self.rules.items()
        }

    def finish(self, stat: PyTree) -> dict[str, EachT]:
        """Return the answer of every rule, by its name."""
        return {name: rule.finish(stat[name]) for name, rule in self.rules.items()}


# The average of several rules' probabilities.


class Stack(Combiner[Answer]):
    r"""Several rules over one routing, their probabilities averaged.

    .. math:: P(c) = \sum_i v_i P_i(c)

    Where rows do not tell which of two rules is better, an average of both loses little against the better one. Its log
    loss is at most log 1/v_i above that of rule i in any row, and often below both.

    Parameters
    ----------
    rules
        Rules with probabilities: by name, or a sequence, where names are their places (``"0"``, ``"1"``, …). Each reads
        its own of the leaves' counts (`Combiner.count_sets`).
    weights
        v, adding to 1, one number per rule ``[rules]`` in their order. Default: all alike.

    Raises
    ------
    TypeError
        If something is no `Combiner`, or ``rules`` are neither by name nor a sequence.
    ValueError
        Without rules, if the weights are no probabilities or of another number or, when called, a rule has no
        probabilities.

    Notes
    -----
    Class scores: log P, which do not saturate; score: their difference. A rule that is undefined (no tree) makes the
    whole undefined. Gradient: smooth in the weights (0 included) and in the numbers of the rules.

    References
    ----------
    A linear opinion pool (Stone 1961); of weights learned from rows that rules have not seen, stacking (Wolpert 1992).
    """

    rules: dict[str, Combiner]
    weights: Float[Array, "rules"] = learned_field("simplex")

    def __init__(self, rules: Any, weights: Any = None):
        if isinstance(rules, list | tuple):
            digits = len(str(len(rules) - 1))  # so that names are sorted as the rules are
            rules = {f"{place:0{digits}}": rule for place, rule in enumerate(rules)}
        if not isinstance(rules, Mapping) or not all(isinstance(name, str) for name in rules):
            raise TypeError(f"rules={rules!r:.80} are not rules by name; pass a dictionary or a list of rules.")
        if not rules:
            raise ValueError("rules is empty; pass some by name: Stack({'mean': Mean(), 'vote': Vote()}).")
        for name, rule in rules.items():
            if not isinstance(rule, Combiner):
                raise TypeError(
                    f"rules[{name!r}]={rule!r} is no Combiner; pass rules with probabilities, such as Mean()."
                )
        weights = np.full(len(rules), 1 / len(rules)) if weights is None else weights
        if np.shape(weights) != (len(rules),):
            raise ValueError(f"weights has shape {np.shape(weights)}; pass one number for each of {len(rules)} rules.")
        # Pytrees keep dictionaries sorted by name: so do weights.
        order = sorted(range(len(rules)), key=list(rules).__getitem__)
        self.rules = {name: rules[name] for name in sorted(rules)}
        self.weights = jnp.asarray(weights, float_dtype(weights))[jnp.array(order)]
        if is_concrete(weights):
            values = np.asarray(weights, float)
            if not (np.all(values >= 0) and abs(values.sum() - 1) < 1e-4):
                raise ValueError(f"weights={values.tolist()} must be at least 0 and add to 1.")

    @property
    def merge(self) -> PyTree:
        """The merges of the rules, by name."""
        return {name: rule.merge for name, rule in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> PyTree:
        """Lift every rule, each from the counts that it reads."""
        return {
            name: rule.lift(columns_of(counts, self.count_sets, rule.count_sets)) for name, rule in self.rules.items()
        }

    def finish(self, stat: PyTree) -> Answer:
        """Average the rules' answers."""
        logs = []
        for name, rule in self.rules.items():
            answer = rule.finish(stat[name])
            if not isinstance(answer, Answer) or answer.log_probability is None:
                raise ValueError(f"rules[{name!r}] ({type(rule).__name__}) has no probabilities to average.")
            logs.append(answer.log_probability)
        stacked = jnp.stack(logs, axis=-1)
        # Averaged as logarithms, so that probabilities below the smallest float count, too.
        log_share = log_average(stacked, self.weights.astype(stacked.dtype))
        log_share = log_softmax(log_share)  # which adds to 1 but for rounding
        score = margin(log_share) if log_share.shape[-1] == 2 else None
        return Answer(log_share, score, jnp.exp(log_share), log_share)


# Checks of what is handed in where a rule belongs, with messages that say what to pass instead.


def as_rule(given: Any, name: str = "combiner") -> Combiner:
    """Return a rule as it is, and several by name as the one rule of them all; raises as `check_is_rule` does."""
    if isinstance(given, Mapping):
        for key, rule in given.items():
            if not isinstance(key, str):
                raise TypeError(f"{name} has the key {key!r:.60}; name rules by strings: {{'mean': jaxunc.Mean()}}.")
            check_is_rule(rule, f"{name}[{key!r}]")
        return Together(**given)
    check_is_rule(given, name)
    return given


def check_is_rule(given: Any, name: str = "combiner") -> None:
    """Raise a TypeError that says what to pass unless it is a rule."""
    if isinstance(given, Combiner):
        return
    if isinstance(given, type) and issubclass(given, Combiner):
        raise TypeError(
            f"{name} is the class {given.__name__}; pass a rule that streams (a Combiner): {given.__name__}()."
        )
    if isinstance(getattr(given, "combiner", None), Combiner):
        raise TypeError(f"{name} is a {type(given).__name__}; pass the rule that it holds, its .combiner.")
    by_name = "; by a name there is jaxunc.combiners.rule_by_name" if isinstance(given, str) else ""
    raise TypeError(f"{name} is {given!r}; pass a rule that streams (a Combiner), such as jaxunc.Mean(){by_name}.")
