"""Ranks and tests of methods compared on the same data sets, or on the same splits of one: on the host, through SciPy.

Everything takes ``values [blocks methods]``: a row per data set (or split), a column per method.
"""

from ._cliques import cliques
from ._corrected_t import CorrectedT, corrected_t_test, pairwise_corrected_t
from ._corrections import bonferroni, holm
from ._friedman import Friedman, friedman
from ._nemenyi import nemenyi_difference
from ._pairwise import PairwiseTests
from ._ranks import average_ranks, ranks
from ._wilcoxon import pairwise_wilcoxon

__all__ = [
    "CorrectedT",
    "Friedman",
    "PairwiseTests",
    "average_ranks",
    "bonferroni",
    "cliques",
    "corrected_t_test",
    "friedman",
    "holm",
    "nemenyi_difference",
    "pairwise_corrected_t",
    "pairwise_wilcoxon",
    "ranks",
]
