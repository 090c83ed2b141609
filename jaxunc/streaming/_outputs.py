"""What is asked of a model, and the columns that answer it."""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from sklearn.utils import get_tags

from jaxunc._checks import check_one_of
from jaxunc.combiners import margin
from jaxunc.decisions import CautiousAnswer, nondominated
from jaxunc.estimators._rule_classifier import decisive
from jaxunc.routing import over_rows
from jaxunc.stopping import BoundVote, VoteResult
from jaxunc.tables import Columns, Encoded

from ._asked import OUTPUTS, Asked, asked_of, blank_answer, model_of
from ._inserted import Inserted, Likely

WHOLE = (2048, 8192)
"""Rows of a small and a large call of compiled programs (`jaxunc.routing`)."""

Named = dict[str, Any]
"""NumPy or Arrow arrays by the names of their columns."""


class Outputs:
    """What is asked of a model: `ask` routes instances, `columns` makes columns of the answers."""

    def __init__(self, model: Any, outputs: Sequence[str] | None, *, s: float = 1.0, confidence: float = 0.99):
        check_lists(outputs=outputs)
        if outputs is not None and not len(outputs):
            raise ValueError(f"outputs={outputs!r} names nothing; choose some of {OUTPUTS}, or None for the default.")
        for name in outputs or ():
            check_one_of("outputs", name, OUTPUTS)
        parts = model_of(model)
        self.columns_read = _named(parts.columns, getattr(model, "feature_names_in_", None))
        self.labels = parts.labels
        self.takes_missing = get_tags(model).input_tags.allow_nan if hasattr(model, "get_params") else True
        self.asked = asked_of(parts, outputs, s, confidence)
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
                found[id(one.bound)] = _answer(one.bound, rows)
        return [_part(one, found[id(one.bound)]) for one in self.asked]

    def columns(self, answers: list[Any]) -> Named:
        """The columns of answers, in the order in which outputs are listed."""
        found = {}
        for one, answer in zip(self.asked, answers, strict=True):
            for output in one.outputs:
                made = _columns_of(answer, output, self.labels)
                found |= {(OUTPUTS.index(output), one.prefix + name): array for name, array in made}
        order = sorted(found, key=lambda key: key[0])  # stable: classes stay in their order
        return {name: found[place, name] for place, name in order}


def check_lists(**given: Any) -> None:
    """Raise a ValueError for one name where a list of names belongs, a TypeError for what is no list of names."""
    for name, value in given.items():
        if isinstance(value, str):
            raise ValueError(f"{name}={value!r} is one name; pass a list of them: [{value!r}].")
        if value is not None and not isinstance(value, Collection):
            raise TypeError(f"{name}={value!r} is no list of names; pass one, such as ['a', 'b'].")


def _named(columns: Columns, names: Any) -> Columns:
    """The columns with the names that a classifier was fitted on, which its forest may not know."""
    if columns.names is not None or names is None:
        return columns
    return dataclasses.replace(columns, names=tuple(map(str, names)))


def _blank(one: Asked, n_classes: int) -> Any:
    """An answer for one instance that says nothing: for the names and types of columns."""
    if isinstance(one.bound, BoundVote):
        zero = np.zeros(1, np.int32)
        return VoteResult(zero, zero, zero > 0, zero * 0.0, np.zeros((1, n_classes), np.int32), 1)
    return _part(one, blank_answer(one.bound))


def _answer(bound: Any, rows: Encoded) -> Any:
    """The answers for rows padded to whole calls of the compiled programs: a ragged last chunk compiles no others."""
    if isinstance(bound, BoundVote | Inserted):
        return bound(rows)
    number = len(rows.values)
    more = -number % (WHOLE[1] if number > WHOLE[1] else WHOLE[0])
    answer = bound.answer(rows._replace(values=np.pad(rows.values, ((0, more), (0, 0)))) if more else rows)
    # On the host: what is made of the answers compiles nothing there either.
    return jax.tree.map(lambda part: np.asarray(part)[:number] if part.ndim else np.asarray(part), answer)


def _part(one: Asked, answer: Any) -> Any:
    return answer if one.part is None else answer[one.part]


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
        members = np.asarray(answer.membership if is_report else over_rows(nondominated, answer))
        ends = np.concatenate([[0], np.cumsum(members.sum(axis=1))]).astype(np.int32)
        values = pa.array(list(labels)).take(pa.array(np.nonzero(members)[1]))
        yield "set", pa.ListArray.from_arrays(pa.array(ends), values)
    else:
        yield "trees_polled", answer.n_polled
        yield "settled", answer.settled


def _predicted(answer: Any) -> np.ndarray:
    if isinstance(answer, CautiousAnswer | VoteResult | Likely):
        return np.asarray(answer.predicted)
    return decisive(answer.class_scores, lambda _: np.asarray(answer.log_probability)).argmax(axis=1)


def _by_class(name: str, values: Any, labels: tuple) -> Iterator[tuple[str, np.ndarray]]:
    columns = np.asarray(values)
    for c, label in enumerate(labels):
        yield f"{name}_{label}", np.ascontiguousarray(columns[:, c])
