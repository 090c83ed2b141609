"""Numbers of the study of Hernández-Lobato et al. 2011: Tables 2 and 3 as printed, and what cells say together."""

from collections.abc import Mapping
from pathlib import Path
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


def _read(kind: str) -> dict[str, Row]:
    lines = [line.split() for line in Path(__file__).with_name("paper.txt").read_text("utf-8").splitlines()]
    rows = {name: [tuple(map(float, cell.split("±"))) for cell in cells] for of, name, *cells in lines if of == kind}
    return {name: Row(*row) for name, row in rows.items()}


PAPER = {kind: _read(kind) for kind in ("bagging", "forest")}
"""{kind: {problem: row}}: Table 2, Table 3, which has no row for wine in the authors' version."""
RULES: dict[str, tuple[str, str | None]] = {
    "bound": ("bound", None), "exact": ("exact", None), "fitted": ("bound", "fitted"),
    "symmetric": ("bound", "symmetric"),
}  # fmt: skip
"""The criterion of each rule, and its prior where that is not uniform."""
MEASURES = (
    "settled", "trees", "size", "disagreement_fixed", "disagreement", "error_fixed", "error", "error_infinite",
)  # fmt: skip
"""Numbers of instances, but ``trees`` (polled for all settled instances together) and ``size`` (of FS)."""
CONFIDENCES = (0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
"""Of Figure 6."""
KINDS = {"bagging": "bagging", "forest": "random forest"}
"""What the kinds of ensembles are called."""

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
