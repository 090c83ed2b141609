"""Outputs that files and streams ask of a model: an `Outputs` holds their names, and the settings that they read.

`stream`, `predict_files` and `BatchPredictor` take `OutputSettings`, the first two with the marks in numbers of text
files, and make a `Question` of them.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from jaxunc._checks import (
    check_bool,
    check_confidence,
    check_integer,
    check_is_one,
    check_one_of,
    check_settings,
    check_within,
)
from jaxunc.decisions import plain_costs
from jaxunc.regression import checked_levels, checked_limits, interval_levels
from jaxunc.scorers import check_strength
from jaxunc.tables import NumbersLike

from ._notation import Notation, wished_notation

OUTPUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("mean", "std", "class", "probability", "score", "uncertainty"), ()),
    "interval": ("s", "coverage"),
    "set": ("s", "coverage", "by_class"),
    "decision": ("costs", "reject"),
    **dict.fromkeys(("idm_interval", "cautious_set"), ("s",)),
    "trees_polled": ("confidence",),
    "explanation": (),
    "quantile": ("quantiles",),
    "exceeds": ("limits",),
    "neighbours": ("rows", "k", "kind"),
    "outside_share": ("rows",),
}
"""{output: names of the settings that it reads}, in the order of the outputs' columns in files."""
BESIDE_ROWS = tuple(name for name, settings in OUTPUTS.items() if "rows" in settings)
"""Outputs that compare rows with training rows; any model with trees has them, of classes or of numbers."""


class OutputSettings(TypedDict, total=False):
    """Keywords of `BatchPredictor`: outputs, columns, and the settings that outputs read; `stream` explains each."""

    outputs: Sequence[str] | None
    features: Sequence[str] | None
    keep: Sequence[str]
    s: float
    confidence: float
    costs: Any
    reject: float | None
    coverage: NumbersLike | None
    by_class: bool
    quantiles: NumbersLike | None
    limits: NumbersLike | None
    rows: Any
    k: int | None
    kind: str | None


class TextOutputSettings(OutputSettings, total=False):
    """Keywords of `stream` and `predict_files`: those of `OutputSettings`, and the marks in numbers of text files."""

    decimal: str | None
    thousands: str | None


