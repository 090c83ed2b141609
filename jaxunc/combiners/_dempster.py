"""Dempster's rule and the unnormalised conjunctive rule."""

from typing import ClassVar

from jaxunc.tables import NumbersLike

from ._belief_rule import BeliefRule


class DempsterRule(BeliefRule):
    r"""Leaves as belief functions, combined conjunctively.

    A leaf's mass is m({±}) = s±, m(Ω) = u_e + u_a (`scorers.plausibility`). Commonalities q multiply, so the fold over
    trees is a sum of logarithms:

    .. math:: m(\{\pm\}) = Q_\pm - Q_\Omega, \quad Q_\pm = \prod_i q_i(\{\pm\}), \quad
              Q_\Omega = \prod_i m_i(\Omega) = Q_- Q_+

    Parameters
    ----------
    normalized
        Whether the score is read after dividing by 1 - m(∅) (Dempster's rule) or before (the conjunctive rule, which
        Busch et al. call Dempster).
    eps
        Smallest ignorance of a leaf: m_i(Ω) ≥ eps, applied once to each leaf. With eps = 0 the rule is exact, and the
        more certain of two opposed leaves wins; the paper's code clips at every step of a pairwise recursion, so that
        its answer depends on the order of the trees.
    prior
        Prior probability of class 1, or [negative, positive]: support then counts from there instead of from 1/2. An
        addition to the paper, for imbalanced classes; 1/2 (the default) is the paper.
    reliability
        Classical discounting: m(A) → r m(A), m(Ω) → 1 - r + r m(Ω) before combining. One number in [0, 1], or one per
        tree; differentiable. Default: no discounting.

    Raises
    ------
    ValueError
        If eps is outside [0, 1), a reliability outside [0, 1], the prior not between 0 and 1, or the counts have more
        than two classes (use OneVsRest).

    Notes
    -----
    Class scores: log Q of the singletons (− and +), at most 0; `margin` of them, the log ratio of the plausibilities,
    ranks (an addition: in the paper's place of the score). Score: m(+) - m(−), normalised or not: with many trees the
    unnormalised one vanishes and the normalised one saturates, so do not rank by it. Probability: pignistic, of the
    normalised masses. An empty leaf is neutral; no tree: scores 0, probability 1/2.

    Gradient: that of the plausibility; 0 for leaves beyond eps and for empty ones. The margin is smooth where a leaf is
    evenly split, as are score and probability where the margin is 0; a class score has a kink at such a leaf, and the
    mean of the slopes at both sides.

    References
    ----------
    Busch et al. 2021, section 4, "Dempster"; Shafer 1976.
    """

    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True
    silence: ClassVar[float] = 0.0

    def __init__(
        self,
        normalized: bool = False,
        eps: NumbersLike = 1e-5,
        prior: NumbersLike | None = None,
        reliability: NumbersLike | None = None,
    ):
        super().__init__(normalized, eps, prior, reliability)
