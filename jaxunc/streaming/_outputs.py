"""What may be asked of a model, and the columns that answer it."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.utils import get_tags

from jaxunc._checks import check_one_of
from jaxunc.combiners import Answer, Fold, Mean, Preference, Together, Uncertainty, UncertaintyDecomposition, margin
from jaxunc.decisions import CautiousAnswer, CautiousReport, nondominated
from jaxunc.estimators._counted_forest import CountedForest
from jaxunc.estimators._rule_classifier import RuleClassifier, decisive
from jaxunc.forest import Forest
from jaxunc.imprecise import Interval
from jaxunc.routing import BoundForest, bind
from jaxunc.stopping import BoundVote, Settled, bind_vote
from jaxunc.tables import Columns, Encoded

OUTPUTS = ("class", "probability", "score", "uncertainty", "interval", "set", "trees_polled")
"""What may be asked for."""


def check_lists(**given: Any) -> None:
    """Raise a ValueError for one name where a list of names belongs."""
    for name, value in given.items():
        if isinstance(value, str):
            raise ValueError(f"{name}={value!r} is one name; pass a list of them: [{value!r}].")


Named = dict[str, Any]
"""NumPy or Arrow arrays by the names of their columns."""


class _Asked(NamedTuple):
    """A bound model, and which outputs are read from its answer."""

    bound: Any
    prefix: str
    outputs: tuple[str, ...]
    part: str | None = None
    """The name of the rule whose answer it is, where the bound rule is several together."""


class Outputs:
    """What is asked of a model: `ask` routes instances, `columns` makes columns of the answers."""

    def __init__(self, model: Any, outputs: Sequence[str] | None, *, s: float = 1.0, confidence: float = 0.99):
        check_lists(outputs=outputs)
        for name in outputs or ():
            check_one_of("outputs", name, OUTPUTS)
        forest, bound, vote = _parts(model)
        self.columns_read = _named(forest.trees.columns, getattr(model, "feature_names_in_", None))
        self.labels = forest.class_labels
        self.takes_missing = get_tags(model).input_tags.allow_nan if hasattr(model, "get_params") else True
        kinds = {} if bound is None else provided(bound.forest, bound.combiner)
        if outputs is None:
            outputs = _default(kinds, vote)
        self.asked = tuple(_asked(forest, bound, vote, kinds, tuple(dict.fromkeys(outputs)), s, confidence))
        self.blank = self.columns([_blank(one, len(self.labels)) for one in self.asked])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.blank)

    def ask(self, rows: Encoded) -> list[Any]:
        """The answers for instances: one routing for each bound model."""
        found: dict[int, Any] = {}
        for one in self.asked:
            if id(one.bound) not in found:
                ask = one.bound.answer if isinstance(one.bound, BoundForest) else one.bound
                found[id(one.bound)] = ask(rows)
        answers = (found[id(one.bound)] for one in self.asked)
        return [
            answer if one.part is None else answer[one.part] for one, answer in zip(self.asked, answers, strict=True)
        ]

    def columns(self, answers: list[Any]) -> Named:
        """The columns of answers, in the order in which outputs are listed."""
        found = {}
        for one, answer in zip(self.asked, answers, strict=True):
            for output in one.outputs:
                made = _columns_of(answer, output, self.labels)
                found |= {(OUTPUTS.index(output), one.prefix + name): array for name, array in made}
        order = sorted(found, key=lambda key: key[0])  # stable: classes stay in their order
        return {name: found[place, name] for place, name in order}


def _named(columns: Columns, names: Any) -> Columns:
    """The columns with the names that a classifier was fitted on, which its forest may not know."""
    if columns.names is not None or names is None:
        return columns
    return dataclasses.replace(columns, names=tuple(map(str, names)))


def _parts(model: Any) -> tuple[Forest, BoundForest | None, BoundVote | None]:
    """The forest with one kind of counts, what is bound to a rule, and what votes."""
    if isinstance(model, BoundForest):
        return model.forest, model, None
    if isinstance(model, BoundVote):
        return model.forest, None, model
    if isinstance(model, Forest):
        return model, bind(model, Mean()), None
    if isinstance(model, CountedForest | RuleClassifier) and hasattr(model, "_bound"):
        return model.forest_, model._bound, None
    raise TypeError(
        f"model is a {type(model).__name__}; what streams is a bound forest, a bound vote, a forest, or a fitted "
        "classifier with a forest of jaxunc."
    )


def _blank(one: _Asked, n_classes: int) -> Any:
    """An answer for one instance that says nothing: for the names and types of columns."""
    if isinstance(one.bound, BoundVote):
        zero = np.zeros(1, np.int32)
        return Settled(zero, zero, zero > 0, zero * 0.0, np.zeros((1, n_classes), np.int32), 1)
    shape = _shape_of(one.bound.forest, one.bound.combiner)
    answer = jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), shape)
    return answer if one.part is None else answer[one.part]


def _shape_of(forest: Forest, rule: Fold) -> Any:
    counts = jax.ShapeDtypeStruct((1, forest.n_trees, forest.count_table.shape[1]), forest.count_table.dtype)
    return jax.eval_shape(rule.answer, counts)


def provided(forest: Forest, rule: Fold) -> dict[str | None, tuple[str, ...]]:
    """The outputs that a rule's answer has; by the names of rules where they are several together."""
    answer = _shape_of(forest, rule)
    if isinstance(answer, dict):
        return {name: _of_answer(part) for name, part in answer.items()}
    return {None: _of_answer(answer)}


