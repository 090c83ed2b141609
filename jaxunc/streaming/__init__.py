"""Large batches: data of any size through a model, at constant memory, from files to files."""

from typing import TYPE_CHECKING

from jaxunc._renamed import renamed_in

from ._answerers import OUTPUTS, answering, reads_s
from ._batch_predictor import BatchPredictor
from ._model_file import describe_model, load_model
from ._predict import RunProgress, predict_files
from ._stream import stream

__all__ = ["OUTPUTS", "BatchPredictor", "RunProgress", "predict_files", "stream"]

if not TYPE_CHECKING:  # so that they still report names that do not exist
    __getattr__ = renamed_in(__name__)
