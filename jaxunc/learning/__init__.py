"""The numbers of a rule, learned from rows whose counts do not know their labels."""

from ._blend import Blended, blend_combiners
from ._choose import Chosen, choose_combiner, guarded
from ._fit import Fitted, fit_combiner, loss_on
from ._honest import honest_rows
from ._leaf_counts import FittedForest, fit_leaf_counts
from ._losses import AucLoss, UtilityLoss, brier_loss, log_loss
from ._rows import HonestRows
from ._standard_errors import Estimate, standard_errors
from ._watch import Progress

__all__ = [
    "AucLoss",
    "Blended",
    "Chosen",
    "Estimate",
    "Fitted",
    "FittedForest",
    "HonestRows",
    "Progress",
    "UtilityLoss",
    "blend_combiners",
    "brier_loss",
    "choose_combiner",
    "fit_combiner",
    "fit_leaf_counts",
    "guarded",
    "honest_rows",
    "log_loss",
    "loss_on",
    "standard_errors",
]
