"""Out-of-bag instances: those that a tree was not grown on."""

from typing import Any

import numpy as np

from jaxunc._checks import check_integer
from jaxunc.tables import InstancesLike, LabelsLike, NumbersLike

from ._grown_on import check_grown_on


def has_bags(model: Any) -> bool:
    """Return whether a scikit-learn model, fitted or not, grows its trees on parts of the instances."""
    if not hasattr(type(model), "estimators_samples_") or samples_anew(model):
        return False
    return bool(getattr(model, "bootstrap", True)) or getattr(model, "max_samples", None) not in (None, 1.0)


def samples_anew(model: Any) -> str | None:
    """Return what to say of a forest whose bags are drawn from rows that it has sampled by class first; else None.

    Those of imbalanced-learn are: their bags hold no positions of the rows that were given.
    """
    if not any(kind.__module__.partition(".")[0] == "imblearn" for kind in type(model).__mro__):
        return None
    return (
        f"{type(model).__name__} draws its bags from rows that it samples by class first, so which rows are out of a "
        "bag is not known. Take counts='held_out' or 'inbag'; or scikit-learn's RandomForestClassifier(bootstrap=True, "
        "class_weight='balanced_subsample'), whose bags are known."
    )


def oob_mask(
    model: Any,
    n: int,
    *,
    X: InstancesLike | None = None,
    y: LabelsLike | None = None,
    sample_weight: NumbersLike | None = None,
) -> np.ndarray:
    """Return which instances each tree of a bootstrapped model has not seen.

    Parameters
    ----------
    model
        A fitted scikit-learn ``RandomForestClassifier`` or ``ExtraTreesClassifier`` with ``bootstrap=True``, or a
        ``BaggingClassifier`` that leaves instances out.
    n
        Number of instances that it was fitted on, in their order.
    X, y, sample_weight
        Those instances, where they are at hand: then it is checked that they are, in their order (see Notes).

    Returns
    -------
    numpy.ndarray
        Booleans ``[instances trees]``, True where the instance is out of the tree's bag. For `recount`, and as the
        ``tree_mask`` of training instances.

    Raises
    ------
    TypeError
        If the model has no bags.
    ValueError
        If it is one of imbalanced-learn, is not fitted, was fitted without bootstrap, or on another number of
        instances; or if X and y are not the instances that it was fitted on, in their order.

    Notes
    -----
    A bag holds positions. With instances in another order the mask calls unseen what was seen, and labels leak: so
    whatever reads bags with X and y at hand passes them here. The instances, put into the leaves of three trees by
    their bags, have to give the counts that these leaves hold (but for a factor by class: class weights). If the forest
    was grown with sample weights that are not given, the leaves' numbers of instances and their classes are compared.
    What cannot be seen: a few instances that changed places within a leaf, or that none of the three trees drew.
    """
    from sklearn.exceptions import NotFittedError  # slow to import
    from sklearn.utils.validation import check_is_fitted

    name = type(model).__name__
    if not hasattr(type(model), "estimators_samples_"):
        raise TypeError(
            f"model is a {name}, which has no bags; pass a random forest, extra trees or bagging classifier."
        )
    if said := samples_anew(model):
        raise ValueError(f"model: {said}")
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError(f"model ({name}) is not fitted; call model.fit(X, y) first.") from error
    if not has_bags(model):
        raise ValueError(
            f"model ({name}) was fitted with bootstrap=False: every tree has seen every instance. "
            'Fit with bootstrap=True, or count on other instances (counts="held_out").'
        )
    check_integer("n", n, 1, ": the number of training instances")
    bags = model.estimators_samples_
    # Bags are drawn anew from the model's seeds, for as many rows as it says: another number would give other bags.
    largest = max((int(np.max(bag)) for bag in bags if len(bag)), default=-1)
    expected = getattr(model, "_n_samples", None)
    if largest >= n or (expected is not None and expected != n):
        found = expected if expected is not None else f"at least {largest + 1}"
        raise ValueError(f"n={n}, but model was fitted on {found} instances; pass the number of training instances.")
    if X is None and (y is not None or sample_weight is not None):
        raise ValueError("y and sample_weight are compared with the model only if X is given; pass X too.")
    if X is not None:
        check_grown_on(model, bags, X, y, sample_weight=sample_weight)
    mask = np.ones((n, len(bags)), dtype=bool)
    for tree, bag in enumerate(bags):
        mask[bag, tree] = False
    return mask
