"""Numbers of the study of Hernández-Lobato et al. 2011: Tables 2 and 3 as printed, and what cells say together."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """A row: (mean, standard deviation) over 100 realizations; rates in per cent, over the settled instances."""

    settled: tuple[float, float]
    trees: tuple[float, float]
    disagreement_fixed: tuple[float, float]
    disagreement: tuple[float, float]
    error_fixed: tuple[float, float]
    error: tuple[float, float]
    error_infinite: tuple[float, float]


_BAGGING = """
breast 97.8±0.9 8.1±0.6 0.8±0.6 0.1±0.2 3.6±1.1 3.2±1.0 3.2±1.0
glass 82.3±4.4 21.1±2.8 1.7±1.7 0.4±0.7 21.7±5.6 21.4±5.5 21.4±5.5
heart 87.4±4.0 16.7±1.9 1.4±1.4 0.4±0.8 16.5±4.5 16.2±4.2 16.2±4.3
led 91.4±2.6 13.8±1.4 1.0±1.0 0.1±0.3 26.0±2.1 25.8±2.1 25.8±2.1
liver 78.8±4.2 23.9±2.5 2.3±1.5 1.1±1.2 25.6±3.5 25.4±3.5 25.4±3.7
new-thyroid 97.0±2.1 9.7±1.5 0.8±1.2 0.1±0.4 4.8±2.6 4.7±2.6 4.7±2.7
pima 85.0±2.6 18.1±1.4 2.2±1.0 0.7±0.6 21.4±2.5 20.8±2.6 20.8±2.6
ringnorm 87.2±1.8 19.6±1.6 1.8±0.6 0.5±0.3 6.4±1.7 5.5±1.7 5.4±1.7
spam 96.9±0.5 9.5±0.3 1.0±0.3 0.1±0.1 5.2±0.6 4.8±0.6 4.8±0.6
threenorm 76.5±1.9 25.5±1.5 2.3±0.8 1.1±0.5 13.8±2.2 13.1±2.2 12.9±2.2
twonorm 88.8±1.1 18.4±0.7 1.7±0.5 0.4±0.3 4.4±1.2 3.4±1.2 3.3±1.1
vehicle 80.2±2.7 20.7±1.5 1.8±0.9 0.5±0.5 18.7±2.5 18.4±2.5 18.4±2.5
vowel 85.7±1.9 23.2±1.1 1.1±0.6 0.1±0.2 5.8±1.6 5.1±1.5 5.0±1.5
waveform 83.4±1.8 20.6±1.3 1.9±0.5 0.5±0.3 15.1±1.9 14.6±1.9 14.6±1.8
wine 96.4±2.7 11.3±1.7 1.1±1.4 0.1±0.5 3.4±2.7 2.8±2.5 2.8±2.5
"""
_FOREST = """
breast 98.0±0.8 8.1±0.5 0.7±0.5 0.1±0.2 3.1±1.0 2.8±0.9 2.7±0.9
glass 78.9±4.8 22.9±2.6 1.2±1.5 0.3±0.6 18.1±5.5 17.6±5.4 17.6±5.4
heart 86.1±3.1 18.6±2.5 2.1±1.6 0.6±0.9 14.4±3.6 13.7±3.6 13.6±3.5
led 82.7±4.9 23.9±2.9 1.0±1.3 0.2±0.6 22.5±2.1 22.2±2.0 22.2±2.0
liver 75.1±4.2 26.7±2.7 2.6±1.8 1.2±1.4 24.5±4.2 23.8±4.2 23.4±4.1
new-thyroid 96.1±2.5 10.6±1.2 1.0±1.3 0.1±0.3 3.3±2.2 2.9±2.1 2.9±2.1
pima 83.6±2.3 20.0±1.5 2.1±1.0 0.7±0.5 20.6±2.2 20.3±2.4 20.2±2.4
ringnorm 88.3±1.3 20.1±1.3 1.8±0.5 0.5±0.3 4.3±1.0 3.3±0.9 3.2±0.9
spam 96.5±0.4 10.3±0.3 1.0±0.3 0.1±0.1 4.2±0.5 3.7±0.5 3.7±0.5
threenorm 73.8±1.8 27.6±1.2 2.4±0.6 1.3±0.5 11.4±1.5 10.6±1.4 10.3±1.4
twonorm 90.2±1.0 18.7±0.7 1.5±0.4 0.4±0.2 2.9±0.5 1.9±0.5 1.7±0.5
vehicle 77.5±2.7 22.0±1.3 1.8±0.9 0.5±0.5 16.4±2.6 16.2±2.6 16.2±2.6
vowel 86.2±2.1 25.8±1.1 0.9±0.6 0.1±0.2 2.7±1.0 2.0±1.0 2.0±1.0
waveform 80.5±1.7 23.8±1.1 1.8±0.5 0.7±0.3 11.9±1.3 11.4±1.2 11.3±1.3
"""
# Table 3 has no row for wine in the authors' version.


def _read(table: str) -> dict[str, Row]:
    lines = [line.split() for line in table.split("\n") if line]
    return {name: Row(*(tuple(map(float, cell.split("±"))) for cell in cells)) for name, *cells in lines}


PAPER = {"bagging": _read(_BAGGING), "forest": _read(_FOREST)}
"""{kind: {problem: row}}: Table 2, Table 3."""


# What a cell holds, and what cells say together.

RULES: dict[str, tuple[str, str | None]] = {
    "bound": ("bound", None),
    "exact": ("exact", None),
    "fitted": ("bound", "fitted"),
    "symmetric": ("bound", "symmetric"),
}
"""The criterion of each rule, and its prior where that is not uniform."""
MEASURES = (
    *("settled", "trees", "size"),
    *("disagreement_fixed", "disagreement", "error_fixed", "error", "error_infinite"),
)
"""Numbers of instances, but ``trees`` (polled for all settled instances together) and ``size`` (of FS)."""
CONFIDENCES = (0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
"""Of Figure 6."""
KINDS = {"bagging": "bagging", "forest": "random forest"}
"""What the kinds of ensembles are called."""
N_MARGINS = 10
"""Equal parts of [0, 1] in which leads in the vote of the large ensemble are counted, as shares of its trees."""

Found = Mapping[Any, Mapping]
"""The cells of a set."""


class Rate(NamedTuple):
    """A disagreement in per cent, its standard error, and whether it keeps to what was allowed."""

    mean: float
    error: float
    allowed: float

    @property
    def verdict(self) -> str:
        """Whether it is at most what was allowed, within two standard errors of it, or above."""
        if self.mean <= self.allowed:
            return "yes"
        return "within error" if self.mean <= self.allowed + 2 * self.error else "**no**"


def of_kind(found: Found, kind: str) -> list[Mapping]:
    """The records of one kind of ensemble."""
    return [record for cell, record in found.items() if cell.kind == kind]


def columns(found: Found, kind: str, rule: str = "bound") -> np.ndarray:
    """``[repetitions 7]``, the columns of the paper's tables; NaN where nothing was settled."""
    return np.array([shares(record, rule) for record in of_kind(found, kind)])


