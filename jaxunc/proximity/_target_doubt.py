"""Wrong labels and targets: how far a training row's target is from the targets of its neighbours out of bag."""

from typing import Any

import numpy as np

from jaxunc.regression import checked_target
from jaxunc.tables import InstancesLike, LabelsLike, NumbersLike, class_positions

from ._leaf_rows import contents_of, unwrap_model
from ._neighbours import NeighbourIndex

ROUNDING = 1e-12
"""Size, relative to a mean, up to which differences from it are only rounding."""


def target_doubt(
    model: Any,
    y: LabelsLike,
    *,
    rows: InstancesLike,
    sample_weight: NumbersLike | None = None,
    groups: LabelsLike | None = None,
) -> np.ndarray:
    r"""Return how doubtful each training row's target is, by its neighbours out of bag: large values point to errors.

    .. math:: d_i = 1 - \sum_j w_{ij} [y_j = y_i], \qquad
              d_i = \frac{|y_i - m_i|}{\sqrt{\sum_j w_{ij} (y_j - m_i)^2}}, \quad m_i = \sum_j w_{ij} y_j

    For labels, the first formula, the doubt is the weight of the neighbours with another label: 1 less the out-of-bag
    probability of the row's label. For numbers, the second, it is the out-of-bag residual over the spread of the
    neighbours' targets. A residual weighs more where the neighbours agree with each other.

    Parameters
    ----------
    model
        A forest or bag of scikit-learn that was grown on bags, a pipeline that ends in one, or an estimator of this
        library with one. As for ``kind="out_of_bag"`` of `neighbours`.
    y
        The labels or targets that the model was grown with ``[rows]``.
    rows, sample_weight, groups
        As for `neighbours`.

    Returns
    -------
    numpy.ndarray
        Float64 ``[rows]``, larger is more doubtful: in [0, 1] for labels, ≥ 0 for numbers. NaN for a row in every bag.
        Where all neighbours have the same number, 0 if it is the row's target too, else infinite.

    Raises
    ------
    TypeError, ValueError
        As `neighbours` does with ``kind="out_of_bag"``: without bags, for rows or y that did not grow the model.

    Warns
    -----
    UserWarning
        As `neighbours`, about copies.

    Notes
    -----
    Computed in blocks on the host: memory does not grow with the pairs of rows. With 8 % wrong labels, the 8 % of rows
    with the largest doubt hold 76 % of them (mean of 8 data sets). With 5 % exchanged targets, the 5 % of rows with the
    largest doubt hold 47 % of them (7 data sets); those with the largest residual hold 43 %.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from jaxunc.proximity import target_doubt
    >>> X, y = load_diabetes(return_X_y=True)
    >>> y[7] = 1000 - y[7]
    >>> forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> int(np.nanargmax(target_doubt(forest, y, rows=X)))
    7
    """
    forest, _ = unwrap_model(model)
    contents = contents_of(forest)
    index = NeighbourIndex(model, rows, kind="out_of_bag", y=y, sample_weight=sample_weight, groups=groups)
    row = np.arange(index.n_rows)
    if contents.counts is not None:
        position = class_positions(contents.class_labels, y)
        agreement = index.means(np.eye(len(contents.class_labels))[position])[row, position]
        return np.maximum(1 - agreement, 0)  # rounding may leave a share above 1
    target = checked_target(y, index.n_rows)
    offset = target - np.median(target)  # one large error moves the median little, and costs others no digits
    mean, spread = index._mean_and_spread(offset)
    residual = np.abs(offset - mean)
    # Where all targets are alike, what is left is rounding.
    rounding = ROUNDING * np.abs(mean)
    residual = np.where(residual <= rounding, 0, residual)
    spread = np.where(spread <= rounding, 0, spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((spread == 0) & (residual == 0), 0.0, residual / spread)
