"""Which bound model answers what: its own rule where that can, rules made for the rest, in few routings."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxunc.combiners import Answer, Combiner, Mean, Preference, Together, Uncertainty, UncertaintyDecomposition
from jaxunc.decisions import CautiousAnswer, CautiousReport
from jaxunc.estimators import TransductiveTreeClassifier
from jaxunc.estimators._counted_forest import CountedForest
from jaxunc.estimators._rule_classifier import RuleClassifier
from jaxunc.forest import Forest
from jaxunc.imprecise import Interval
from jaxunc.parallel import ShardedForest, shard
from jaxunc.routing import BoundForest, bind
from jaxunc.stopping import BoundVote, bind_vote
from jaxunc.tables import Columns

from ._inserted import Inserted, Likely

OUTPUTS = ("class", "probability", "score", "uncertainty", "interval", "set", "trees_polled")
"""What may be asked for."""

Kinds = dict[str | None, tuple[str, ...]]
"""The outputs that a rule's answer has; by the names of rules where they are several together."""


class Asked(NamedTuple):
    """A bound model, and which outputs are read from its answer."""

    bound: Any
    outputs: tuple[str, ...]
    part: str | None = None
    """The name of the rule whose answer it is, where the bound rule is several together."""
    prefix: str = ""
    """Of the names of columns."""


class Model(NamedTuple):
    """What is asked."""

    forest: Forest | None
    """With one kind of counts; None for transduction, which has none."""
    bind: Callable[[Combiner], Any] | None
    """Binds further rules to the forest, as the model is bound."""
    bound: BoundForest | ShardedForest | Inserted | None = None
    vote: BoundVote | None = None

    @property
    def rule(self) -> Combiner | None:
        """The model's own rule."""
        return _single(self.bound).combiner if isinstance(self.bound, BoundForest | ShardedForest) else None

    @property
    def columns(self) -> Columns:
        """Of the data."""
        return self.bound.columns if isinstance(self.bound, Inserted) else self._forest.trees.columns

    @property
    def labels(self) -> tuple:
        """Of the classes."""
        return self.bound.labels if isinstance(self.bound, Inserted) else self._forest.class_labels

    @property
    def _forest(self) -> Forest:
        assert self.forest is not None
        return self.forest


def model_of(model: Any) -> Model:
    """The parts of whatever streams; raises a TypeError for what does not."""
    if isinstance(model, BoundForest):
        return Model(model.forest, partial(bind, model.forest, threads=model.threads), model)
    if isinstance(model, ShardedForest):
        forest, mesh = model.bound.forest, model.mesh
        return Model(forest, lambda rule: shard(bind(forest, rule), mesh), model)
    if isinstance(model, BoundVote):
        return Model(model.forest, partial(bind, model.forest), vote=model)
    if isinstance(model, Forest):
        return Model(model, partial(bind, model), bind(model, Mean()))
    if isinstance(model, CountedForest | RuleClassifier) and hasattr(model, "_bound"):
        return Model(model.forest_, partial(bind, model.forest_), model._bound)
    if isinstance(model, TransductiveTreeClassifier) and hasattr(model, "_sample"):
        return Model(None, None, Inserted(model))
    raise TypeError(
        f"model is a {type(model).__name__}; what streams is a bound or sharded forest, a bound vote, a forest, or a "
        "fitted classifier of jaxunc."
    )


def _single(bound: BoundForest | ShardedForest) -> BoundForest:
    return bound.bound if isinstance(bound, ShardedForest) else bound


def asked_of(model: Model, outputs: Sequence[str] | None, s: float, confidence: float) -> tuple[Asked, ...]:
    """Who answers each of the outputs; raises a ValueError for those that nobody can answer."""
    kinds: Kinds = {} if model.bound is None else _kinds(blank_answer(model.bound))
    outputs = _default(kinds, model) if outputs is None else tuple(dict.fromkeys(outputs))
    own = [(part, tuple(name for name in outputs if name in names)) for part, names in kinds.items()]
    own = [(part, names) for part, names in own if names]
    left = set(outputs) - {name for _, names in own for name in names}
    heard = tuple(
        name for name in outputs if name in left & {"class", "trees_polled"} and (model.vote or name != "class")
    )
    left -= set(heard)
    if left & {"class", "probability", "score"} or (model.forest is None and (left or heard)):
        who = "a vote" if model.bound is None else "transduction" if model.rule is None else type(model.rule).__name__
        can = sorted({name for names in kinds.values() for name in names}) if kinds else ["class", "trees_polled"]
        raise ValueError(f"outputs {sorted(left | set(heard))} are not what {who} answers; it has {can}.")
    voters = []
    if heard and model.forest is not None:
        voters = [Asked(model.vote or bind_vote(model.forest, confidence=confidence), heard)]
    return (*_routed(model, own, _further(left, s)), *voters)


def _further(left: set[str], s: float) -> dict[str, tuple[Combiner, tuple[str, ...]]]:
    """Rules for what the model's own does not answer, and what they do."""
    rules: dict[str, tuple[Combiner, tuple[str, ...]]] = {}
    if "uncertainty" in left:
        rules["uncertainty"] = UncertaintyDecomposition(), ("uncertainty",)
    if cautious := tuple(name for name in ("interval", "set") if name in left):
        rules["cautious"] = CautiousReport(s), cautious
    return rules


def _routed(model: Model, own: list, further: dict[str, tuple[Combiner, tuple[str, ...]]]) -> list[Asked]:
    bound, rules = model.bound, {name: rule for name, (rule, _) in further.items()}
    asked = [Asked(bound, names, part, f"{part}_" if part else "") for part, names in own]
    if not rules or model.bind is None:
        return asked
    rule = model.rule
    if rule is not None and [part for part, _ in own] == [None]:
        bound = model.bind(Together(own=rule, **rules))
        asked = [Asked(bound, own[0][1], "own")]
    else:
        bound = model.bind(Together(**rules))
    return asked + [Asked(bound, names, part) for part, (_, names) in further.items()]


def blank_answer(bound: BoundForest | ShardedForest | Inserted) -> Any:
    """An answer for one instance that says nothing: zeros of the right shapes and types."""
    if isinstance(bound, Inserted):
        return bound.blank()
    forest, rule = _single(bound).forest, _single(bound).combiner
    columns = forest.n_classes * len(rule.countings)
    counts = jax.ShapeDtypeStruct((1, forest.n_trees, columns), forest.count_table.dtype)
    return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), jax.eval_shape(rule.answer, counts))


def _kinds(answer: Any) -> Kinds:
    if isinstance(answer, dict):
        return {name: _of_answer(part) for name, part in answer.items()}
    return {None: _of_answer(answer)}


def _of_answer(answer: Any) -> tuple[str, ...]:
    if isinstance(answer, Likely):
        return ("class", "probability")
    if isinstance(answer, Answer):
        return ("class", "score", *(("probability",) if answer.probability is not None else ()))
    if isinstance(answer, CautiousAnswer):
        return ("class", "probability", "interval", "set")
    kinds = {Preference: "set", Interval: "interval", Uncertainty: "uncertainty"}
    return tuple(name for kind, name in kinds.items() if isinstance(answer, kind))


def _default(kinds: Kinds, model: Model) -> tuple[str, ...]:
    if model.vote is not None:
        return ("class", "trees_polled")
    found = {name for names in kinds.values() for name in names} - {"score"}
    if not found:
        raise ValueError(f"{model.bound!r} answers nothing of {OUTPUTS}; bind another rule.")
    return tuple(name for name in OUTPUTS if name in found)
