"""Encoding of frames, arrays and sparse matrices on the host as the float32 arrays that trees test.

`fit_columns` finds which columns of a training set are nominal, and their levels. `encode_instances` and its siblings
make arrays of any later data; the values of nominal columns become positions among their levels.
"""

from ._cells import (
    DECIMALS,
    FALSE_WORDS,
    MISSING_WORDS,
    THOUSANDS,
    TRUE_WORDS,
    are_missing,
    check_marks,
    is_missing,
    moment_word,
)
from ._columns import Columns, fit_columns, holds_numbers
from ._encode import (
    MergedValuesWarning,
    check_names,
    encode_arrow,
    encode_instances,
    encode_rows,
    encode_traced,
    holds_float32,
    match_names,
    plain_rows,
    refuse_infinite,
    unchecked_rows,
    usual_type,
    warn_of_merged_values,
)
from ._file_columns import (
    SOME_CLASSES,
    check_float32,
    class_codes,
    class_values,
    feature_numbers,
    is_numeric,
    number_target,
    numbers_as_floats,
)
from ._frames import (
    ArrowTable,
    Encoded,
    Frame,
    InstancesLike,
    LabelsLike,
    MaskLike,
    NominalLike,
    NumbersLike,
    as_column,
    as_floats,
    as_frame,
    as_labels,
    class_positions,
    column_of,
    dense_alone,
    frame_names,
    is_frame,
    is_pandas,
    is_sparse,
    plain_table,
    refuse_quantities,
    training_labels,
)
from ._levels import LARGEST_CODE, Levels, LevelsOfCatBoost, LevelsOfYdf, Lookup, fit_levels
from ._numbers import SparseRows, array_of, as_csr, plain_pandas

__all__ = ["Columns"]
