"""Data of any size through a model at constant memory: from files to files, chunk by chunk, or batch by batch."""

from ._batch_predictor import BatchPredictor
from ._chunks import arrange_columns, chunks_of, file_chunks, no_rows, rows_in, split
from ._in_memory import arrow_labels, arrow_numbers, table_of_columns, table_of_pandas
from ._notation import Notation, wished_notation
from ._outputs import OUTPUTS
from ._scoring import as_answering, describe_model, load_model, reads_s
from ._sources import (
    ARROW,
    CSV,
    FORMATS,
    PARQUET,
    DataChunk,
    Wanted,
    check_text,
    columns,
    data_file,
    data_files,
    format_of,
    is_same_file,
    is_within,
    state_of,
)
from ._stream import RunProgress, predict_files, stream
from ._training_rows import describe_counters, describe_leaks, describe_number_texts
from ._training_table import as_frame, labelled_table, notation_of, read_table, row_numbers

__all__ = ["BatchPredictor", "predict_files", "stream"]
