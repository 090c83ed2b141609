"""The page of the study of the doubt of numbers: tables and verdicts made of its cells."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import digits, fill, read_rows, table
from benchmarks.studies.doubt.page import Duel, best_in_bold, duel_of, said, verdict_of
from benchmarks.studies.number_doubt import jobs
from jaxunc.compare import holm

TEMPLATE = Path(__file__).with_name("page.md")
DOUBTS = ("epistemic", "aleatoric", "std", "interval width", "outside share", "isolation forest", "distance")
MEASURES, PARTS = ("RMSE", "interval score"), ("rows", "labels", "drift")
EXPECTED = read_rows(TEMPLATE, "expected pairs")
"""What was expected: the problem, what is better at it, and than what."""
Cells = Mapping[Any, dict]


def page(found: Cells) -> str:
    """The text of the page."""
    coverages = pd.DataFrame([record["coverage"] for _, record in of_part(found, "drift")]).mean()[list(jobs.DRIFTS)]
    return fill(
        TEMPLATE,
        counts=", ".join(f"{name} {len({data for data, _ in of_part(found, name)})}" for name in PARTS),
        minutes=round(sum(record["seconds"] for record in found.values()) / 60),
        expected=compared(found),
        areas=lambda problem: " | ".join(best_in_bold(areas(found, problem).mean())),
        growth=lambda far: " | ".join(f"{value:.2f}" for value in growth(found).loc[int(far)]),
        labels=lambda strategy: " | ".join(labels_row(found, strategy)),
        told=lambda test: " | ".join(f"{share:.2f}" for share in told_shares(found, test)),
        coverage=", ".join(f"{name} {digits(value)}" for name, value in coverages.items()),
    )


def of_part(found: Cells, part: str) -> Iterator[tuple[str, dict]]:
    """The problem and the record of each cell of a part."""
    return ((cell.data, record) for cell, record in found.items() if cell.part == part)


def by_problem(rows: list[dict], column: str) -> pd.DataFrame:
    """Means over repeats, a row a problem of the study."""
    return pd.DataFrame(rows).pivot_table(index="data", columns=column, values="value", sort=False)


def areas(found: Cells, problem: str) -> pd.DataFrame:
    """AUROC ``[problems doubts]``."""
    rows = [
        {"data": data, "doubt": doubt, "value": value}
        for data, record in of_part(found, "rows")
        for doubt, value in record["AUROC"][problem].items()
    ]
    return by_problem(rows, "doubt")[list(DOUBTS)]


def curves(found: Cells, measure: str) -> pd.DataFrame:
    """Areas under the curves of a measure by the number of labels, ``[problems strategies]``, random's being 1."""
    at = MEASURES.index(measure)
    rows = [
        {"data": data, "strategy": name, "value": np.trapezoid(np.array(curve)[:, at], jobs.SIZES)}
        for data, record in of_part(found, "labels")
        for name, curve in record["curves"].items()
    ]
    values = by_problem(rows, "strategy")[list(jobs.STRATEGIES)]
    return values.div(values["random"], axis=0)


def streams(found: Cells, drift: str) -> pd.DataFrame:
    """A row a stream: its problem, its length, and the rows until each test tells, NaN if it does not."""
    cells = of_part(found, "drift")
    rows = [{"data": data, "rows": record["rows"][drift], **record["told"][drift]} for data, record in cells]
    return pd.DataFrame(rows).astype(dict.fromkeys(jobs.TESTS, float))


def values_of(found: Cells, problem: str) -> tuple[pd.DataFrame, bool]:
    """What is compared at a problem, a row a problem of the study, and whether more is better."""
    if problem in MEASURES:
        return curves(found, problem), False
    if problem in jobs.DRIFTS:
        of = streams(found, problem)
        until = of[list(jobs.TESTS)].apply(lambda column: column.fillna(of["rows"]))
        return until.groupby(of["data"]).mean(), False
    return areas(found, problem), True


def duels(found: Cells) -> dict[tuple[str, str, str], tuple[Duel, pd.Series, float]]:
    """Each pair: its duel, positive where the first is better, the means of both, and p by Holm over all."""
    compared = {}
    for problem, *pair in EXPECTED:
        values, larger = values_of(found, problem)
        of = duel_of(values[pair].to_numpy() * (1 if larger else -1))
        compared[problem, *pair] = of, values[pair].mean()
    adjusted = holm(np.array([of.p_value for of, _ in compared.values()]))
    return {key: (*each, float(p)) for (key, each), p in zip(compared.items(), adjusted, strict=True)}


def compared(found: Cells) -> str:
    """The table of what was expected."""
    rows = []
    for (problem, *pair), (of, means, p) in duels(found).items():
        means = " : ".join(f"{value:.0f}" if problem in jobs.DRIFTS else digits(value) for value in means)
        rows.append([problem, *pair, means, said(of), f"{of.correlation:+.2f}", f"{p:.4f}", verdict_of(of, p)])
    return table(["", "better", "than", "means", "effect", "r", "p", ""], rows)


def growth(found: Cells) -> pd.DataFrame:
    """The median over problems of how much doubts grow, ``[distances doubts]``."""
    of = [record["growth"] for _, record in of_part(found, "rows")]
    return pd.DataFrame({doubt: np.nanmedian([one[doubt] for one in of], axis=0) for doubt in DOUBTS}, jobs.DISTANCES)


def labels_row(found: Cells, strategy: str) -> list[str]:
    """Areas of a strategy, and how many problems are better than at random."""
    row = []
    for values in (curves(found, measure)[strategy] for measure in MEASURES):
        row += [digits(values.mean()), digits(values.max()), f"{(values < 1).sum()} of {len(values)}"]
    return row


def told_shares(found: Cells, test: str) -> list[float]:
    """The share of streams that a test tells: without drift, and of each drift by 200 rows and in all."""
    share = lambda drift, by=np.inf: (streams(found, drift)[test] <= by).mean()
    return [share("none"), *(share(drift, by) for drift in jobs.DRIFTS[1:] for by in (200, np.inf))]
