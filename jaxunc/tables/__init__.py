"""Data frames on their way in; nominal levels and their codes.

`fit_columns` finds which columns of a training set are nominal, and their levels; `encode_instances` makes of any later
data the float32 array that trees test, the values of such columns as positions among their levels.
"""

from ._cells import FALSE_WORDS, MISSING_WORDS, TRUE_WORDS, are_missing, is_missing, moment_word
from ._columns import Columns, fit_columns, holds_numbers
from ._encode import (
    Encoded,
    MergedValuesWarning,
    check_names,
    encode_arrow,
    encode_instances,
    encode_rows,
    encode_traced,
    spelled,
    warn_of_merged_values,
)
from ._frames import (
    Frame,
    as_column,
    as_floats,
    as_frame,
    as_labels,
    class_positions,
    is_pandas,
    plain_table,
    refuse_quantities,
    training_labels,
)
from ._levels import LARGEST_CODE, Levels, LevelsOfCatBoost, LevelsOfYdf
from ._like import ArrowTable, InstancesLike, LabelsLike, MaskLike, NominalLike, NumbersLike
from ._numbers import SparseRows, array_of, as_csr, is_sparse, plain_pandas

__all__ = [
    "MISSING_WORDS",
    "ArrowTable",
    "Columns",
    "Encoded",
    "InstancesLike",
    "LabelsLike",
    "Levels",
    "MaskLike",
    "MergedValuesWarning",
    "NominalLike",
    "NumbersLike",
    "encode_arrow",
    "encode_instances",
    "fit_columns",
]
