"""Certainty of a class, by the trees that are induced when the instance is inserted with each label.

The public functions take the counts of the leaves from one of two algorithms, which agree (`counts_of`), and average
over the labels (`label_average`). `BoundSample` holds a training set for instances that come later.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
from jaxtyping import Float, Int32, Num

from jaxunc._checks import (
    check_bool,
    check_class_axis,
    check_counts,
    check_one_of,
    check_progress,
    check_settings,
    show_settings,
)
from jaxunc._numerics import default_platform
from jaxunc.combiners import Combiner
from jaxunc.inference import over_rows
from jaxunc.tables import Columns, InstancesLike, LabelsLike, NominalLike

from ._dense import dense_work, descend_dense
from ._entropy_trees import checked_limits, entropy_table
from ._grouped import KeptNodes, descend_grouped
from ._pairs import Pairs, PairsProgress
from ._presorted import Presorted, as_queries, presort
from ._scores import InductionSettings

ALGORITHMS = ("auto", "grouped", "dense")

MOST_WORK = {"host": 2**30, "accelerator": 2**40}
"""Largest number of products in the dense algorithm's first step (`dense_work`); beyond, the grouped is faster."""


class TransductionSettings(TypedDict, total=False):
    """Settings of the trees that are grown with inserted instances; `transductive_certainty` explains them."""

    nominal: NominalLike | None
    candidates: str
    min_samples_leaf: int
    algorithm: str
    progress: Callable[[PairsProgress], None] | None


DEFAULTS: dict[str, Any] = {"candidates": "boundary", "min_samples_leaf": 2, "algorithm": "auto"}
"""Defaults of the settings; those not named here are None."""


@show_settings(TransductionSettings, DEFAULTS)
def transductive_certainty(
    X_train: InstancesLike,
    y_train: LabelsLike,
    X: InstancesLike | None = None,
    *,
    combiner: Combiner | None = None,
    **settings: Unpack[TransductionSettings],
) -> Float[np.ndarray, "instances classes"]:
    r"""Return class probabilities by transduction: an instance is inserted with each label, and a tree is learned.

    Let L_i be the leaf of x in the tree of the training set and (x, c_i), and k the number of classes. With x counted,
    \|L_i(c)\| of its \|L_i\| instances are of class c:

    .. math:: \mathrm{Pred}(c)=\frac1k\sum_{i=1}^k\frac{|L_i(c)|+1}{|L_i|+k} \tag{1}

    Parameters
    ----------
    X_train, y_train
        The training set, as for `jaxunc.transduction.grow_greedy_trees`: labels of two classes or more. The columns of
        the answer are the sorted labels.
    X
        Instances ``[instances features]``. Default: leave-one-out, each instance of the training set with all others
        as its training set. It is inserted with every label of y, also one that no other instance has.
    nominal
        The nominal features, as for `jaxunc.tables.fit_columns`. Default: none.
    candidates
        ``"boundary"``: numeric features are cut between neighbouring values of different classes, and a node whose
        training instances are of one class is a leaf. ``"all"``: they are cut between any two values, and a pure node
        is a leaf only if x has its class. Then a wrong label splits a pure node down to a single neighbour, which makes
        the Brier score worse.
    min_samples_leaf
        Least number of instances on each side of a test, x among them; ≥ 1.
    algorithm
        All give the same counts. ``"grouped"``: on the host, sample by sample. ``"dense"``: all pairs (x, c) at once,
        level by level, for nominal features alone. ``"auto"``: dense where it applies and is small enough, else
        grouped.
    progress
        Called now and then with a tuple ``(done, total, seconds)``: the numbers of finished pairs (x, c) and of all,
        and the time. The dense algorithm on an accelerator calls it once, at the end.
    combiner
        Makes probabilities of the k leaves, in place of (1), the mean of Laplace's estimates. Any combiner with a
        probability, such as ``Mean(scorer)``, or `SmoothedMean` with a prior fitted to the leaves.

    Returns
    -------
    Float[np.ndarray, "instances classes"]
        Probabilities that add to 1; float64 without a ``combiner``. The largest is the predicted class's, and the
        reliability of the prediction.

    Raises
    ------
    TypeError, ValueError
        As `jaxunc.transduction.grow_greedy_trees`. If X has other columns, or there are more than 2²⁶ instances. If the
        algorithm is dense and a feature is numeric, ``combiner`` is not a `Combiner`, or ``progress`` is not callable.

    Warns
    -----
    MergedValuesWarning
        If more than 1 % of a column's distinct values are equal to others as float32, in which they are compared.

    Notes
    -----
    The leaf counts are exactly those of k full inductions for each instance, though no tree is grown. The values of x
    make no thresholds, but x counts in the gains. Gains are compared as integers. Of equal gains the first feature's
    wins, at its lowest threshold: ties broken otherwise make other leaves (2 % of them on iris, 39 % on tic-tac-toe). A
    missing number lies below all others, and a missing nominal value is a value by itself. No answer depends on the
    batch. Increasing maps of a feature that keep halfway points halfway, and other names of the classes in the same
    order, change nothing. Not traceable.

    Leave-one-out takes 1.5 to 3.4 times as long as inserting equally many instances (two to eleven classes). Its
    boundaries, thresholds and purity are those without the instance, its levels of nominal features those of all
    instances.

    References
    ----------
    Costa, Verwer and Blockeel 2013, equation 1 and section 4.1; with the tests of
    `jaxunc.transduction.grow_greedy_trees`.

    Examples
    --------
    >>> import jaxunc as ju
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> print(ju.transduction.transductive_certainty(X[1:], y[1:], X[:1]).round(3))
    [[0.95  0.025 0.025]]
    >>> probs = ju.transduction.transductive_certainty(X, y)  # each left out
    >>> round(float(ju.metrics.accuracy(probs, y)), 3)
    0.947
    """
    check_settings(settings, TransductionSettings, "transductive_certainty()")
    _check_combiner(combiner)  # before the work, which takes long
    return label_average(transductive_leaf_counts(X_train, y_train, X, **settings), combiner)


