"""What a file holds of a fitted classifier: its attributes, checked, and the part of them that answers."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest, bind
from jaxunc.tables import Columns

ARRAYS = ("classes_", "feature_names_in_", "nominal_", "oob_set_", "oob_decision_function_")
"""Names of attributes that are NumPy arrays."""
KEPT = (*ARRAYS, "n_features_in_", "oob_score_", "forest_", "combiner_", "_columns")
"""Fitted attributes that are kept, beside the sample of transduction. Scikit-learn's own forest is not, nor how
learning went: no answer reads them."""


class StoredClassifier:
    """A fitted classifier as its file has it: it answers, and takes scikit-learn only where it must."""

    def __init__(self, name: str, fitted: dict[str, Any], classifier: Callable[[], Any]):
        fitted = checked(name, {key: part for key, part in fitted.items() if key not in ("sample", "chosen")})
        self.bound_: BoundForest = bind(fitted["forest_"], fitted["combiner_"])
        self.feature_names_in_: np.ndarray | None = fitted.get("feature_names_in_")
        self._classifier = classifier

    @cached_property
    def takes_missing(self) -> bool:
        """Whether the classifier takes missing values, which scikit-learn knows of its parameters."""
        from sklearn.utils import get_tags

        return get_tags(self._classifier()).input_tags.allow_nan


def checked(name: str, fitted: dict[str, Any]) -> dict[str, Any]:
    """Return fitted attributes that belong together; raises a ValueError for others."""
    wide = fitted.pop("wide", None)
    if isinstance(wide, Forest):  # of files of the first versions, in which it was another forest
        fitted["forest_"] = wide
    if unknown := sorted(set(fitted) - set(KEPT)):
        raise ValueError(f"the file gives {name} the attributes {unknown[:5]}, which it does not have.")
    kinds: dict[str, Any] = {**dict.fromkeys(ARRAYS, np.ndarray), "n_features_in_": int, "oob_score_": float}
    kinds |= {"forest_": Forest, "combiner_": Combiner, "_columns": Columns}
    needs_forest = has_forest(name)
    needed = {"classes_", "n_features_in_", *(("forest_", "combiner_") if needs_forest else ())}
    for attribute in sorted(needed | set(fitted)):
        if not isinstance(fitted.get(attribute), kinds[attribute]):
            raise broken(name, attribute)
    number, classes = fitted["n_features_in_"], fitted["classes_"]
    if classes.ndim != 1 or len(classes) < 2 or isinstance(number, bool) or number < 1:
        raise broken(name, "classes_ and n_features_in_")
    names = fitted.get("feature_names_in_")
    if names is not None and names.shape != (number,):
        raise broken(name, "feature_names_in_")
    if needs_forest:
        forest = fitted["forest_"]
        if forest.n_features != number or tuple(classes.tolist()) != forest.class_labels:
            raise broken(name, "classes_ and n_features_in_")
    return fitted


def has_forest(name: str) -> bool:
    """Return whether classifiers of that name answer by a forest; transduction keeps a sample instead."""
    return name != "TransductiveTreeClassifier"


def broken(name: str, attribute: str) -> ValueError:
    """Return the error of an attribute that does not fit."""
    return ValueError(f"the file's {name} has no {attribute} that fits the rest of it.")
