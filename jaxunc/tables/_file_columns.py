"""Columns of a training file: a target becomes numbers or classes, a feature becomes numbers or ranks.

``jaxunc fit`` and ``jaxunc compare`` convert columns here. The nominal columns of fitted models become codes of levels
instead: see `jaxunc.tables._levels`.
"""

import collections
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from jaxunc._checks import join_names

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = re.compile(
    r"(?:US\$|USD|EUR|GBP|CHF|[$€£¥])?\s*[-+\u2212]?[$€£¥]?\s*"
    r"(?:\d{1,3}(?:[.,'\u2019_\s]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?"
    r"\s*((?:[^\W\d]|[%°$€£¥])\S*)?"
)
"""A number, perhaps with marks of thousands, a decimal comma, a currency, and a unit behind it, which is the group."""


def is_numeric(column: Any) -> bool:
    """Return whether a pandas column has a numeric dtype; bools do not count."""
    from pandas.api import types

    return types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)


def number_target(
    column: "pd.Series", path: str | Path, numbers: bool | None, *, options: tuple[str, str]
) -> np.ndarray | None:
    """Return a target as float64 if it is a number, None if it holds classes.

    ``numbers`` says whether it is a number; with None the column decides. ``options`` are the command's options for a
    number and for classes, named in messages. Raises a ValueError if ``numbers`` is True and the column holds no
    numbers, or if it is None and the column's texts are mostly numbers.
    """
    if not is_numeric(column):
        if numbers:
            raise ValueError(
                f"--target={column.name!r} of {path} holds {column.dtype} and no numbers, which {options[0]} is for. "
                "Leave it out for classes, or write numbers plainly (1234.5)."
            )
        if numbers is None:
            _refuse_numbers_as_text(column, path, options[1])
        return None
    values = column.to_numpy(np.float64)
    return values if numbers or (numbers is None and is_quantity(values)) else None


SOME_CLASSES, MOST_CLASSES = 20, 100
"""Most different integers that are classes in any table; and in a table of more than five times as many rows."""


def is_quantity(values: Float[np.ndarray, " rows"]) -> bool:
    """Return whether the numbers of a target are a quantity, not classes: fractions, or many different integers."""
    return not are_class_numbers(len(np.unique(values)), len(values)) or not np.array_equal(values, np.rint(values))


def are_class_numbers(n_values: int, n_rows: int) -> bool:
    """Return whether ``n_values`` different integers in ``n_rows`` rows are taken for classes."""
    return n_values <= SOME_CLASSES or (n_values <= MOST_CLASSES and n_values < n_rows / 5)


def _refuse_numbers_as_text(column: "pd.Series", path: object, classes: str) -> None:
    """Raise a ValueError if a target's texts are mostly numbers of one unit, and too many to be meant as classes.

    `are_class_numbers` says how many are too many. The message names the file ``path``, and the option ``classes``, by
    which a user says that these are classes.
    """
    from pandas.api import types

    if not (types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)):
        return  # a categorical column holds classes by its type
    words = [word for word in column.unique().tolist() if isinstance(word, str)]
    matches = ((word, _NUMBER.fullmatch(word.strip())) for word in words if len(word) < 40)
    unit_of = {word: match[1] for word, match in matches if match}
    ((usual_unit, _),) = collections.Counter(filter(None, unit_of.values())).most_common(1) or [(None, 0)]
    numeric = {word for word, unit in unit_of.items() if unit in (None, usual_unit)}
    if len(numeric) <= len(words) / 2 or are_class_numbers(len(numeric), len(column)):
        return
    # Examples for the message: words that are no numbers, else numbers with marks or units.
    odd = [word for word in words if word not in numeric] or [word for word in words if re.search("[^-+.eE0-9]", word)]
    raise ValueError(
        f"--target={column.name!r} of {path} is read as text, for values such as {join_names(odd or words, 3)}, and "
        f"{len(numeric)} of its {len(words)} different texts are numbers; expected plain numbers, or classes. Write "
        f"numbers plainly (1234.5), with cells empty where one is missing; if these are classes, add {classes}."
    )