@show_settings(TransductionSettings, DEFAULTS)
def transductive_leaf_counts(
    X_train: InstancesLike,
    y_train: LabelsLike,
    X: InstancesLike | None = None,
    *,
    inductive: bool = False,
    **settings: Unpack[TransductionSettings],
) -> Int32[np.ndarray, "instances labels classes"]:
    """Return the class counts of the leaves behind `transductive_certainty`, for each label of x; x itself is counted.

    Errors and notes are those of `transductive_certainty`.

    Parameters
    ----------
    X_train, y_train, X, nominal, candidates, min_samples_leaf, algorithm, progress
        See `transductive_certainty`.
    inductive
        Whether to add a last entry on the labels' axis: the leaf of x in the tree without x, which is not counted.

    Examples
    --------
    >>> import jaxunc as ju
    >>> ju.transduction.transductive_leaf_counts([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], [[0.5]]).tolist()
    [[[3, 0], [2, 1]]]
    >>> ju.transduction.transductive_leaf_counts([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])[0].tolist()  # left out
    [[2, 0], [1, 1]]
    """
    check_settings(settings, TransductionSettings, "transductive_leaf_counts()")
    values: dict[str, Any] = DEFAULTS | {**settings}
    candidates, min_samples_leaf = values["candidates"], values["min_samples_leaf"]
    progress = values.get("progress")
    check_one_of("algorithm", values["algorithm"], ALGORITHMS)
    checked_limits(candidates, min_samples_leaf)
    check_progress(progress)
    check_bool("inductive", inductive)
    sample = presort(X_train, y_train, values.get("nominal"), name="X_train")
    queries = None if X is None else as_queries(X, sample)
    pairs = Pairs(sample, queries, settings_of(sample, candidates, min_samples_leaf), inductive, progress)
    return counts_of(pairs, values["algorithm"])


def label_average(
    counts: Num[np.ndarray, "... labels classes"], combiner: Combiner | None = None
) -> Float[np.ndarray, "... classes"]:
    """Return the probabilities of `transductive_certainty` from leaf counts, by its equation 1 or a combiner.

    Parameters
    ----------
    counts
        Class counts of the leaf for each label with which the instance was inserted.
    combiner
        A combiner with a probability; default: the mean of (n_c + 1)/(n + k).

    Returns
    -------
    Float[np.ndarray, "... classes"]
        Probabilities, adding to 1.

    Raises
    ------
    TypeError
        If ``combiner`` is not a `Combiner`.
    ValueError
        If counts are negative or not finite, or have one class only.

    Examples
    --------
    >>> import numpy as np
    >>> print(label_average(np.array([[3, 0], [2, 1]])))
    [0.7 0.3]
    """
    _check_combiner(combiner)
    check_class_axis(counts)
    check_counts(counts)
    if combiner is not None:
        counts = np.asarray(counts)
        probability = over_rows(combiner.probability, counts.reshape(-1, *counts.shape[-2:]))
        return probability.reshape(*counts.shape[:-2], probability.shape[-1])
    smoothed = np.asarray(counts, np.float64) + 1
    return (smoothed / smoothed.sum(axis=-1, keepdims=True)).mean(axis=-2)


