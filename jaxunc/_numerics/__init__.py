"""Arithmetic that the formulas need and JAX does not have: exact sums, order keys, paired words, stable logarithms."""

from ._bits import (
    NAN_FIRST,
    NAN_LAST,
    as_bits,
    count_before,
    of_bits,
    order_key,
    order_key_at_or_below,
    order_key_below,
    pair_bits,
    pair_words,
    split_bits,
    split_words,
    take,
)
from ._counts import (
    as_counts,
    checked_counts,
    counts_dtype,
    distinct_counts,
    distinct_rows,
    less_own,
    narrowest_counts,
    narrowest_dtype,
    padded_table,
)
from ._pickles import IN_FILES, Pickled, PickledModule, states_by
from ._programs import (
    KeptWhileAlive,
    along_instances,
    ceil_div,
    cores,
    jit,
    multiple_of,
    own_settings,
    padded_rows,
    power_of_two,
    same_rank,
    whole,
)
from ._special import (
    digamma_gaps,
    entropy_gap,
    lambert_w_of_exp,
    log1p_minus,
    log_gamma_gap,
    stirling_error,
)
from ._sums import (
    TwoFloat,
    add_up,
    divide_by_shared,
    float_dtype,
    floored_log,
    is_sum_in_order,
    log_average,
    log_softmax,
    rounded,
    safe_divide,
    scale_and_move,
    shares_of,
    softmax,
    sum_before,
    sum_in_order,
    two_float_from_limbs,
    two_sum,
)