def _of_answer(answer: Any) -> tuple[str, ...]:
    if isinstance(answer, Answer):
        return ("class", "score", *(("probability",) if answer.probability is not None else ()))
    if isinstance(answer, CautiousAnswer):
        return ("class", "probability", "interval", "set")
    kinds = {Preference: "set", Interval: "interval", Uncertainty: "uncertainty"}
    return tuple(name for kind, name in kinds.items() if isinstance(answer, kind))


def _default(kinds: dict[str | None, tuple[str, ...]], vote: BoundVote | None) -> tuple[str, ...]:
    if vote is not None:
        return ("class", "trees_polled")
    found = {name for names in kinds.values() for name in names} - {"score"}
    return tuple(name for name in OUTPUTS if name in found)


def _asked(forest, bound, vote, kinds, outputs, s: float, confidence: float) -> Iterator[_Asked]:
    """Which bound model answers what: the model's own rule where it can, else rules made for it."""
    own = {part: tuple(name for name in outputs if name in names) for part, names in kinds.items()}
    missing = [name for name in outputs if not any(name in names for names in own.values())]
    if vote is not None and "class" in missing:
        own, missing = {}, [name for name in missing if name != "class"]
    if vote is not None or "trees_polled" in missing:
        vote = vote or bind_vote(forest, confidence=confidence)
        yield _Asked(vote, "", ("class", "trees_polled") if bound is None else ("trees_polled",))
        missing = [name for name in missing if name != "trees_polled"]
    if {"class", "probability", "score"} & set(missing):
        rule = "votes" if bound is None else type(bound.combiner).__name__
        raise ValueError(
            f"outputs {missing} are not what {rule} answers; it has {sorted(set().union(*kinds.values()))}."
        )
    more: dict[str, tuple[Fold, tuple[str, ...]]] = {}
    if "uncertainty" in missing:
        more["uncertainty"] = UncertaintyDecomposition(), ("uncertainty",)
    if cautious := tuple(name for name in missing if name in ("interval", "set")):
        more["cautious"] = CautiousReport(s), cautious
    if not more:
        yield from (_Asked(bound, f"{part}_" if part else "", names, part) for part, names in own.items() if names)
        return
    rules = {name: rule for name, (rule, _) in more.items()}
    if bound is not None and any(own.values()):
        if None in own and bound.forest is forest:
            together = bind(forest, Together(own=bound.combiner, **rules), threads=bound.threads)
            yield _Asked(together, "", own[None], "own")
        else:
            together = bind(forest, Together(**rules), threads=bound.threads)
            yield from (_Asked(bound, f"{part}_" if part else "", names, part) for part, names in own.items() if names)
    else:
        together = bind(forest, Together(**rules))
    yield from (_Asked(together, "", names, name) for name, (_, names) in more.items())


def _columns_of(answer: Any, output: str, labels: tuple) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa

    if output == "class":
        yield "class", pa.array(list(labels)).take(pa.array(_predicted(answer)))
    elif output == "probability":
        yield from _by_class("probability", answer.probability, labels)
    elif output == "score":
        if len(labels) == 2:
            yield "score", np.asarray(margin(answer.class_scores))
        else:
            yield from _by_class("score", answer.class_scores, labels)
    elif output == "uncertainty":
        for name in ("total", "aleatoric", "epistemic"):
            yield f"uncertainty_{name}", np.asarray(getattr(answer, name))
    elif output == "interval":
        interval = answer.interval if isinstance(answer, CautiousAnswer) else answer
        yield from _by_class("lower", interval.lower, labels)
        yield from _by_class("upper", interval.upper, labels)
    elif output == "set":
        is_report = isinstance(answer, CautiousAnswer)
        members = np.asarray(answer.membership if is_report else nondominated(answer))
        ends = np.concatenate([[0], np.cumsum(members.sum(axis=1))]).astype(np.int32)
        values = pa.array(list(labels)).take(pa.array(np.nonzero(members)[1]))
        yield "set", pa.ListArray.from_arrays(pa.array(ends), values)
    else:
        yield "trees_polled", answer.n_polled
        yield "settled", answer.settled


def _predicted(answer: Any) -> np.ndarray:
    if isinstance(answer, CautiousAnswer | Settled):
        return np.asarray(answer.predicted)
    return decisive(answer.class_scores, lambda _: np.asarray(answer.log_probability)).argmax(axis=1)


def _by_class(name: str, values: Any, labels: tuple) -> Iterator[tuple[str, np.ndarray]]:
    columns = np.asarray(values)
    for c, label in enumerate(labels):
        yield f"{name}_{label}", np.ascontiguousarray(columns[:, c])
