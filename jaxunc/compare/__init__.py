"""Comparison of combiners on a user's table: the study, its report page, displays, and tests of differences.

This room is an application of the library, with the command ``jaxunc compare``. Nothing else in the library imports
it. It needs the packages of the extra ``cli``.
"""

from ._command import show
from ._displays import (
    GREY,
    PALETTE,
    LeafSizeDisplay,
    RejectionDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    UncertaintyDisplay,
    lines_for,
    plain,
)
from ._evaluate import COMPARED_MEASURES, Outcome, UncertaintyMap, evaluate, uncertainty_map
from ._laws import NumberOutcome, evaluate_laws
from ._models import read_given_model
from ._page import write_page
from ._set_displays import (
    ComplexityDisplay,
    CoverageDisplay,
    IntervalReliabilityDisplay,
    PredictionIntervalDisplay,
    SetSizeDisplay,
    StrengthDisplay,
)
from ._settings import COMPARED_COMBINERS, COMPARED_LAWS, FORESTS, Cell, Settings
from ._significance import (
    PairwiseTests,
    average_ranks,
    corrected_t_test,
    holm,
    pairwise_corrected_t,
    pairwise_tests,
    ranks,
    tie_groups,
)
from ._store import Results, Store
from ._study import run, study
from ._summary import TITLES, averages, best_leaf_sizes, ranking, table_of_ranks
from ._table import Table, breast_cancer, study_table

__all__ = [
    "ComplexityDisplay",
    "CoverageDisplay",
    "IntervalReliabilityDisplay",
    "LeafSizeDisplay",
    "PredictionIntervalDisplay",
    "RejectionDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SetSizeDisplay",
    "Settings",
    "StrengthDisplay",
    "Table",
    "UncertaintyDisplay",
    "ranking",
    "run",
]
