"""Data frames on their way in; nominal levels and their codes.

`fit_columns` finds which columns of a training set are nominal, and their levels; `as_instances` makes of any later
data the float32 array that trees test, the values of such columns as positions among their levels.
"""

from ._arrow import encode_arrow
from ._columns import Columns
from ._fit import fit_columns
from ._instances import Encoded, as_instances
from ._levels import Levels
from ._merged import MergedValuesWarning
from ._words import MISSING_WORDS

__all__ = [
    "MISSING_WORDS",
    "Columns",
    "Encoded",
    "Levels",
    "MergedValuesWarning",
    "as_instances",
    "encode_arrow",
    "fit_columns",
]
