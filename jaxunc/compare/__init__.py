"""Rules compared: a study of someone's table, its page, the displays on it and tests of what differs.

An application of the library; nothing else in it imports this room.
"""

from ._command import show
from ._displays import (
    PALETTE,
    CriticalDifferenceDisplay,
    LeafSizeDisplay,
    Line,
    RejectionDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    UncertaintyDisplay,
    lines_for,
)
from ._evaluate import Outcome, evaluate
from ._inputs import GivenModel, Table, breast_cancer, read_given_model, read_table
from ._page import write_page
from ._set_displays import ComplexityDisplay, IntervalReliabilityDisplay, SetSizeDisplay, StrengthDisplay
from ._settings import FORESTS, RULES, Cell, Rule, Settings
from ._significance import (
    CorrectedT,
    Friedman,
    PairwiseTests,
    average_ranks,
    bonferroni,
    cliques,
    corrected_t_test,
    friedman,
    holm,
    nemenyi_difference,
    pairwise_corrected_t,
    pairwise_wilcoxon,
    ranks,
)
from ._store import Results, Store
from ._study import run, study
from ._summary import MEASURES, TITLES, Ranking, averages, best_leaf_sizes, frame, ranking, table_of_ranks
from ._vote_displays import PolledDisplay, SettledDisplay, TreesNeededDisplay, VotePathsDisplay

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
