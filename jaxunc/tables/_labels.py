"""Labels as positions among the classes."""

from typing import Any

import numpy as np
from jaxtyping import Int

from jaxunc._checks import distinct_labels

from ._frames import as_column, may_be_series, plain_array
from ._like import LabelsLike


def as_labels(y: LabelsLike, name: str = "y") -> Any:
    """Return labels as an array, whatever holds them: also a column of Polars or Arrow; masked ones are missing."""
    if isinstance(y, np.ma.MaskedArray):
        return plain_array(y, name)  # of whatever shape: NumPy would take what lies under the mask
    return as_column(y, name) if may_be_series(y) and np.ndim(y) == 1 else np.asarray(y)


def training_labels(y: LabelsLike, n: int, name: str = "y") -> tuple[tuple[Any, ...], Int[np.ndarray, " instances"]]:
    """The classes of a training set, sorted, and the position of each instance's class.

    Raises a ValueError unless there is a label for each of the n instances, and there are two classes or more; and a
    TypeError if the labels have no order.
    """
    known = as_labels(y, name)
    if known.shape != (n,):
        raise ValueError(f"{name} has shape {known.shape}; pass one label per instance, shape ({n},).")
    if known.dtype.kind == "f" and not np.all(np.isfinite(known)):
        raise ValueError(f"{name} holds NaN or infinite labels; every instance needs one.")
    classes, label = distinct_labels(known)
    if len(classes) < 2:
        raise ValueError(f"{name} holds one class only ({classes.tolist()[0]!r}); trees tell two or more apart.")
    return tuple(classes.tolist()), label


def class_positions(class_labels: tuple[Any, ...], y: LabelsLike) -> Int[np.ndarray, " instances"]:
    """Return the positions of labels among the classes.

    Parameters
    ----------
    class_labels
        The label of each class.
    y
        Labels of the instances, all among them.

    Raises
    ------
    TypeError
        If the labels have no order.
    ValueError
        If y has not one axis, or holds unknown labels (they are named).
    """
    labels = as_labels(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; pass one label per instance, shape (instances,).")
    place = {label: i for i, label in enumerate(class_labels)}
    distinct, inverse = distinct_labels(labels)
    unknown = [label for label in distinct.tolist() if label not in place]
    if unknown:
        raise ValueError(
            f"y holds labels that the forest does not know: {unknown[:5]}; its classes are {list(class_labels)[:10]}."
        )
    return np.array([place[label] for label in distinct.tolist()], dtype=np.int64)[inverse]
