"""Comparisons of rules on someone's data: read a table, run a study, show its results."""

from ._compare import (
    FORESTS,
    METRICS,
    Record,
    Settings,
    check_folds,
    check_writable,
    evaluate,
    measure,
    study,
    write_json,
)
from ._data import Table, breast_cancer, read_table
from ._progress import run
from ._rules import RULES, Rule, all_rules, rules_for
from ._table import average_ranks, averages, best_leaf_sizes, show

__all__ = [
    "FORESTS",
    "METRICS",
    "RULES",
    "Record",
    "Rule",
    "Settings",
    "Table",
    "all_rules",
    "average_ranks",
    "averages",
    "best_leaf_sizes",
    "breast_cancer",
    "check_folds",
    "check_writable",
    "evaluate",
    "measure",
    "read_table",
    "rules_for",
    "run",
    "show",
    "study",
    "write_json",
]
