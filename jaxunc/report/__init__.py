"""Comparisons of rules on someone's data: read a table, run a study, show its results."""

from ._compared_rules import RULES, Rule
from ._data import Table, breast_cancer, read_table
from ._doubts import find_counters, find_leaks, texts_like_numbers
from ._evaluate import Outcome, evaluate
from ._given_model import GivenModel, read_given_model
from ._page import write_page
from ._run import run
from ._settings import FORESTS, Settings
from ._store import Results, Store
from ._study import Cell, study
from ._summary import MEASURES, TITLES, Ranking, average_ranks, averages, best_leaf_sizes, frame, ranking
from ._table import show

__all__ = [
    "FORESTS",
    "MEASURES",
    "RULES",
    "TITLES",
    "Cell",
    "GivenModel",
    "Outcome",
    "Ranking",
    "Results",
    "Rule",
    "Settings",
    "Store",
    "Table",
    "average_ranks",
    "averages",
    "best_leaf_sizes",
    "breast_cancer",
    "evaluate",
    "frame",
    "ranking",
    "read_given_model",
    "read_table",
    "run",
    "show",
    "study",
    "write_page",
]
