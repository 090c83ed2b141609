"""Data frames on their way in; nominal levels and their codes.

`fit_columns` finds which columns of a training set are nominal, and their levels; `encode_instances` makes of any later
data the float32 array that trees test, the values of such columns as positions among their levels.
"""

from ._arrow import encode_arrow
from ._cells import are_missing, is_missing
from ._columns import Columns
from ._fit import fit_columns, holds_numbers
from ._frames import Frame, as_column, as_frame, is_pandas
from ._instances import Encoded, check_names, encode_instances, encode_rows, encode_traced, spelled
from ._labels import as_labels, class_positions, training_labels
from ._levels import LARGEST_CODE, Levels, LevelsOfCatBoost, LevelsOfYdf
from ._like import ArrowTable, InstancesLike, LabelsLike, MaskLike, NominalLike, NumbersLike
from ._merged import MergedValuesWarning, warn_of_merged_values
from ._moments import moment_word
from ._numbers import array_of, plain_pandas
from ._sparse import SparseRows, as_csr, is_sparse
from ._table import as_floats, plain_table, refuse_quantities
from ._words import FALSE_WORDS, MISSING_WORDS, TRUE_WORDS

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
