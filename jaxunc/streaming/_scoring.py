"""Rows through a model into columns."""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
import pyarrow as pa

from jaxunc._checks import check_confidence, check_one_of
from jaxunc.intervals import check_strength
from jaxunc.storage import StoredClassifier
from jaxunc.tables import Columns, Encoded

from ._answerers import OUTPUTS, answerers_of, answering
from ._arrays import labels as arrow_labels
from ._arrays import numbers as arrow_numbers

Named = dict[str, Any]
"""Arrays by the names of their columns."""


class Scoring:
    """The outputs that are asked of a model: `ask` routes instances, `columns` makes columns of the answers."""

    def __init__(self, model: Any, outputs: Sequence[str] | None, *, s: float = 1.0, confidence: float = 0.99):
        check_outputs(outputs, s, confidence)
        answering_model = answering(model)
        self.columns_read = _named(answering_model.columns, getattr(model, "feature_names_in_", None))
        self.labels = answering_model.class_labels
        self._model = model
        self.answerers = answerers_of(answering_model, outputs, s, confidence)
        self._models = {id(model): model for one in self.answerers for model in one.models}
        blank = {place: model.blank_answer() for place, model in self._models.items()}
        self.blank = self.columns([one.read(blank) for one in self.answerers])

    @cached_property
    def takes_missing(self) -> bool:
        """Whether the model takes missing values; asked where there are any, since scikit-learn may have to tell."""
        if isinstance(self._model, StoredClassifier):
            return self._model.takes_missing
        if not hasattr(self._model, "get_params"):
            return True
        from sklearn.utils import get_tags

        return get_tags(self._model).input_tags.allow_nan

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.blank)

    def ask(self, rows: Encoded) -> list[Any]:
        """The answers for instances: one routing for each bound model."""
        answers = {place: _on_host(model.answer(rows)) for place, model in self._models.items()}
        return [one.read(answers) for one in self.answerers]

    def columns(self, answers: list[Any]) -> Named:
        """The columns of answers, in the order in which outputs are listed."""
        found = {}
        for one, answer in zip(self.answerers, answers, strict=True):
            for output in one.outputs:
                made = _rendered(answer.columns(output), self.labels)
                found |= {(OUTPUTS.index(output), one.prefix + name): array for name, array in made}
        order = sorted(found, key=lambda key: key[0])  # stable: classes stay in their order
        return {name: found[place, name] for place, name in order}


def check_outputs(outputs: Any, s: Any, confidence: Any) -> None:
    """Raise a TypeError or a ValueError unless these are outputs and their settings, whether asked for or not."""
    check_lists(outputs=outputs)
    if outputs is not None and not len(outputs):
        raise ValueError(f"outputs={outputs!r} names nothing; choose some of {OUTPUTS}, or None for the default.")
    for name in outputs or ():
        check_one_of("outputs", name, OUTPUTS)
    check_strength(s)
    check_confidence(confidence)


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


def _on_host(answer: Any) -> Any:
    # What is made of the answers compiles nothing there.
    return jax.tree.map(np.asarray, answer)


def _rendered(columns: Named, labels: tuple) -> Iterator[tuple[str, Any]]:
    """Columns of a table, of an answer's."""
    of_classes = arrow_labels(labels)
    for name, array in columns.items():
        if name == "class":
            yield name, of_classes.take(arrow_numbers(array))
        elif array.ndim == 1:
            yield name, arrow_numbers(array)
        elif array.dtype == bool:
            ends = np.concatenate([[0], np.cumsum(array.sum(axis=1))]).astype(np.int32)
            yield (
                name,
                pa.ListArray.from_arrays(arrow_numbers(ends), of_classes.take(arrow_numbers(np.nonzero(array)[1]))),
            )
        else:
            for c, label in enumerate(labels):
                yield f"{name}_{label}", arrow_numbers(array[:, c])
