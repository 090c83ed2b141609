"""Labels as positions among the classes."""

import numpy as np
from jaxtyping import Int

from jaxunc._checks import distinct_labels


def class_positions(class_labels: tuple, y) -> Int[np.ndarray, " instances"]:
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
    labels = np.asarray(y)
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
