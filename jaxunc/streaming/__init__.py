"""Large batches: data of any size through a model, at constant memory, from files to files."""

from ._asked import OUTPUTS
from ._predict import Progress, predict_files
from ._scorer import Scorer
from ._stream import stream

__all__ = ["OUTPUTS", "Progress", "Scorer", "predict_files", "stream"]
