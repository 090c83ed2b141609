"""Files of data: one reader for all who fit, compare and predict.

What a column of a text file holds is found once, by all its cells, when a model is fitted (`read_table`). Later files
are read by what the model knows of its columns (`file_chunks`): numbers, bools or strings, and which words mean a
missing value. Nothing is guessed again.
"""

from ._arrays import labels as arrow_labels
from ._arrays import numbers as arrow_numbers
from ._chunks import chunks_of, file_chunks, laid_out, no_rows, rows_in, split
from ._formats import (
    ARROW,
    CSV,
    FORMATS,
    PARQUET,
    check_overwrites_nothing,
    data_file,
    data_files,
    format_of,
    is_same_file,
    is_within,
    state_of,
)
from ._memory import table_of_columns, table_of_pandas
from ._names import columns, listed
from ._table import as_frame, check_float32, labelled_table, read_table
from ._wanted import DataChunk, Wanted

__all__ = [
    "ARROW",
    "CSV",
    "FORMATS",
    "PARQUET",
    "DataChunk",
    "Wanted",
    "arrow_labels",
    "arrow_numbers",
    "as_frame",
    "check_float32",
    "check_overwrites_nothing",
    "chunks_of",
    "columns",
    "data_file",
    "data_files",
    "file_chunks",
    "format_of",
    "is_same_file",
    "is_within",
    "labelled_table",
    "laid_out",
    "listed",
    "no_rows",
    "read_table",
    "rows_in",
    "split",
    "state_of",
    "table_of_columns",
    "table_of_pandas",
]
