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
"""A number, perhaps with marks of thousands, a decimal comma, a currency, and a unit behind it: the only group."""


def is_numeric(column: Any) -> bool:
    """Return whether a column or an index of pandas has a dtype of numbers; bools do not count."""
    from pandas.api import types

    return types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)


def number_target(
    column: "pd.Series", path: str | Path, numbers: bool | None, *, options: tuple[str, str]
) -> np.ndarray | None:
    """Return the target ``column`` of the file ``path`` as float64 if it is a number; None if it holds classes.

    ``numbers`` says whether the target is a number; with None its values decide. ``options`` are the command's options
    by which a user asks for a number and for classes: messages name them. Raises a ValueError if ``numbers`` is True
    and the column holds no numbers, or ``numbers`` is None and the column's texts are mostly numbers.
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
    is_number = is_quantity(values) if numbers is None else numbers
    return values if is_number else None


SOME_CLASSES = 20  # up to so many different integers are classes in any table
MOST_CLASSES = 100  # up to so many are classes in a table of more than five times as many rows as integers


def is_quantity(values: Float[np.ndarray, " rows"]) -> bool:
    """Return whether the numbers of a target are a quantity, not classes: fractions, or many different integers."""
    are_integers = np.array_equal(values, np.rint(values))
    return not are_integers or not are_class_numbers(len(np.unique(values)), len(values))


def are_class_numbers(n_values: int, n_rows: int) -> bool:
    """Return whether ``n_values`` different integers in ``n_rows`` rows are few enough to be taken for classes."""
    return n_values <= SOME_CLASSES or (n_values <= MOST_CLASSES and n_values < n_rows / 5)


def _refuse_numbers_as_text(column: "pd.Series", path: object, classes: str) -> None:
    """Raise a ValueError if most texts of a target ``column`` are numbers of one unit, and too many to be classes.

    ``path`` is the column's file, and ``classes`` the command's option by which a user says that texts are classes.
    """
    from pandas.api import types

    if not (types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)):
        return  # a categorical column holds classes by its type
    words = [word for word in column.unique().tolist() if isinstance(word, str)]
    # A text of 40 characters or more is not taken for a number.
    matches = ((word, _NUMBER.fullmatch(word.strip())) for word in words if len(word) < 40)
    unit_of = {word: match[1] for word, match in matches if match}  # None for a number without a unit
    most_common = collections.Counter(unit for unit in unit_of.values() if unit).most_common(1)
    usual_unit = most_common[0][0] if most_common else None
    numeric = {word for word, unit in unit_of.items() if unit in (None, usual_unit)}
    if len(numeric) <= len(words) / 2 or are_class_numbers(len(numeric), len(column)):
        return
    # Examples for the message: words that are no numbers, else numbers with marks or units.
    odd = [word for word in words if word not in numeric]
    if not odd:
        odd = [word for word in words if re.search("[^-+.eE0-9]", word)]
    raise ValueError(
        f"--target={column.name!r} of {path} is read as text, for values such as {join_names(odd or words, 3)}, and "
        f"{len(numeric)} of its {len(words)} different texts are numbers; expected plain numbers, or classes. Write "
        f"numbers plainly (1234.5), with cells empty where one is missing; if these are classes, add {classes}."
    )


def class_values(column: "pd.Series", path: str) -> np.ndarray:
    """Return the labels in the target ``column`` of the file ``path``; raise a ValueError if they are fractions."""
    from pandas.api import types

    if types.is_float_dtype(column.dtype) and not np.all(column == np.rint(column)):
        raise ValueError(
            f"--target={column.name!r} of {path} holds fractions: a quantity, but expected a class for every row. Take "
            "--estimator uncertain, which predicts numbers, choose another column, or cut this one into ranges first."
        )
    return column.to_numpy()


def class_codes(column: "pd.Series") -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the code of each row's class in a target ``column``, and the labels of the classes, in their order.

    Raises a ValueError for numbers that are a quantity, and for two classes that are equal as strings.
    """
    import pandas as pd
    from pandas.api import types

    target = column.name
    codes, levels = _rank_values(column)
    if is_numeric(levels):
        # Integers beyond 2⁵³ would be rounded as floats, and those from 2⁶³ on negative as int64.
        numbers = levels.to_numpy() if types.is_integer_dtype(levels.dtype) else levels.to_numpy(np.float64)
        are_integers = numbers.dtype.kind in "iu" or bool(np.all(numbers == np.rint(numbers)))
        if len(levels) > SOME_CLASSES and not (are_integers and len(levels) < len(codes) / 5):
            raise ValueError(
                f"--target={target!r} holds {len(levels)} different numbers in {len(codes)} rows: a quantity, but "
                "combiners need a class for every row. Leave out --combiners and --model, to compare laws of numbers; "
                "or choose another column, or cut this one into ranges first."
            )
        if are_integers and numbers.dtype.kind == "f":
            levels = pd.Index(numbers.astype(np.int64))
    labels = tuple(map(str, levels))
    if len(set(labels)) < len(labels):
        same = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"--target={target!r} holds different classes that both read {same!r}; rename one of them.")
    return codes.astype(np.int64), labels


