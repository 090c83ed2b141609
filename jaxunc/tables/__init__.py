"""Data frames in; nominal levels and their codes.

`fit_columns` finds which columns of a training set are nominal, and their levels; `as_instances` makes of any later
data the float32 array that trees test, the values of such columns as positions among their levels.
"""

from ._columns import Columns
from ._fit import fit_columns, holds_numbers
from ._instances import as_instances, as_traceable
from ._labels import class_positions
from ._levels import LARGEST_CODE, Levels, fit_levels, level_codes

__all__ = [
    "LARGEST_CODE",
    "Columns",
    "Levels",
    "as_instances",
    "as_traceable",
    "class_positions",
    "fit_columns",
    "fit_levels",
    "holds_numbers",
    "level_codes",
]
