from typing import Any

import numpy as np
from jax import Array
from numpy.typing import NDArray

def log_loss(y_true: NDArray[Any], y_pred: NDArray[np.floating] | Array) -> float: ...
