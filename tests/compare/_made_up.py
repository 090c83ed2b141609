"""Results without a study, and those of studies that were run: `cells` of given sets, as the command wrote them."""

import json
import lzma
from pathlib import Path

from jaxunc import compare
from jaxunc.compare import Cell, Outcome, Results, Settings, Table
from jaxunc.compare._store import describe

BINS, POINTS = 10, 20
DECIDED = {"1": 0.75, "2": 0.5, "3": 0.25, "5": 0.0, "10": 0.0, "20": 0.0}


def made_up_results(table: Table, settings: Settings, combiners=tuple(compare.COMPARED_COMBINERS)) -> Results:
    """Results of the given shape: fold i loses 12.5 + 4 i nats, all combiners alike."""
    n_classes = len(table.class_labels)
    outcome = {
        Cell(forest, leaf_size, repeat, fold): Outcome(
            {combiner: _measures(fold) for combiner in combiners},
            {combiner: {"size": [1] * BINS, "hits": [1] * BINS, "confidence": [0.9] * BINS} for combiner in combiners},
            {combiner: [0.5] * POINTS for combiner in combiners},
            [[0, 0, 3, 1]],
            {s: _of_sets(decided) for s, decided in DECIDED.items()},
            {
                s: [round(8 * decided), round(8 * (1 - decided))] + [0] * (n_classes - 2)
                for s, decided in DECIDED.items()
            },
            _of_intervals(),
            {"lower": 0.1 / leaf_size, "mean": 0.25, "upper": 0.5} if n_classes == 2 else {},
            {"n_polled": 12.5, "settled": 0.9, "accuracy": 0.5, "whole_accuracy": 0.5, "same": 0.99},
            {combiner: _of_positive() for combiner in combiners if n_classes == 2},
            {combiner: 0.5 for combiner in combiners if settings.costs},
            [_doubtful(fold)],
        )
        for forest in settings.forests
        for leaf_size in settings.leaf_sizes
        for repeat in range(settings.n_repeats)
        for fold in range(settings.n_folds)
    }
    return Results(describe(table, settings) | {"combiners": list(combiners)}, outcome)


def kept_results(name: str) -> Results:
    """Results of `jaxunc compare NAME.csv --target target --forests random-forest --combiners …` on a given set."""
    path = Path(__file__).parent / "cells" / f"{name}.json.xz"
    about = json.loads(lzma.decompress(path.read_bytes()))
    entries = about.pop("forests")
    read = lambda entry, kind: kind(*(entry[part] for part in kind._fields))
    return Results(about, {read(entry, Cell): read(entry, Outcome) for entry in entries})


def _of_positive() -> dict:
    sums = {"size": [2] * 16, "hits": [1] * 16, "probability": [1.0] * 16}
    return {"average_precision": 0.5, "top": [0.9, 0.8, 0.7, 0.6], **sums}


def _doubtful(fold: int) -> dict:
    numbers = {"row": fold + 1, "truth": 0, "predicted": 1, "probability": 0.5, "aleatoric": 0.2, "epistemic": 0.7}
    return {**numbers, "leaf_rows": 2.0, "columns": {"a": "1", "b": "x"}, "alike": [[7, 0], [5, 1], [9, 0]]}


def _of_sets(decided: float) -> dict[str, float | None]:
    accuracy = 0.9 if decided else None
    return {"determinacy": decided, "single_set_accuracy": accuracy, "u65": 0.7, "u80": 0.8, "set_size": 2 - decided}


def _of_intervals() -> dict[str, list]:
    """Ten predictions a bin but the last, in the bin's middle, and intervals of .1 around them; half come true."""
    size = [10] * (BINS - 1) + [0]
    sums = [n * (i + 0.5) / BINS for i, n in enumerate(size)]
    ends = ([total + n * shift for total, n in zip(sums, size, strict=True)] for shift in (-0.05, 0.05))
    return dict(
        zip(("size", "hits", "probability", "lower", "upper"), (size, [n // 2 for n in size], sums, *ends), strict=True)
    )


def _measures(fold: int) -> dict[str, float]:
    measures = {"accuracy": 0.5, "auc": 0.5, "brier": 0.25, "log_loss": 12.5 + 4 * fold}
    return {**measures, "calibration_error": 0.1, "risk_coverage": 0.4}
