"""Arithmetic that the formulas need and JAX does not have: exact sums, order keys, paired words, stable logarithms."""

from ._counts import as_counts, checked_counts, counts_dtype, less_own
from ._digamma import digamma_gaps, log_gamma_gap
from ._distinct import distinct_counts, distinct_rows, narrowest_counts, narrowest_dtype, padded_table
from ._explicit import along_instances, whole
from ._in_order import add_up, is_sum_in_order, log_average, log_softmax, scale_and_move, softmax, sum_in_order
from ._order_keys import NAN_FIRST, NAN_LAST, order_key, order_key_at_or_below, order_key_below
from ._pickles import IN_FILES, Pickled, PickledModule, states_by
from ._programs import jit, own_settings
from ._ranks import same_rank
from ._running import count_before, sum_before
from ._sizes import ceil_div, cores, multiple_of, padded_rows, power_of_two
from ._special import divide_by_shared, floored_log, lambert_w_of_exp, log1p_minus, safe_divide, shares_of
from ._stirling import entropy_gap, stirling_error
from ._two_float import TwoFloat, float_dtype, two_float_from_limbs, two_sum
from ._words import as_bits, of_bits, pair_bits, pair_words, split_bits, split_words, take

__all__ = [
    "IN_FILES",
    "NAN_FIRST",
    "NAN_LAST",
    "Pickled",
    "PickledModule",
    "TwoFloat",
    "add_up",
    "along_instances",
    "as_counts",
    "ceil_div",
    "checked_counts",
    "cores",
    "count_before",
    "counts_dtype",
    "digamma_gaps",
    "distinct_counts",
    "distinct_rows",
    "divide_by_shared",
    "entropy_gap",
    "float_dtype",
    "floored_log",
    "is_sum_in_order",
    "jit",
    "lambert_w_of_exp",
    "less_own",
    "log1p_minus",
    "log_average",
    "log_gamma_gap",
    "log_softmax",
    "multiple_of",
    "narrowest_counts",
    "narrowest_dtype",
    "order_key",
    "order_key_at_or_below",
    "order_key_below",
    "own_settings",
    "padded_rows",
    "padded_table",
    "pair_words",
    "power_of_two",
    "safe_divide",
    "same_rank",
    "scale_and_move",
    "shares_of",
    "softmax",
    "split_words",
    "states_by",
    "stirling_error",
    "sum_before",
    "sum_in_order",
    "take",
    "two_float_from_limbs",
    "two_sum",
    "whole",
]
