from typing import Any, Self

from numpy.typing import NDArray

class RandomForestClassifier:
    def __init__(self, n_estimators: int = 100, *, random_state: int | None = None) -> None: ...
    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self: ...
