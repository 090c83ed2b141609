"""ONNX: models on their way in (`from_onnx`) and out (`to_onnx`)."""

from ._from_onnx import from_onnx
from ._to_onnx import to_onnx
