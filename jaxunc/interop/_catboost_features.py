"""The columns of CatBoost's models, and what the tests of its files mean."""

from typing import Any, NamedTuple

import numpy as np

from jaxunc._numerics import order_key_at_or_below, order_key_below
from jaxunc.forest import Intervals, TreeNodes, intervals_of_codes
from jaxunc.tables import Columns, Levels

from ._documents import integer, numbers, part

_MOST_COLUMNS, _EXACT = 2**24, 2**53


class Test(NamedTuple):
    """What a node tests: whether a column is above a border, or is one category, which goes right."""

    column: int
    border: float
    missing_right: bool = False
    category: Intervals | None = None


class Features:
    """The columns, and what the tests of a file mean."""

    def __init__(self, info: dict):
        unknown = set(info) - {"float_features", "categorical_features", "cat_features_hash"}
        if unknown:
            raise ValueError(
                f"the model has {', '.join(sorted(unknown))} (statistics of categories are 'ctrs'); from_catboost "
                "imports numbers, and categories with one_hot_max_size as large as their number."
            )
        floats, nominal = (_listed(info, f"{kind}_features") for kind in ("float", "categorical"))
        places = [integer(one, "flat_feature_index") for one in floats + nominal]
        if not places or len(set(places)) < len(places) or not 0 <= min(places) <= max(places) < _MOST_COLUMNS:
            raise ValueError(f"the model's features are the columns {places!r:.60}; expected each once.")
        self._floats, self._categories = {}, {}
        for one in floats:
            treated = part(one, "nan_value_treatment", kind=str)
            if treated not in ("AsIs", "AsFalse", "AsTrue"):
                raise ValueError(f"the model treats missing values {treated!r:.20}; known are AsIs, AsFalse, AsTrue.")
            own = integer(one, "flat_feature_index"), treated == "AsTrue" and part(one, "has_nans", kind=bool)
            self._floats[integer(one, "feature_index")] = own
        if len(self._floats) < len(floats):
            raise ValueError("the model lists a feature twice.")
        words, levels = _words(info), {}
        for one in nominal:  # of one that no tree tests there are no values
            column = integer(one, "flat_feature_index")
            hashes = numbers(one, "values", np.int64).tolist() if "values" in one else []
            codes = {value: code for code, value in enumerate(hashes)}
            levels[column] = _levels([_word(words, value) for value in hashes])
            self._categories[integer(one, "feature_index")] = (column, codes, _category_tests(len(hashes)))
        self.columns = _columns(places, [one.get("feature_id", "") for one in floats + nominal], levels)

    def test(self, split: Any) -> Test:
        """What a split tests."""
        kind = part(split, "split_type", kind=str)
        if kind == "FloatFeature":
            column, missing_right = _known(self._floats, integer(split, "float_feature_index"))
            return Test(column, part(split, "border", kind=(int, float)), missing_right)
        if kind == "OneHotFeature":
            column, codes, tests = _known(self._categories, integer(split, "cat_feature_index"))
            code = _known(codes, integer(split, "value"))
            return Test(column, code - 1, category=tests[code])
        raise ValueError(
            f"the model has tests of the type {kind!r:.20}; from_catboost imports numbers and one-hot ones."
        )

    def nodes(self, tests: list[Test], left: np.ndarray, right: np.ndarray, place: np.ndarray) -> TreeNodes:
        """Nodes with these children, of which each inner one makes the test at its place; leaves make none."""
        column, border, missing_right, _ = zip(*tests, strict=True) if tests else ((0,), (0.0,), (False,), None)
        borders = numbers({"borders": list(border)}, "borders", np.float32)
        if not np.isfinite(borders).all():
            raise ValueError("the model has borders that are not finite.")
        threshold = order_key_at_or_below(borders)
        return TreeNodes(np.array(column)[place], threshold[place], left, right, np.array(missing_right)[place])


def _listed(info: dict, name: str) -> list[dict]:
    found = part(info, name, kind=list) if info.get(name) else []
    return [part({name: one}, name) for one in found]


def _known(known: dict, which: int) -> Any:
    if which not in known:
        raise ValueError(f"the model tests a feature or a category, {which}, that it does not list.")
    return known[which]


def _words(info: dict) -> dict[int, str]:
    """The words of hashes, as signed integers; empty where the file has none."""
    found = _listed(info, "cat_features_hash")
    return {(integer(one, "hash") + 2**31) % 2**32 - 2**31: part(one, "value", kind=str) for one in found}


def _word(words: dict[int, str], value: int) -> str:
    if value not in words:
        raise ValueError(
            "the model tests categories of which the file has hashes alone; save it by save_model(path, format='json', "
            "pool=pool) with the Pool of training, or pass from_catboost(model, pool=pool)."
        )
    return words[value]


def _levels(words: list[str]) -> Levels:
    """Integers, where all are written so: a column of integers or bools has them, and one of words, too."""
    if len(set(words)) < len(words):
        raise ValueError(f"the model lists a category twice: {words!r:.60}.")
    as_integers = [int(word) for word in words if word.removeprefix("-").isdecimal() and len(word) < 17]
    whole = [str(number) for number in as_integers] == words and all(abs(number) < _EXACT for number in as_integers)
    return Levels(tuple(as_integers if whole else words), False, bools=("0", "1"))


def _category_tests(number: int) -> list[Intervals | None]:
    """The test of each code. Of the last one it is a threshold: no code is above."""
    codes = np.arange(max(0, number - 1))
    below, last = order_key_below(codes), order_key_below(codes + 1)
    sets = [intervals_of_codes(codes[[c]], below[[c]], last[[c]], False) for c in codes]
    equal = [one._replace(goes_left=~one.goes_left, missing_left=True) for one in sets]
    return equal + [None] * (number > 0)


def _columns(places: list[int], names: list, levels: dict[int, Levels]) -> Columns:
    number = max(places) + 1
    if odd := [name for name in names if not isinstance(name, str)]:
        raise ValueError(f"the model's features have names {odd[:3]!r:.60}; expected strings.")
    known = len(places) == number and all(names)
    by_place = dict(zip(places, names, strict=True))
    return Columns(
        number,
        tuple(by_place[j] for j in range(number)) if known else None,
        tuple(j in levels for j in range(number)) if levels else None,
        tuple(levels.get(j) for j in range(number)) if levels else None,
    )
