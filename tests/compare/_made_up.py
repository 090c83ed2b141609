"""Results without a study, and those of studies that were run: `cells` of given sets, as the command wrote them."""

import io
import json
import lzma
from pathlib import Path

from rich.console import Console

from jaxunc import compare
from jaxunc.compare import Cell, Outcome, Results, Settings, Table
from jaxunc.compare._settings import cells
from jaxunc.compare._store import describe

DECIDED = {"1": 0.75, "2": 0.5, "3": 0.25, "5": 0.0, "10": 0.0, "20": 0.0}


def made_up_results(table: Table, settings: Settings, combiners=tuple(compare.COMPARED_COMBINERS)) -> Results:
    """Results of the given shape: fold i loses 12.5 + 4 i nats, all combiners alike."""
    n_classes = len(table.class_labels)
    each = lambda make, applies=True: {combiner: make() for combiner in combiners if applies}
    outcomes = {
        cell: Outcome(
            measures=each(lambda cell=cell: _measures(cell.fold)),
            reliability=each(lambda: {"size": [1] * 10, "hits": [1] * 10, "confidence": [0.9] * 10}),
            rejection=each(lambda: [0.5] * 20),
            uncertainty=[[0, 0, 3, 1]],
            sets={s: _of_sets(decided) for s, decided in DECIDED.items()},
            set_sizes={s: [round(8 * d), round(8 * (1 - d))] + [0] * (n_classes - 2) for s, d in DECIDED.items()},
            intervals=_of_intervals(),
            brier_range={"lower": 0.1 / cell.leaf_size, "mean": 0.25, "upper": 0.5} if n_classes == 2 else {},
            polling={"n_polled": 12.5, "settled": 0.9, "accuracy": 0.5, "whole_accuracy": 0.5, "same": 0.99},
            positive=each(_of_positive, n_classes == 2),
            costs=each(lambda: 0.5, settings.costs),
            doubtful=[_doubtful(cell.fold)],
        )
        for cell in cells(settings)
    }
    return Results(describe(table, settings) | {"combiners": list(combiners)}, outcomes)


def kept_results(name: str) -> Results:
    """Results of `jaxunc compare NAME.csv --target target --forests random-forest --combiners …` on a given set."""
    path = Path(__file__).parent / "cells" / f"{name}.json.xz"
    about = json.loads(lzma.decompress(path.read_bytes()))
    entries = about.pop("forests")
    read = lambda entry, kind: kind(*(entry[part] for part in kind._fields))
    return Results(about, {read(entry, Cell): read(entry, Outcome) for entry in entries})


def shown(results: Results, width: int = 100, encoding: str = "utf-8") -> str:
    """What a terminal of this width and encoding shows."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    compare.show(Console(file=stream, width=width), results)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


def _measures(fold: int) -> dict[str, float]:
    measures = {"accuracy": 0.5, "auc": 0.5, "brier": 0.25, "log_loss": 12.5 + 4 * fold}
    return {**measures, "calibration_error": 0.1, "risk_coverage": 0.4}


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
    size = [10] * 9 + [0]
    sums = [n * (i + 0.5) / 10 for i, n in enumerate(size)]
    lower, upper = ([total + n * shift for total, n in zip(sums, size, strict=True)] for shift in (-0.05, 0.05))
    return {"size": size, "hits": [n // 2 for n in size], "probability": sums, "lower": lower, "upper": upper}
