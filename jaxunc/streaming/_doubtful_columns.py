"""Columns of a table that make results doubtful, each told in a sentence of warning."""

from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Int

from jaxunc._checks import listed

from ._sources import columns

if TYPE_CHECKING:
    import pandas as pd


def find_leaks(values: dict[str, np.ndarray], y: Int[np.ndarray, "instances"]) -> tuple[str, ...]:
    """Return a sentence of warning if columns tell the classes apart one for one, as the target itself would."""
    n_classes = len(np.unique(y))
    leaks = []
    for name, numbers in values.items():
        levels, codes = np.unique(numbers, return_inverse=True)
        # As many values as classes, and as many pairs of value and class: each value stands for one class.
        if len(levels) == n_classes and len(np.unique(codes * n_classes + y)) == n_classes:
            leaks.append(name)
    if not leaks:
        return ()
    return (
        f"{columns(leaks)} tell{'s' * (len(leaks) == 1)} the classes apart one for one: is the target among the "
        "features? Scores will be perfect, and say nothing.",
    )


def find_counters(values: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return a sentence of warning if columns number the rows."""
    counters = [name for name, numbers in values.items() if len(numbers) > 2 and np.all(np.diff(numbers) == 1)]
    if not counters:
        return ()
    return (
        f"{columns(counters)} number{'s' * (len(counters) == 1)} the rows: if rows are in the order of their classes "
        "it gives them away, and new rows will have other numbers. Leave it out.",
    )


def texts_like_numbers(frame: "pd.DataFrame") -> tuple[str, ...]:
    """Return warnings of strings that are numbers or dates with something in the way: they are ordered by letters."""
    import pandas as pd  # of an extra, which streams do without
    from pandas.api import types

    warnings = []
    for name in frame.columns:
        column = cast(pd.Series, frame[name]).dropna()
        if not len(column) or not (types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)):
            continue
        words = column.astype(str).str.strip()
        plain = cast(pd.Series, pd.to_numeric(words, errors="coerce")).notna()
        like = words.str.fullmatch(r"[-+]?[$€£]?\d[\d.,' ]*[%$€£]?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
        # Below nine tenths these are strings of which some look like numbers, and letters may be the right order.
        if (plain | like).mean() < 0.9:
            continue
        odd = words[~plain].unique().tolist()  # none where they stand in rows that are left out
        words_for = (
            f"numbers or dates but for values such as {listed(odd, 3)}" if odd else "numbers that are texts in DATA"
        )
        warnings.append(
            f"{columns([name])} holds {words_for}, so it was read as text and ordered letter by letter. Leave cells "
            "empty where a value is missing, and write numbers plainly (1234.5) and dates as 2024-12-31."
        )
    return tuple(warnings)