def class_values(column: "pd.Series", path: str) -> np.ndarray:
    """Return the label of each row, as the file ``path`` has it; raise a ValueError if the labels are fractions."""
    from pandas.api import types

    if types.is_float_dtype(column.dtype) and not np.all(column == np.rint(column)):
        raise ValueError(
            f"--target={column.name!r} of {path} holds fractions: a quantity, but expected a class for every row. Take "
            "--estimator uncertain, which predicts numbers, choose another column, or cut this one into ranges first."
        )
    return column.to_numpy()


def class_codes(column: "pd.Series") -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the class of each row as a code, and the labels of the classes.

    Raises a ValueError for a quantity, and for two labels that are written alike.
    """
    import pandas as pd
    from pandas.api import types

    target = column.name
    codes, levels = _ranks(column)
    if is_numeric(levels):
        # Integers beyond 2⁵³ would be rounded as floats, and those from 2⁶³ on negative as int64.
        numbers = levels.to_numpy() if types.is_integer_dtype(levels.dtype) else levels.to_numpy(np.float64)
        integral = numbers.dtype.kind in "iu" or bool(np.all(numbers == np.rint(numbers)))
        if len(levels) > SOME_CLASSES and not (integral and len(levels) < len(codes) / 5):
            raise ValueError(
                f"--target={target!r} holds {len(levels)} different numbers in {len(codes)} rows: a quantity, but "
                "combiners need a class for every row. Leave out --combiners and --model, to compare laws of numbers; "
                "or choose another column, or cut this one into ranges first."
            )
        levels = pd.Index(numbers.astype(np.int64)) if integral and numbers.dtype.kind == "f" else levels
    labels = tuple(map(str, levels))
    if len(set(labels)) < len(labels):
        same = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"--target={target!r} holds different classes that both read {same!r}; rename one of them.")
    return codes.astype(np.int64), labels


def numbers_as_floats(X: "pd.DataFrame", *, with_booleans: bool) -> "pd.DataFrame":
    """Change a frame's columns of integers to floats, the type in which files are scored, and return the frame.

    With ``with_booleans``, for scikit-learn, columns of bools with missing values become nullable bools: pandas has
    them as objects.
    """
    from pandas.api import types

    for name in X.columns:
        column = X[name]
        has_gaps = with_booleans and column.dtype == object and types.infer_dtype(column, skipna=True) == "boolean"
        if column.dtype.kind in "iu" or has_gaps:
            X[name] = column.astype("boolean" if has_gaps else float)
    return X


def feature_numbers(column: "pd.Series", name: str, path: str | Path) -> tuple[np.ndarray, bool]:
    """Return a feature as float64, NaN for missing values, and whether the numbers are ranks of its values.

    ``name`` and ``path``, of the column and its file, are for messages. Raises a ValueError for numbers that are
    infinite or beyond float32.
    """
    from pandas.api import types

    if types.is_bool_dtype(column.dtype) or not types.is_any_real_numeric_dtype(column.dtype):
        codes, _ = _ranks(column)
        return np.where(codes < 0, np.nan, codes.astype(np.float64)), True
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    check_float32(values, name, path, lambda row: column.index[row])
    return values, False


def _ranks(column: "pd.Series") -> tuple[np.ndarray, "pd.Index"]:
    """Return the rank of each value, -1 if missing, and the distinct values in order; categories keep their order."""
    import pandas as pd
    from pandas.api import types

    # Unlike codes of `Levels`, ranks are compared by most forests: so dates, categories and numbers keep their order,
    # and missing values stay missing.
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.remove_unused_categories()
        return column.cat.codes.to_numpy(), column.cat.categories
    if column.dtype == object and types.infer_dtype(column, skipna=True) not in ("decimal", "date", "boolean"):
        column = column.map(str, na_action="ignore")  # mixed kinds have no order
    codes, levels = pd.factorize(column, sort=True)
    return codes, pd.Index(levels)


def check_float32(
    values: Float[np.ndarray, " rows"], name: str, where: str | Path, number: Callable[[int], int]
) -> None:
    """Raise a ValueError if one of ``values`` is infinite or too large for float32.

    The message has the column's ``name``, the file ``where``, and the row's number, which ``number`` returns for a
    position among the values.
    """
    beyond = np.abs(values) > np.finfo(np.float32).max
    if beyond.any():
        raise ValueError(
            f"the column {name!r} of {where} holds {int(beyond.sum())} infinite values or values beyond float32 "
            f"(3.4e38), first in row {number(int(beyond.argmax()))} of the data. Clip them, or leave the cells "
            "empty if they are missing values."
        )
