"""Rules compared: a study of someone's table, its page, the displays on it and tests of what differs.

An application of the library; nothing else in it imports this room.
"""

from ._cliques import cliques
from ._compared_rules import RULES, Rule
from ._complexity import ComplexityDisplay
from ._corrected_t import CorrectedT, corrected_t_test, pairwise_corrected_t
from ._corrections import bonferroni, holm
from ._critical_difference import CriticalDifferenceDisplay
from ._data import Table, breast_cancer, read_table
from ._evaluate import Outcome, evaluate
from ._friedman import Friedman, friedman
from ._given_model import GivenModel, read_given_model
from ._interval_reliability import IntervalReliabilityDisplay
from ._leaf_sizes import LeafSizeDisplay
from ._nemenyi import nemenyi_difference
from ._page import write_page
from ._pairwise import PairwiseTests
from ._polled import PolledDisplay
from ._ranks import average_ranks, ranks
from ._rejection import RejectionDisplay, RiskCoverageDisplay
from ._reliability import ReliabilityDisplay
from ._run import run
from ._set_sizes import SetSizeDisplay
from ._settings import FORESTS, Settings
from ._settled import SettledDisplay
from ._store import Results, Store
from ._strength import StrengthDisplay
from ._study import Cell, study
from ._style import PALETTE, Line, lines_for
from ._summary import MEASURES, TITLES, Ranking, averages, best_leaf_sizes, frame, ranking, table_of_ranks
from ._table import show
from ._trees_needed import TreesNeededDisplay
from ._uncertainty import UncertaintyDisplay
from ._vote_paths import VotePathsDisplay
from ._wilcoxon import pairwise_wilcoxon

__all__ = [
    "FORESTS",
    "MEASURES",
    "RULES",
    "TITLES",
    "Cell",
    "ComplexityDisplay",
    "CorrectedT",
    "CriticalDifferenceDisplay",
    "Friedman",
    "GivenModel",
    "IntervalReliabilityDisplay",
    "LeafSizeDisplay",
    "Line",
    "Outcome",
    "PairwiseTests",
    "PolledDisplay",
    "Ranking",
    "RejectionDisplay",
    "ReliabilityDisplay",
    "Results",
    "RiskCoverageDisplay",
    "Rule",
    "SetSizeDisplay",
    "Settings",
    "SettledDisplay",
    "Store",
    "StrengthDisplay",
    "Table",
    "TreesNeededDisplay",
    "UncertaintyDisplay",
    "VotePathsDisplay",
    "average_ranks",
    "averages",
    "best_leaf_sizes",
    "bonferroni",
    "breast_cancer",
    "cliques",
    "corrected_t_test",
    "evaluate",
    "frame",
    "friedman",
    "holm",
    "lines_for",
    "nemenyi_difference",
    "pairwise_corrected_t",
    "pairwise_wilcoxon",
    "ranking",
    "ranks",
    "read_given_model",
    "read_table",
    "run",
    "show",
    "study",
    "table_of_ranks",
    "write_page",
]
