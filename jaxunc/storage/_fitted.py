"""Attributes of fitted estimators, as files have them: which are kept, and whether they belong together."""

from typing import Any

import numpy as np

from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.regression import BoundLaw, LeafMoments, LeafScales, NumberLaw, TargetBins
from jaxunc.tables import Columns

ARRAYS = ("classes_", "feature_names_in_", "nominal_", "oob_set_", "oob_decision_function_", "calibration_")
"""Names of attributes that are NumPy arrays."""
OF_NUMBERS = {"moments_": LeafMoments | LeafScales, "bins_": TargetBins, "law_": NumberLaw, "_reads_given": bool}
"""Names of attributes of a regressor, and what they are."""
KEPT = (*ARRAYS, *OF_NUMBERS, "n_features_in_", "oob_score_", "forest_", "combiner_", "_columns", "_raw_types")
"""Fitted attributes that are kept, beside the sample of transduction. Scikit-learn's own forest is not, nor how
learning went: no answer reads them."""


def checked(name: str, fitted: dict[str, Any], *, raw: bool = False) -> dict[str, Any]:
    """Return fitted attributes that belong together; raises a ValueError for others.

    Where a pipeline takes ``raw`` columns, the forest has others.
    """
    if unknown := sorted(set(fitted) - set(KEPT)):
        raise ValueError(f"the file gives {name} the attributes {unknown[:5]}, which it does not have.")
    kinds: dict[str, Any] = {**dict.fromkeys(ARRAYS, np.ndarray), "n_features_in_": int, "oob_score_": float}
    kinds |= {"forest_": Forest, "combiner_": Combiner, "_columns": Columns, "_raw_types": tuple}
    needs_forest = has_forest(name)
    needed = {"classes_", *(("forest_", "combiner_") if needs_forest else ())}
    number = _check_kinds(name, fitted, needed, kinds, raw=raw)
    classes = fitted["classes_"]
    if classes.ndim != 1 or len(classes) < 2:
        raise broken(name, "classes_ and n_features_in_")
    if not _is_calibration(fitted.get("calibration_"), len(classes)):
        raise broken(name, "calibration_")
    if needs_forest:
        forest = fitted["forest_"]
        if (forest.n_features != number and not raw) or tuple(classes.tolist()) != forest.class_labels:
            raise broken(name, "classes_ and n_features_in_")
    return fitted


def _check_kinds(name: str, fitted: dict[str, Any], needed: set[str], kinds: dict[str, Any], *, raw: bool) -> int:
    """Raise a ValueError for attributes of other kinds, and return the number of columns."""
    texts = raw and "n_features_in_" not in fitted  # which have no columns
    for attribute in sorted(needed | set(fitted) | (set() if texts else {"n_features_in_"})):
        if not isinstance(fitted.get(attribute), kinds[attribute]):
            raise broken(name, attribute)
    number, names, types = fitted.get("n_features_in_", 1), fitted.get("feature_names_in_"), fitted.get("_raw_types")
    if isinstance(number, bool) or number < 1:
        raise broken(name, "n_features_in_")
    if names is not None and names.shape != (number,):
        raise broken(name, "feature_names_in_")
    if types is not None and (len(types) != number or not all(isinstance(raw_type, str) for raw_type in types)):
        raise broken(name, "_raw_types")
    return number


def checked_numbers(name: str, fitted: dict[str, Any], *, raw: bool = False) -> dict[str, Any]:
    """Return fitted attributes of a regressor that belong together; raises a ValueError for others.

    Where a pipeline takes ``raw`` columns, the forest has others.
    """
    kinds = {**OF_NUMBERS, "n_features_in_": int, "forest_": Forest, "feature_names_in_": np.ndarray}
    kinds["_raw_types"] = tuple
    if unknown := sorted(set(fitted) - set(kinds)):
        raise ValueError(f"the file gives {name} the attributes {unknown[:5]}, which it does not have.")
    number = _check_kinds(name, fitted, set(OF_NUMBERS), kinds, raw=raw)
    trees, n_bins, forest = fitted["moments_"].kept.trees, fitted["bins_"].n_bins, fitted.get("forest_")
    if trees.n_features != number and not raw:
        raise broken(name, "n_features_in_ and feature_names_in_")
    if (forest is None) != (n_bins == 1 or isinstance(fitted["moments_"], LeafScales)) or (
        forest is not None and (forest.class_labels != tuple(range(n_bins)) or forest.n_features != trees.n_features)
    ):
        raise broken(name, "forest_ and bins_")
    return fitted


def law_of(fitted: dict[str, Any]) -> BoundLaw:
    """Return what answers of a regressor's attributes."""
    return BoundLaw(fitted["moments_"], fitted["bins_"], fitted.get("forest_"), fitted["law_"])


def _is_calibration(kept: np.ndarray | None, n_classes: int) -> bool:
    """Return whether rows hold a probability and a class each, and perhaps a weight; or there are none."""
    if kept is None:
        return True
    if kept.dtype != np.float32 or kept.ndim != 2 or kept.shape[1] not in (2, 3):
        return False
    probability, position, *weight = kept.T
    sound = (probability >= 0) & (probability <= 1.001) & (position >= 0) & (position < n_classes) & (position % 1 == 0)
    return bool(np.all(sound) and all(np.all((part > 0) & np.isfinite(part)) for part in weight))


def has_forest(name: str) -> bool:
    """Return whether classifiers of that name answer by a forest; transduction keeps a sample instead."""
    return name != "TransductiveTreeClassifier"


def broken(name: str, attribute: str) -> ValueError:
    return ValueError(f"the file's {name} has no {attribute} that fits the rest of it.")