class LabelAverage(NamedTuple):
    """Answer of class probabilities, and of the class with the largest."""

    probability: Float[np.ndarray, "instances classes"]
    """The mean over the labels with which an instance was inserted: `label_average`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("class", "probability")

    def columns(self, output: str) -> dict[str, np.ndarray]:
        return {output: self.probability.argmax(axis=1) if output == "class" else self.probability}


class BoundSample:
    """A training set, ``sample``, that answers like a bound forest: each instance is inserted with each label.

    ``block_size`` instances are inserted at a time. The other arguments are those of `transductive_certainty`.
    """

    def __init__(
        self,
        sample: Presorted,
        combiner: Combiner | None,
        *,
        candidates: str,
        min_samples_leaf: int,
        algorithm: str,
        block_size: int,
        progress: Callable[[PairsProgress], object] | None = None,
    ):
        self.sample: Presorted = sample
        self.combiner: Combiner | None = combiner
        self.progress: Callable[[PairsProgress], object] | None = progress
        limits = {"candidates": candidates, "min_samples_leaf": min_samples_leaf}
        self.settings: dict[str, Any] = limits | {"algorithm": algorithm, "block_size": block_size}
        self._induction = settings_of(sample, candidates, min_samples_leaf)
        self._node_store = KeptNodes.of(sample)

    @property
    def columns(self) -> Columns:
        return self.sample.columns

    @property
    def class_labels(self) -> tuple[Any, ...]:
        return tuple(self.sample.class_labels)

    def leaf_counts(self, X: Any) -> Int32[np.ndarray, "instances labels classes"]:
        """Return the class counts of the leaf of each instance of X, for each label with which it is inserted."""
        check_progress(self.progress)
        k = self.sample.n_classes
        block_size = self.settings["block_size"]
        queries = as_queries(X, self.sample)
        block_counts = [np.zeros((0, k, k), np.int32)]
        start = time.perf_counter()
        for begin in range(0, queries.n, block_size):
            block = queries.rows(slice(begin, begin + block_size))
            pairs = Pairs(self.sample, block, self._induction)
            block_counts.append(counts_of(pairs, self.settings["algorithm"], self._node_store))
            if self.progress is not None:
                self.progress(PairsProgress(begin + block.n, queries.n, time.perf_counter() - start))
        return np.concatenate(block_counts)

    def answer(self, X: Any) -> LabelAverage:
        counts = self.leaf_counts(X)
        return LabelAverage(np.asarray(label_average(counts, self.combiner))) if len(counts) else self.blank_answer(0)

    def blank_answer(self, n_instances: int = 1) -> LabelAverage:
        """Return an answer of zeros for ``n_instances`` instances, with the shapes and types of `answer`."""
        return LabelAverage(np.zeros((n_instances, self.sample.n_classes)))


def settings_of(sample: Presorted, candidates: str, min_samples_leaf: int) -> InductionSettings:
    """Return the settings of trees for a training set ``sample``; the others are those of `transductive_certainty`."""
    return InductionSettings(
        boundaries=candidates == "boundary", min_samples_leaf=min_samples_leaf, entropy=entropy_table(sample.n + 1)
    )  # + 1: the inserted instance


def counts_of(
    pairs: Pairs, algorithm: str, store: KeptNodes | None = None
) -> Int32[np.ndarray, "instances labels classes"]:
    """Return the class counts of the leaves of all pairs, found by an ``algorithm``, one of `ALGORITHMS`.

    The grouped algorithm reads nodes from ``store``, and adds nodes to it. Raises a ValueError if the algorithm is
    "dense" and a feature is numeric.
    """
    device = "host" if default_platform() == "cpu" else "accelerator"
    if algorithm == "auto":
        algorithm = choose_algorithm(pairs, device)
    if algorithm == "dense":
        if len(pairs.sample.numeric):
            raise ValueError(
                f"algorithm='dense' is for nominal features alone, and {len(pairs.sample.numeric)} of "
                f"{pairs.sample.columns.number} are numeric; pass algorithm='auto', or name all of them in nominal."
            )
        descend_dense(pairs, on_host=device == "host")
    else:
        descend_grouped(pairs, store)
    return pairs.leaf_counts


def choose_algorithm(pairs: Pairs, device: str) -> str:
    """Return what "auto" stands for with these ``pairs``, "dense" or "grouped"; ``device`` is a key of `MOST_WORK`."""
    # Work 0 says that the dense algorithm cannot be used.
    return "dense" if 0 < dense_work(pairs) <= MOST_WORK[device] else "grouped"


def _check_combiner(combiner: Combiner | None) -> None:
    """Raise a TypeError unless ``combiner`` is a `Combiner` or None."""
    if not isinstance(combiner, Combiner | None):
        raise TypeError(
            f"combiner={combiner!r:.60} is a {type(combiner).__name__}; pass one such as Mean(scorer), or None. "
            "(TransductiveTreeClassifier takes names.)"
        )