def shares(record: Mapping, rule: str) -> list[float]:
    """The columns of the paper's tables, of one record."""
    of = dict(zip(MEASURES, record[rule], strict=True))
    n = of["settled"] or np.nan
    return [100 * of["settled"] / record["n"], of["trees"] / n, *(100 * of[name] / n for name in MEASURES[3:])]


def rate(found: Found, kind: str, rule: str, confidence: float) -> Rate:
    """Disagreement of IB with the large ensemble.

    The error is the larger one of two: by the spread over the repetitions, and as of independent instances.
    """
    values = columns(found, kind, rule)[:, 3]
    n = sum(record[rule][0] for record in of_kind(found, kind))
    mean, spread = float(np.nanmean(values)), float(np.nanstd(values, ddof=1)) if len(values) > 1 else 0.0
    binomial = 100 * (mean / 100 * (1 - mean / 100) / max(n, 1)) ** 0.5
    return Rate(mean, max(spread / len(values) ** 0.5, binomial), 100 * (1 - confidence))


def doubt(found: Found, kind: str, rule: str) -> float:
    """Per cent of the settled instances in which the large ensemble is expected to differ from the infinite one."""
    records = of_kind(found, kind)
    return 100 * sum(record["doubt"][rule] for record in records) / sum(record[rule][0] for record in records)


def errors(finished: Mapping[str, Found], kind: str) -> np.ndarray:
    """``[problems methods]`` mean errors of FS, IB and the large ensemble over the settled instances."""
    return np.array([np.nanmean(columns(found, kind), axis=0)[4:] for found in finished.values()])
