"""Out-of-bag instances: those that a tree was not grown on."""

from typing import Any

import numpy as np

from jaxunc._checks import check_integer
from jaxunc.tables import InstancesLike, LabelsLike, NumbersLike

from ._copies import as_groups, rows_together, together
from ._grown_on import check_grown_on
from ._ydf_bags import is_ydf_forest, ydf_bags, ydf_cells


def has_bags(model: Any) -> bool:
    """Return whether a model grows its trees on parts of the instances: scikit-learn's, fitted or not, or YDF's."""
    if is_ydf_forest(model):
        return bool(model.out_of_bag_evaluations())
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
    learner: Any = None,
    groups: LabelsLike | None = None,
) -> np.ndarray:
    """Return which instances each tree of a bootstrapped model has not seen.

    Parameters
    ----------
    model
        A fitted scikit-learn ``RandomForestClassifier`` or ``ExtraTreesClassifier`` with ``bootstrap=True``, or a
        ``BaggingClassifier`` that leaves instances out. Or a random forest of YDF 0.14 or later for classification.
    n
        Number of instances that it was fitted on, in their order.
    X, y, sample_weight
        Those instances, where they are at hand: then it is checked that they are, in their order (see Notes).
    learner
        Of YDF: the ``RandomForestLearner`` that trained the model. Default: one with YDF's own ``random_seed`` and
        bootstrap.
    groups
        A label for each instance, none of them missing: those of one group are out of a bag only together. Default:
        copies are, if X and y are given; else each instance is on its own.

    Returns
    -------
    numpy.ndarray
        Booleans ``[instances trees]``, True where the instance is out of the tree's bag. For `count_leaves`, and as the
        ``tree_mask`` of training instances.

    Raises
    ------
    TypeError
        If the model has no bags, or labels of groups have no order.
    ValueError
        If a label of a group is missing: give such an instance a group of its own. If the model is one of
        imbalanced-learn, is not fitted, was fitted without bootstrap, or on another number of instances; or if X
        and y are not the instances that it was fitted on, in their order.

    Warns
    -----
    UserWarning
        If instances repeat others: see Notes. If the bags of a YDF model are those of its default seed, and X and y are
        not given.

    Notes
    -----
    A bag holds positions. With instances in another order the mask calls unseen what was seen, and labels leak: so
    whatever reads bags with X and y at hand passes them here. The instances, put into the leaves of three trees by
    their bags, have to give the counts that these leaves hold (but for a factor by class: class weights). If the forest
    was grown with sample weights that are not given, the leaves' numbers of instances and their classes are compared.
    What cannot be seen: a few instances that changed places within a leaf, or that none of the three trees drew.

    YDF's models keep no seed; a learner of the same settings draws the same bags, by the same build of YDF. With X and
    y the counts in the leaves of all trees have to agree. Without them hardly anything tells another seed.

    A tree that has seen a **copy** of an instance knows its label. So instances that are equal in all values and the
    label are unseen only together, if they look copied: by oversampling, a join. Where few values are possible, new
    instances are as often equal to old ones, and each is on its own. That is so if hardly fewer rows agree in all
    columns than in a part of them; unless all are repeated equally often. Copies of one column alone, and some of those
    in tables of a few levels, look like the latter: pass ``groups``.
    """
    from sklearn.exceptions import NotFittedError  # slow to import
    from sklearn.utils.validation import check_is_fitted

    name = type(model).__name__
    if is_ydf_forest(model):
        check_integer("n", n, 1, ": the number of training instances")
        if sample_weight is not None:
            raise ValueError("YDF's bags are compared with leaves that count instances; leave sample_weight out.")
        bags = ydf_bags(model, n, learner=learner, X=X, y=y)
        if groups is None and X is not None:
            return _outside(bags, n, rows_together(*ydf_cells(model, X, y)))
        return _outside(bags, n, None if groups is None else as_groups(groups, n))
    if learner is not None:
        raise TypeError(f"learner is for random forests of YDF, and model is a {name}; leave it out.")
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
        values, position = check_grown_on(model, bags, X, y, sample_weight=sample_weight)
        groups = rows_together(values, position, groups)
    else:
        groups = None if groups is None else as_groups(groups, n)
    return _outside(bags, n, groups)


def _outside(bags: list[np.ndarray], n: int, groups: np.ndarray | None) -> np.ndarray:
    mask = np.ones((n, len(bags)), dtype=bool)
    for tree, bag in enumerate(bags):
        mask[bag, tree] = False
    return together(mask, groups)


def mask_of_each(model: Any, n: int, X: InstancesLike, y: LabelsLike) -> np.ndarray:
    """Return the mask of instances that are each on its own, where `oob_mask` has compared X and y with the model."""
    # YDF's bags are known by comparing alone.
    return oob_mask(model, n, X=X, y=y, groups=np.arange(n)) if is_ydf_forest(model) else oob_mask(model, n)
