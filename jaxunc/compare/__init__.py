"""Combiners compared: a study of someone's table, its page, the displays on it, and tests of what differs.

An application of the library, with the command ``jaxunc compare``; nothing else in the library imports this room. It
needs the packages of the extra ``cli``.
"""

from ._command import show
from ._displays import (
    CriticalDifferenceDisplay,
    LeafSizeDisplay,
    RejectionDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    UncertaintyDisplay,
    lines_for,
)
from ._evaluate import COMPARED_MEASURES, Outcome, UncertaintyMap, evaluate, uncertainty_map
from ._given_model import read_given_model
from ._laws import NumberOutcome, evaluate_laws
from ._number_displays import CoverageDisplay, PredictionIntervalDisplay
from ._page import write_page
from ._set_displays import ComplexityDisplay, IntervalReliabilityDisplay, SetSizeDisplay, StrengthDisplay
from ._settings import COMPARED_COMBINERS, COMPARED_LAWS, FORESTS, Cell, Settings
from ._significance import (
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
from ._summary import TITLES, averages, best_leaf_sizes, ranking, table_of_ranks
from ._table import Table, breast_cancer, study_table
from ._vote_displays import PolledDisplay, SettledDisplay, TreesNeededDisplay, VotePathsDisplay

__all__ = [
    "ComplexityDisplay",
    "CoverageDisplay",
    "CriticalDifferenceDisplay",
    "IntervalReliabilityDisplay",
    "LeafSizeDisplay",
    "PolledDisplay",
    "PredictionIntervalDisplay",
    "RejectionDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SetSizeDisplay",
    "Settings",
    "SettledDisplay",
    "StrengthDisplay",
    "Table",
    "TreesNeededDisplay",
    "UncertaintyDisplay",
    "VotePathsDisplay",
    "ranking",
    "run",
]
