"""Large batches: data of any size through a model, at constant memory, from files to files."""

from ._answerers import OUTPUTS, answering, reads_s
from ._arrays import labels as arrow_labels
from ._arrays import numbers as arrow_numbers
from ._batch_predictor import BatchPredictor
from ._chunks import chunks_of, file_chunks, laid_out, no_rows, rows_in, split
from ._doubtful_columns import find_counters, find_leaks, texts_like_numbers
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
from ._model_file import describe_model, load_model
from ._names import columns, listed
from ._predict import RunProgress, predict_files
from ._stream import stream
from ._table import as_frame, check_float32, labelled_table, read_table
from ._wanted import DataChunk, Wanted

__all__ = ["OUTPUTS", "BatchPredictor", "RunProgress", "predict_files", "stream"]