DEFAULTS: dict[str, Any] = {"keep": (), "s": 1.0, "confidence": 0.99, "by_class": False}
"""Values of settings that are not passed; all others are None."""


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The ``names`` of outputs that a model is asked for, and the settings that they read, as plain values for JSON.

    Raises a TypeError or a ValueError if a setting is not sound, or none of the outputs reads it.
    """

    names: Any = None  # None for the model's usual outputs
    s: Any = 1.0
    confidence: Any = 0.99
    costs: Any = None
    reject: Any = None
    coverage: Any = None
    by_class: Any = False
    quantiles: Any = None
    limits: Any = None
    rows: Any = None
    k: Any = None
    kind: Any = None

    def __post_init__(self) -> None:
        """Check each setting by itself and with the outputs; replace all values by plain ones of Python."""
        self._check_values()
        vars(self).update(self._plain_values())  # past the setter, which a frozen dataclass refuses
        if self.quantiles == []:
            raise ValueError("quantiles=[] names nothing; pass levels in [0, 1], such as [0.05, 0.95].")
        if self.kind is not None:
            check_one_of("kind", self.kind, ("prediction", "leaves"))
        if self.rows is None and (unmet := sorted({*BESIDE_ROWS} & {*(self.names or ())})):
            raise ValueError(
                f"outputs {unmet} compare with training rows; pass rows, a file or a table of those that the model "
                "was grown on."
            )
        for setting in ("costs", "reject", "rows", "k", "kind"):
            self.check_is_read(setting, self.names or ())
        if "exceeds" in (self.names or ()) and self.limits is None:
            raise ValueError("outputs ['exceeds'] are chances to be above limits; name one or several by limits=….")
        if self.names is not None:  # by default these settings ask for the outputs that read them
            self.check_is_read("quantiles", self.names)
            self.check_is_read("limits", self.names)
        if self.by_class and self.coverage is None:
            raise ValueError("by_class=True would change nothing: it belongs to coverage; pass it, or leave it out.")

    def _check_values(self) -> None:
        """Raise a TypeError or a ValueError for a name of an output or a setting that is not sound by itself."""
        check_lists(outputs=self.names)
        if self.names is not None and not len(self.names):
            raise ValueError(
                f"outputs={self.names!r} names nothing; choose some of {tuple(OUTPUTS)}, or None for the default."
            )
        for name in self.names or ():
            check_one_of("outputs", name, tuple(OUTPUTS))
        check_is_one("s", self.s)
        check_strength(self.s)
        check_confidence(self.confidence)
        if self.reject is not None:
            check_within("reject", self.reject, "[0, inf)", ": what a rejection costs")
        if self.coverage is not None:
            interval_levels(self.coverage, "sets or intervals")
        check_bool("by_class", self.by_class)
        if self.k is not None:
            check_integer("k", self.k, 1, ": the number of neighbours of a row")

    def _plain_values(self) -> dict[str, Any]:
        """Return {field: value} with values of Python's own types; raise a ValueError for faulty costs or numbers."""
        numbers = {name: getattr(self, name) for name in ("s", "confidence", "reject")}
        return {
            "names": None if self.names is None else list(self.names),
            "costs": plain_costs(self.costs),
            "by_class": bool(self.by_class),
            "quantiles": None if self.quantiles is None else checked_levels(self.quantiles, "quantiles").tolist(),
            "limits": None if self.limits is None else checked_limits(self.limits).tolist(),
            "coverage": None if self.coverage is None else np.asarray(self.coverage, float).tolist(),
            "rows": str(self.rows) if isinstance(self.rows, Path) else self.rows,
            "k": None if self.k is None else int(self.k),
            **{name: None if value is None else np.asarray(value, float).item() for name, value in numbers.items()},
        }

    def settings(self) -> dict[str, Any]:
        """Return {setting: value} of the settings that are neither None nor False."""
        settings = {name: value for name, value in vars(self).items() if name != "names"}
        return {name: value for name, value in settings.items() if value is not None and value is not False}

    def check_is_read(self, setting: str, names: Collection[str], readers: Collection[str] = tuple(OUTPUTS)) -> None:
        """Raise a ValueError if the field ``setting`` is not None, but none of the outputs ``names`` reads it.

        Of the outputs ``readers``, which may be asked for, the message names those that read the setting.
        """
        value = getattr(self, setting)
        readers = [name for name in readers if setting in OUTPUTS[name]]
        if value is not None and not {*names} & {*readers}:
            value_text = f"={value}" if isinstance(value, int | float | str) else "=…"
            raise ValueError(
                f"{setting}{value_text} would change nothing: ask for outputs={' or '.join(readers)}, or leave it out."
            )


class Question(NamedTuple):
    """A request to a model: outputs, the data's columns to read and to keep, and the marks in numbers of text files."""

    outputs: Outputs
    features: Sequence[str] | None  # names in the data of the model's columns; None for the names that the model knows
    keep: Sequence[str]  # names of columns that are carried along
    notation: Notation  # the marks in numbers that the caller names


def question_of(passed: Mapping[str, Any], settings: type, function: str) -> Question:
    """Return the `Question` that a function is asked by the keywords ``passed`` to it, {keyword: value}.

    ``settings`` lists the function's keywords: `OutputSettings` or `TextOutputSettings`. ``function`` is its name in
    messages. Raises a TypeError or a ValueError for a keyword that is unknown or not sound.
    """
    check_settings(passed, settings, function)
    values = {name: passed.get(name, DEFAULTS.get(name)) for name in TextOutputSettings.__annotations__}
    notation = wished_notation(values.pop("decimal"), values.pop("thousands"))
    names = values.pop("outputs")
    features = values.pop("features")
    keep = values.pop("keep")
    return Question(Outputs(names, **values), features, keep, notation)


def check_rows_path(rows: Any) -> None:
    """Raise a TypeError unless ``rows``, the training rows, are None or a path, by which other processes find them."""
    if rows is not None and not isinstance(rows, str | Path):
        raise TypeError(f"rows is a {type(rows).__name__}; pass the path of a file or a folder of training rows.")


def check_lists(**lists: Any) -> None:
    """Raise an error unless each value is None or a collection: a ValueError for a string, which is one name.

    For anything else it is a TypeError. The keywords are the values' names in messages.
    """
    for name, value in lists.items():
        if isinstance(value, str):
            raise ValueError(f"{name}={value!r} is one name; pass a list of them: [{value!r}].")
        if value is not None and not isinstance(value, Collection):
            raise TypeError(f"{name}={value!r} is no list of names; pass one, such as ['a', 'b'].")
