"""The paper's shortcut for whole batches: as many trees as labels, each instance with another label in each tree."""

import jax
import numpy as np
from jaxtyping import Float

from jaxunc.inference import leaf_counts
from jaxunc.tables import InstancesLike, LabelsLike, NominalLike, encode_instances
from jaxunc.transduction import checked_limits, forest_of, grow_greedy_tree, label_average, presort


def batch_certainty(
    key: jax.Array,
    X_train: InstancesLike,
    y_train: LabelsLike,
    X: InstancesLike,
    *,
    nominal: NominalLike | None = None,
    candidates: str = "boundary",
    min_samples_leaf: int = 2,
) -> Float[np.ndarray, "instances classes"]:
    """Insert the whole batch at once: k trees, in each of which every instance has another label, drawn at random.

    The variant that the paper's conclusion sketches and finds wanting: k trees for all instances, but each leaf then
    depends on the labels of the others. `jaxunc.transductive_certainty` is exact and takes batches too.

    Parameters
    ----------
    key
        A typed key, ``jax.random.key(seed)``, that draws the labels.
    X_train, y_train, X, nominal, candidates, min_samples_leaf
        See `jaxunc.transduction.transductive_certainty`. Values of X make thresholds here.

    Returns
    -------
    Float[np.ndarray, "instances classes"]
        The mean of Laplace's estimates of the k leaves, float64.

    References
    ----------
    Costa, Verwer and Blockeel 2013, section 5.
    """
    limits = checked_limits(candidates, min_samples_leaf)
    train = presort(X_train, y_train, nominal, name="X_train")
    # The batch's own values as the training set knows them: a value that was not seen is one of the others.
    values = np.asarray(encode_instances(X, train.columns)[0])
    known = np.asarray(encode_instances(X_train, train.columns)[0])
    n, k = len(values), train.n_classes
    if not n:
        return np.zeros((0, k))
    keys = jax.random.split(key, n)
    # A permutation for each instance: in k trees it gets every label once.
    labels = np.asarray(jax.vmap(lambda own: jax.random.permutation(own, k))(keys))
    both, codes = np.concatenate([known, values]), train.columns.is_nominal
    counts = []
    for tree in range(k):
        y = np.concatenate([train.label, labels[:, tree]])
        joint = presort(both, y, codes)
        forest = forest_of([grow_greedy_tree(joint, limits)], joint)
        counts.append(np.asarray(leaf_counts(forest, both[len(known) :]))[:, 0])
    return label_average(np.stack(counts, axis=1))