def numbers_as_floats(X: "pd.DataFrame", *, with_booleans: bool) -> "pd.DataFrame":
    """Convert columns of integers in the frame ``X`` to floats, the type in which files are scored, and return ``X``.

    With ``with_booleans`` columns of objects that are bools or missing become pandas' nullable bools.
    """
    from pandas.api import types

    for name in X.columns:
        column = X[name]
        if column.dtype.kind in "iu":
            X[name] = column.astype(float)
        elif with_booleans and column.dtype == object and types.infer_dtype(column, skipna=True) == "boolean":
            X[name] = column.astype("boolean")
    return X


def feature_numbers(column: "pd.Series", name: str, path: str | Path) -> tuple[np.ndarray, bool]:
    """Return (the feature ``column`` as float64, NaN for missing values; whether these are ranks of its values).

    A column that holds no numbers has ranks. Raises a ValueError, with the names of the column and of the file
    ``path``, for numbers that are infinite or beyond float32.
    """
    from pandas.api import types

    if types.is_bool_dtype(column.dtype) or not types.is_any_real_numeric_dtype(column.dtype):
        codes, _ = _rank_values(column)
        return np.where(codes < 0, np.nan, codes.astype(np.float64)), True
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    check_float32(values, name, path, lambda row: column.index[row])
    return values, False


def _rank_values(column: "pd.Series") -> tuple[np.ndarray, "pd.Index"]:
    """Return the rank of each value in ``column``, -1 if it is missing, and the distinct values in rising order."""
    import pandas as pd
    from pandas.api import types

    # Unlike codes of `Levels`, ranks are compared by most forests: so dates, categories and numbers keep their order,
    # and missing values stay missing.
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.remove_unused_categories()
        return column.cat.codes.to_numpy(), column.cat.categories  # in their own order
    if column.dtype == object and types.infer_dtype(column, skipna=True) not in ("decimal", "date", "boolean"):
        column = column.map(str, na_action="ignore")  # objects of other or mixed types have no order, texts have
    codes, values = pd.factorize(column, sort=True)
    return codes, pd.Index(values)


def check_float32(
    values: Float[np.ndarray, " rows"], name: str, where: str | Path, number: Callable[[int], int]
) -> None:
    """Raise a ValueError if one of ``values`` is infinite or too large for float32.

    The message has the column's ``name``, the file ``where``, and the number of the first such row: ``number`` returns
    a row's number for the position of its value.
    """
    beyond = np.abs(values) > np.finfo(np.float32).max
    if beyond.any():
        raise ValueError(
            f"the column {name!r} of {where} holds {int(beyond.sum())} infinite values or values beyond float32 "
            f"(3.4e38), first in row {number(int(beyond.argmax()))} of the data. Clip them, or leave the cells "
            "empty if they are missing values."
        )
