"""What a page claims, as numbers, and whether they are those that a committed file holds."""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
STUDIES = ROOT / "benchmarks" / "studies"


@cache
def results(name: str) -> dict[str, Any]:
    path = STUDIES / name / f"{name}.json" if (STUDIES / name).is_dir() else RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def page_of(name: str) -> str:
    return (STUDIES / name / "README.md").read_text(encoding="utf-8")


def same(said: float, measured: float, decimals: int) -> bool:
    """A claim is its number rounded, up or down where that lies between two."""
    return abs(said - measured) <= 0.5 * 10.0**-decimals + 1e-9


def ratios(name: str, engine: str) -> list[float]:
    """What an engine took in each workload, as a share of scikit-learn's time."""
    found = [one for work in results(name)["workloads"] for one in work["engines"] if one["name"] == engine]
    return [one["ratio_to_scikit_learn"]["median"] for one in found]


class Page:
    """The text of a page, and its tables."""

    def __init__(self, path: str):
        self.text = (ROOT / path).read_text(encoding="utf-8")
        self.said = " ".join(self.text.split())

    def claimed(self, words: str) -> list[float]:
        """The numbers in the one place of the page that reads so; ``#`` stands for each."""
        pattern = re.escape(words).replace(r"\#", r"(\d[\d ]*\d|\d*\.?\d+)").replace(r"\ ", " ")
        found = list(re.finditer(pattern, self.said))
        assert len(found) == 1, f"the page says {len(found)} times: {words}"
        return [float(number.replace(" ", "")) for number in found[0].groups()]

    def says(self, words: str, values: Iterable[float], decimals: int) -> None:
        """The words tell these numbers, rounded."""
        told, values = self.claimed(words), list(values)
        assert len(told) == len(values)
        assert all(same(one, other, decimals) for one, other in zip(told, values, strict=True)), (words, told, values)

    def spread(self, values: Any, words: str, decimals: int) -> None:
        """The words tell the least and the largest of the values."""
        self.says(words, (min(values), max(values)), decimals)

    def table(self, first: str) -> list[list[str]]:
        """The rows of the one table whose head begins so, as texts of cells."""
        found = re.findall(rf"^\| *{re.escape(first)} *\|.*\n\|[- |]+\|\n((?:\|.*\n)+)", self.text, re.M)
        assert len(found) == 1, f"{len(found)} tables begin with: {first}"
        return [[cell.strip().strip("*") for cell in row[1:-1].split("|")] for row in found[0].splitlines()]


def _shown(cell: str) -> str:
    """The number that a cell begins with, as it is written; empty where there is none."""
    found = re.match(r"\d*\.?\d+", re.sub(r"(?<=\d) (?=\d)", "", cell.strip("*")))
    return found[0] if found else ""


def numbers(cells: Iterable[str]) -> list[float]:
    """The number that each cell begins with; NaN where there is none."""
    return [float(_shown(cell) or "nan") for cell in cells]


def rounded(cells: Iterable[str], measured: Iterable[float]) -> bool:
    """Whether cells hold these numbers, rounded to the digits that they show; empty where there is no number."""
    for cell, value in zip(cells, measured, strict=True):
        shown = _shown(cell)
        if bool(shown) == np.isnan(value):
            return False
        if shown and not same(float(shown), value, len(shown.partition(".")[2])):
            return False
    return True
