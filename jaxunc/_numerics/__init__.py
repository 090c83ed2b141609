"""Arithmetic that the formulas need and JAX does not have: exact sums, order keys, stable logarithms."""

from ._counts import as_counts
from ._digamma import digamma_gaps
from ._order_keys import NAN_FIRST, NAN_LAST, order_key, order_key_at_or_below
from ._ranks import same_rank
from ._special import floored_log, lambert_w_of_exp, log1p_minus, safe_divide, shares_of
from ._stirling import entropy_gap, stirling_error
from ._two_float import TwoFloat, float_dtype, two_float_from_limbs, two_sum

__all__ = [
    "NAN_FIRST",
    "NAN_LAST",
    "TwoFloat",
    "as_counts",
    "digamma_gaps",
    "entropy_gap",
    "float_dtype",
    "floored_log",
    "lambert_w_of_exp",
    "log1p_minus",
    "order_key",
    "order_key_at_or_below",
    "safe_divide",
    "same_rank",
    "shares_of",
    "stirling_error",
    "two_float_from_limbs",
    "two_sum",
]
