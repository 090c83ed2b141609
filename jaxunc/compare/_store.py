"""Folder of a study: outcomes of forests as they finish, and at the end ``results.json``.

Outcomes are appended to ``unfinished.jsonl``, a line each after a first line that describes the study. An interrupted
study goes on from there. ``results.json`` (format version 6) is one object:

* ``format``, ``format_version``; ``versions`` of jaxunc, jax, numpy and scikit-learn;
* ``data``: name, sizes, classes, notes and warnings, and a hash of the values;
* ``settings``: those of the command line; ``combiners``: the names of those that were compared; ``model``, only in a
  study of a given model: its description;
* ``forests``: for each forest its ``forest``, ``leaf_size``, ``repeat``, ``fold`` and the fields of an `Outcome`. A
  field that does not suit the number of classes is empty. For numbers the fields are those of a `NumberOutcome`,
  ``combiners`` are laws, and ``classes`` is empty.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import sklearn

from jaxunc import __version__

from ._evaluate import (
    BRIER_RANGE,
    COMPARED_MEASURES,
    EDGES,
    INTERVAL_BINS,
    MOST_CLASSES,
    N_ALIKE,
    N_BINS,
    N_POINTS,
    POLL_MEASURES,
    SET_MEASURES,
    STRENGTHS,
    TOPS,
    Outcome,
)
from ._laws import NumberOutcome, are_sound
from ._models import GivenModel, RefittedModel
from ._settings import Cell, Settings, cells
from ._table import Table, positive_class

RESULTS, UNFINISHED = "results.json", "unfinished.jsonl"
_POSITIVE = {"average_precision": 1, "top": len(TOPS)} | dict.fromkeys(("size", "hits", "probability"), len(EDGES) + 1)
"""{key of a combiner's entry in `Outcome.positive`: how many numbers it has}."""
_DOUBTFUL = ("row", "truth", "predicted", "probability", "aleatoric", "epistemic")
"""Keys of a doubtful row whose values are always numbers."""


class Results(NamedTuple):
    """The results of a finished study: its description, and the outcome of each forest."""

    about: dict[str, Any]  # description of the study: the entries of ``results.json`` but ``forests``
    outcomes: dict[Cell, Any]  # outcome of each forest, in order: an `Outcome`, or of numbers a `NumberOutcome`

    @property
    def settings(self) -> Settings:
        """Settings of the study."""
        return Settings(**self.about["settings"])

    def records(self) -> pd.DataFrame:
        """Return a frame of all measures, with a row for each forest and combiner or law.

        Columns: ``forest``, ``leaf_size``, ``repeat``, ``fold``, ``combiner``, and the measures. For two classes these
        include ``average_precision`` and ``top_1`` … ``top_20``, and with costs ``cost``.
        """
        return pd.DataFrame(
            [
                {**cell._asdict(), "combiner": combiner, **values, **_extra_measures(outcome, combiner)}
                for cell, outcome in self.outcomes.items()
                for combiner, values in outcome.measures.items()
            ]
        )


def _extra_measures(outcome: Outcome | NumberOutcome, combiner: str) -> dict[str, float]:
    """Return {measure: value} of one combiner, for measures that only some studies have: with two classes, or costs."""
    measures: dict[str, float] = {}
    if isinstance(outcome, NumberOutcome):
        return measures
    if positive := outcome.positive.get(combiner):
        measures["average_precision"] = positive["average_precision"]
        measures |= {f"top_{top}": share for top, share in zip(TOPS, positive["top"], strict=True)}
    if outcome.costs:
        measures["cost"] = outcome.costs[combiner]
    return measures


def describe(table: Table, settings: Settings, given: GivenModel | RefittedModel | None = None) -> dict[str, Any]:
    """Return the description of a study as ``results.json`` holds it; ``given`` is the study's given model, if any.

    Raises a ValueError if the positive class is not a class of the table, or no combiner suits the classes.
    """
    settings = replace(settings, positive=positive_class(table, settings.positive))
    about = {
        "format": "jaxunc compare",
        "format_version": 6,
        "versions": {
            "jaxunc": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "data": _describe_data(table),
        "settings": asdict(settings),
        "combiners": settings.combiners_for(len(table.class_labels)),
    }
    if given is not None:
        about["model"] = given.about
    # As JSON gives it back, with lists for tuples, since it is compared with descriptions in files.
    return json.loads(json.dumps(about))


def _describe_data(table: Table) -> dict[str, Any]:
    """Return the description of a table in ``results.json``: name, sizes, notes, and a hash of its values."""
    digest = hashlib.sha256()
    # Little-endian and contiguous: the same data have the same hash on every machine.
    for values in (table.X.astype("<f8"), table.y.astype("<i8" if table.class_labels else "<f8")):
        digest.update(repr(values.shape).encode() + np.ascontiguousarray(values).tobytes())
    sizes = np.bincount(table.y).tolist() if table.class_labels else []
    about: dict[str, Any] = {
        "name": table.name,
        "n_instances": table.X.shape[0],
        "n_features": table.X.shape[1],
        "classes": dict(zip(table.class_labels, sizes, strict=True)),
    }
    if table.taken:
        about["taken"] = table.taken
    return {**about, "notes": table.notes, "warnings": table.warnings, "sha256": digest.hexdigest()}


class Store:
    """The folder of one study, from which an interrupted run goes on; it is made if absent.

    ``given`` is the given model, if the study has one.

    Raises a ValueError if the folder cannot be written to, or its files are damaged or those of another study.
    """

    def __init__(
        self, folder: str | Path, table: Table, settings: Settings, given: GivenModel | RefittedModel | None = None
    ):
        self.folder = Path(folder)
        self.about = describe(table, settings, given)
        self._cells = cells(settings)
        _make_writable(self.folder)
        self.outcomes = dict(self._read_finished() or self._read_unfinished())

    @property
    def complete(self) -> bool:
        """Whether the outcomes of all forests of the study are there."""
        return len(self.outcomes) == len(self._cells)

    def add(self, cell: Cell, outcome: Outcome | NumberOutcome) -> None:
        """Keep the outcome of a cell in `outcomes`, and append it to the file ``unfinished.jsonl`` at once."""
        self.outcomes[cell] = outcome
        # Lines are appended: an interruption can damage the last one only, which `_read_unfinished` removes.
        with (self.folder / UNFINISHED).open("a", encoding="utf-8") as file:
            file.write(_line({**cell._asdict(), **outcome._asdict()}))

    def finish(self) -> Results:
        """Write ``results.json``, with forests in the order of the settings, and return the results of all forests."""
        ordered = {cell: self.outcomes[cell] for cell in self._cells}
        forests = [_line({**cell._asdict(), **outcome._asdict()}) for cell, outcome in ordered.items()]
        head = json.dumps(self.about, indent=1, ensure_ascii=False).removesuffix("\n}")  # the object stays open
        partial = self.folder / (RESULTS + ".partial")
        partial.write_text(f'{head},\n "forests": [\n{",".join(forests)}]\n}}\n', encoding="utf-8")
        # The file appears whole or not at all: readers of the folder never see half of it.
        os.replace(partial, self.folder / RESULTS)
        (self.folder / UNFINISHED).unlink(missing_ok=True)
        return Results(self.about, ordered)

    def _read_finished(self) -> dict[Cell, Outcome | NumberOutcome] | None:
        """Return the outcomes in ``results.json``, or None without it; raise a ValueError if it is not this study's."""
        path = self.folder / RESULTS
        if not path.exists():
            return None
        with self._explain_errors():
            document = json.loads(path.read_text(encoding="utf-8"))
            entries = document.pop("forests")
        self._check_same(document, RESULTS)  # before the entries: those of an older format lack some fields
        with self._explain_errors():
            outcomes = dict(self._parse(entry) for entry in entries)
        if set(outcomes) != set(self._cells):
            raise ValueError(f"--report={str(self.folder)!r}: its {RESULTS} lacks forests. Move the file away.")
        return outcomes

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Return a context that turns errors of reading ``results.json`` into a ValueError that names the file."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
            raise ValueError(
                f"--report={str(self.folder)!r}: its {RESULTS} is not one of jaxunc compare ({error}). "
                "Choose another folder, or move the file away."
            ) from error

    def _read_unfinished(self) -> Iterator[tuple[Cell, Outcome | NumberOutcome]]:
        """Yield the outcomes of an interrupted run from ``unfinished.jsonl``, as (cell, outcome).

        A damaged line and all lines after it are removed from the file. Without a file, one is made that holds the
        description of this study. Raises a ValueError if the file is of another study.
        """
        path = self.folder / UNFINISHED
        if not path.exists():
            path.write_text(_line(self.about), encoding="utf-8")
            return
        lines = path.read_bytes().splitlines(keepends=True)
        try:
            # A run whose first line was cut off has kept nothing yet, and begins anew.
            about = json.loads(lines[0]) if lines and lines[0].endswith(b"\n") else self.about
        except (ValueError, RecursionError):
            about = None  # refused below
        self._check_same(about if isinstance(about, dict) else {}, UNFINISHED)
        sound_lines = [_line(self.about).encode()]
        for line in lines[1:]:
            try:
                cell, outcome = self._parse(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                break
            if not line.endswith(b"\n"):  # the next outcome would be appended to this line
                break
            sound_lines.append(line)
            yield cell, outcome
        if sound_lines != lines:
            path.write_bytes(b"".join(sound_lines))

    def _parse(self, entry: dict[str, Any]) -> tuple[Cell, Outcome | NumberOutcome]:
        """Return the cell and the outcome that an entry of a file holds.

        Raises a ValueError, KeyError, TypeError or AttributeError if they are none of this study.
        """
        cell = Cell(*(entry[name] for name in Cell._fields))
        combiners = self.about["combiners"]
        if self.about["settings"]["numbers"]:
            outcome = NumberOutcome(*(entry[name] for name in NumberOutcome._fields))
            is_sound = are_sound(outcome, combiners)
            numbers = jax.tree.leaves(tuple(outcome), is_leaf=lambda value: value is None)
        else:
            outcome = Outcome(*(entry[name] for name in Outcome._fields))
            has_costs = bool(self.about["settings"]["costs"])
            n_classes = len(self.about["data"]["classes"])
            is_sound = _is_sound(outcome, combiners, n_classes, has_costs)
            numbers = _numbers(outcome)
        are_finite = all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        if cell not in self._cells or not is_sound or not are_finite:
            raise ValueError(f"an entry holds something else than the outcome of {cell}")
        return cell, outcome

    def _check_same(self, document: dict[str, Any], file: str) -> None:
        """Raise a ValueError that tells the differences unless ``document``, from a ``file``, describes this study."""
        clauses = [
            _difference(name, document.get(name), expected)
            for name, expected in self.about.items()
            if document.get(name) != expected
        ]
        if not clauses:
            return
        raise ValueError(
            f"--report={str(self.folder)!r} holds another run ({file}): {'; '.join(clauses)}. Choose another folder, "
            "or take away that file to begin anew."
        )


def _is_sound(outcome: Outcome, combiners: list[str], n_classes: int, has_costs: bool) -> bool:
    """Return whether an outcome from a file has the form of one with these combiners, so many classes, costs or none.

    Raises a KeyError, TypeError, AttributeError or ValueError where a field is of another kind than expected.
    """
    has_sets = n_classes <= MOST_CLASSES
    strengths = [str(s) for s in STRENGTHS if has_sets]
    return (
        # What each combiner has, and the bins of uncertainty:
        all(set(entries) == set(combiners) for entries in outcome[:3])  # measures, reliability, rejection
        and all(set(values) == set(COMPARED_MEASURES) for values in outcome.measures.values())
        and all(set(bins) == {"size", "hits", "confidence"} for bins in outcome.reliability.values())
        and all(len(entries) == N_BINS for bins in outcome.reliability.values() for entries in bins.values())
        and all(len(curve) == N_POINTS for curve in outcome.rejection.values())
        and all(len(bin_) == 4 for bin_ in outcome.uncertainty)
        # Sets, intervals and votes of the forest:
        and list(outcome.sets) == list(outcome.set_sizes) == strengths
        and all(list(values) == list(SET_MEASURES) for values in outcome.sets.values())
        and all(len(sizes) == n_classes for sizes in outcome.set_sizes.values())
        and list(outcome.intervals) == [name for name in INTERVAL_BINS if has_sets]
        and all(len(entries) == N_BINS for entries in outcome.intervals.values())
        and list(outcome.brier_range) == [name for name in BRIER_RANGE if n_classes == 2]
        and list(outcome.polling) == [name for name in POLL_MEASURES if has_sets]
        # The positive class, costs:
        and set(outcome.positive) == {name for name in combiners if n_classes == 2}
        and all({key: np.size(sums[key]) for key in sums} == _POSITIVE for sums in outcome.positive.values())
        and set(outcome.costs) == {name for name in combiners if has_costs}
        # Doubtful rows:
        and all(list(row) == [*_DOUBTFUL, "leaf_rows", "columns", "alike"] for row in outcome.doubtful)
        and all((row["leaf_rows"] is not None) == has_sets for row in outcome.doubtful)
        and all(isinstance(text, str) for row in outcome.doubtful for text in row["columns"].values())
        and all(1 <= len(row["alike"]) <= N_ALIKE and np.shape(row["alike"])[1:] == (2,) for row in outcome.doubtful)
        and all(0 <= c < n_classes for row in outcome.doubtful for _, c in row["alike"])
    )


def _numbers(outcome: Outcome) -> list[Any]:
    """Return all values in an outcome from a file that must be finite numbers.

    None is left out where an outcome may hold it: as "leaf_rows" of a doubtful row, or as ``single_set_accuracy``.
    Raises a KeyError, TypeError or AttributeError where sets or doubtful rows are not as in an `Outcome`.
    """
    values: list[Any] = list(outcome._replace(sets={}, doubtful=[]))
    for measures in outcome.sets.values():
        for name, value in measures.items():
            if value is not None or name != "single_set_accuracy":
                values.append(value)
    for row in outcome.doubtful:
        for name, value in row.items():
            if name != "columns" and (value is not None or name != "leaf_rows"):  # columns are texts
                values.append(value)
    # JAX would leave out every None. As a leaf it stays among the values, and the caller refuses it.
    return jax.tree.leaves(values, is_leaf=lambda value: value is None)


def _line(entry: dict[str, Any]) -> str:
    """Return an entry as one line of JSON."""
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def _difference(name: str, kept_value: Any, expected: Any) -> str:
    """Return a clause on how a description's entry ``name`` in a file, ``kept_value``, differs from the ``expected``.

    Of two dicts the first key is named at which they differ.
    """
    if isinstance(kept_value, dict) and isinstance(expected, dict):
        key = next(k for k in (*expected, *kept_value) if kept_value.get(k) != expected.get(k))
        name = f"{name}.{key}"
        kept_value = kept_value.get(key)
        expected = expected.get(key)
    return f"{name} was {_shorten(kept_value)}, is now {_shorten(expected)}"


def _shorten(value: Any) -> str:
    """Return a value as JSON, cut to 77 characters and three dots if it has 80 or more."""
    text = json.dumps(value)
    return text if len(text) < 80 else text[:77] + "..."


def _make_writable(folder: Path) -> None:
    """Make the folder and try to write to it; raise a ValueError if that fails, before hours are spent on a study."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(
            f"--report={str(folder)!r} cannot be written to ({error.strerror or error}); expected a folder, which is "
            "made if it does not exist."
        ) from error
