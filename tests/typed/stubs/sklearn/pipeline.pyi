from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

class Pipeline:
    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self: ...
    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.floating]: ...

def make_pipeline(*steps: object) -> Pipeline: ...
