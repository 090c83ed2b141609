"""One model, every way in: answered, refused in words, not made by its library, or a fault."""

import importlib
import importlib.util
import linecache
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import jaxunc as ju

from ._compare import Mismatch, Way, check

_PACKAGE = str(Path(ju.__file__).parent)
_HELD = (TypeError, ValueError, RuntimeError)
_TRACEBACK_LINES = 4


class Fault(NamedTuple):
    way: str
    said: str


class Outcome(NamedTuple):
    """What became of one model."""

    answered: Counter  # ways, by name, whose answers are the library's
    refused: Counter  # ways and reasons
    not_made: Counter  # what the library itself raised
    faults: list[Fault]
    leaves: Counter  # ways, and the leaves that were compared
    by_program: Counter  # ways, and the leaves that `leaf_index` told


def try_model(make: Callable[[np.random.Generator], Iterator[Way]], seed: list[int]) -> Outcome:
    """Make one model by its seed, and ask it by every way in."""
    # What we draw ourselves changes nothing of what the library is asked.
    rng = np.random.default_rng([*seed, 1])
    outcome = Outcome(Counter(), Counter(), Counter(), [], Counter(), Counter())
    ways = make(np.random.default_rng(seed))
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                way = next(ways, None)
        except Exception as error:  # whatever a library raises
            outcome.not_made[f"{type(error).__name__}: {_shape_of(str(error))}"] += 1
            return outcome
        if way is None:
            return outcome
        _try_way(way, rng, outcome)


def _try_way(way: Way, rng: np.random.Generator, outcome: Outcome) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = way.load()
            compared = check(way, model, way.rows)
            outcome.leaves[way.name] += compared.leaves
            outcome.by_program[way.name] += compared.by_program
        except Exception as error:
            _sort(error, way.name, outcome)
            return
        outcome.answered[way.name] += 1
        if isinstance(way.rows, pd.DataFrame):
            _ask_differently(way, model, rng, outcome)
    for one in said:
        if one.filename.startswith(_PACKAGE) and issubclass(one.category, RuntimeWarning | DeprecationWarning):
            outcome.faults.append(Fault(way.name, f"warns: {one.category.__name__}: {one.message}"))
            return


def _ask_differently(way: Way, model: object, rng: np.random.Generator, outcome: Outcome) -> None:
    """The same rows in another carrier, or their columns in another order, are the same rows, or are refused."""
    import pyarrow as pa

    frame: pd.DataFrame = way.rows
    carriers: dict[str, Callable[[], object]] = {
        "turned": lambda: frame[frame.columns[::-1]],
        "arrow": lambda: pa.Table.from_pandas(frame, preserve_index=False),
        "objects": lambda: frame.astype(object),
        "dictionary": lambda: {name: frame[name].to_numpy() for name in frame},
    }
    if importlib.util.find_spec("polars"):
        carriers["polars"] = lambda: importlib.import_module("polars").from_pandas(frame)
    name = list(carriers)[rng.integers(len(carriers))]
    if rng.random() < 0.5:
        return
    try:
        rows = carriers[name]()
    except Exception:  # what these carriers do not hold
        return
    try:
        check(way, model, rows)
        outcome.answered[f"{way.name}, {name}"] += 1
    except Exception as error:
        _sort(error, f"{way.name}, {name}", outcome)


def _sort(error: Exception, way: str, outcome: Outcome) -> None:
    """Count a refusal in words, and tell everything else."""
    if isinstance(error, Mismatch):
        outcome.faults.append(Fault(way, str(error)))
    elif in_words(error):
        outcome.refused[f"{way}: {_shape_of(str(error))}"] += 1
    else:
        last = traceback.extract_tb(error.__traceback__)[-_TRACEBACK_LINES:]
        where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in last)
        outcome.faults.append(Fault(way, f"{type(error).__name__}: {str(error)[:300]} ({where})"))


def in_words(error: Exception) -> bool:
    """Whether jaxunc itself raised the error, by a statement that says so."""
    if type(error) not in _HELD:
        return False
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.startswith(_PACKAGE) and "raise" in linecache.getline(last.filename, last.lineno or 0)


def _shape_of(message: str) -> str:
    message = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"", "'…'", message.strip().split("\n")[0])
    message = re.sub(r"[\[({][^\])}]*[\])}]", "(…)", message)
    return re.sub(r"-?\d[\d.e+-]*", "#", message)[:120]
