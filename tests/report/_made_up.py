"""Results without a study."""

from jaxunc import report
from jaxunc.report import Cell, Outcome, Results, Settings, Table

BINS, POINTS = 10, 20


def made_up_results(table: Table, settings: Settings, rules=tuple(report.RULES)) -> Results:
    """Results of the given shape: fold i loses 12.5 + 4 i nats, all rules alike."""
    outcome = {
        Cell(forest, leaf_size, repeat, fold): Outcome(
            {rule: _measures(fold) for rule in rules},
            {rule: {"size": [1] * BINS, "hits": [1] * BINS, "confidence": [0.9] * BINS} for rule in rules},
            {rule: [0.5] * POINTS for rule in rules},
            [[0, 0, 3, 1]],
            {s: _of_sets(decided) for s, decided in (("1", 0.75), ("2", 0.5), ("5", 0.0))},
        )
        for forest in settings.forests
        for leaf_size in settings.leaf_sizes
        for repeat in range(settings.n_repeats)
        for fold in range(settings.n_folds)
    }
    return Results(report.describe(table, settings) | {"rules": list(rules)}, outcome)


def _of_sets(decided: float) -> dict[str, float | None]:
    accuracy = 0.9 if decided else None
    return {"determinacy": decided, "single_set_accuracy": accuracy, "u65": 0.7, "u80": 0.8, "set_size": 2 - decided}


def _measures(fold: int) -> dict[str, float]:
    measures = {"accuracy": 0.5, "auc": 0.5, "brier": 0.25, "log_loss": 12.5 + 4 * fold}
    return {**measures, "calibration_error": 0.1, "risk_coverage": 0.4}
