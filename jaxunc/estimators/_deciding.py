"""Methods that every classifier has beside ``predict``: sets of classes, rejections, intervals, uncertainty."""

from typing import Any, Literal, NamedTuple

import numpy as np

from jaxunc.combiners import AveragedIntervals, Combiner, Uncertainty, UncertaintyDecomposition
from jaxunc.counting import find_rows_of_fit, warn_of_one_doubt
from jaxunc.decisions import Calibration, best_sets, check_coverage, cost_matrix, decided, promised_sets
from jaxunc.inference import bind
from jaxunc.interop import n_rows
from jaxunc.scorers import Interval
from jaxunc.tables import InstancesLike, LabelsLike, NumbersLike, class_positions

from ._checked_data import check_fitted

KEEPS_NONE = "pass calibration=(X, y) of such rows"
KEEPS_SOME = KEEPS_NONE + " (those of the fit, if its forest has bags), or fit it with counts='oob' or 'held_out'"
"""Advice for sets at a coverage, of models that never keep calibration rows, and of those that may."""


class Decision(NamedTuple):
    """The label whose decision is cheapest for each instance, and whether rejecting the instance is cheaper still."""

    label: np.ndarray
    """Label of the class with the least expected cost ``[instances]``, also where ``rejected``."""
    rejected: np.ndarray
    """Whether a rejection is expected to cost less than deciding for ``label``, bools ``[instances]``."""


class RowsOfFit(NamedTuple):
    """What a classifier keeps of the rows of its fit; the defaults are for a classifier from a file."""

    hashes: np.ndarray | None = None  # of the rows of positive weight, as `_hash_rows` makes them
    weight: np.ndarray | None = None  # of the rows that leaves count; None if all weigh 1, or the trees came fitted
    groups: np.ndarray | None = None  # number of each row's group; None without labels of groups
    counts: str = "inbag"  # the parameter ``counts`` of the fit
    came_fitted: bool = True  # whether trees have seen others than these rows, or may have

    def are_rows(self, hashes: np.ndarray) -> bool:
        """Return whether rows with these ``hashes [rows]`` are those of the fit, in the same order.

        Rows of weight 0, of which the fit keeps no hash, may stand between them. False for a classifier from a file.
        """
        if self.hashes is None:
            return False
        remaining_hashes = iter(hashes.tolist())
        # ``in`` takes hashes from the iterator up to the one that is looked for, so that the order counts.
        return all(hash_of_row in remaining_hashes for hash_of_row in self.hashes.tolist())


class Deciding:
    """Base class of the classifiers: decisions that agree with ``predict_proba`` and ``predict``."""

    classes_: np.ndarray
    calibration_: np.ndarray
    _advice = KEEPS_NONE
    _fit_record: tuple[Any, ...] = ()  # the fields of `RowsOfFit`, whose class writers such as skops would not trust

    def _rows_of_fit(self) -> RowsOfFit:
        """Return what is kept of the rows of the fit."""
        return RowsOfFit(*self._fit_record)

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``."""
        raise NotImplementedError

    def predict_set(
        self,
        X: InstancesLike,
        *,
        utility: Any = None,
        coverage: float | None = None,
        by_class: bool = False,
        calibration: tuple[InstancesLike, LabelsLike] | None = None,
    ) -> np.ndarray:
        """Sets of classes, bools ``[instances classes]``, by expected utility or by how often sets hold the truth.

        Parameters
        ----------
        X
            Instances, as for `predict`.
        utility
            What a set is worth: ``"u65"`` (the default), ``"u80"``, or numbers, as for
            `jaxunc.decisions.expected_utility_set`.
        coverage
            How often sets are to hold the truth, in (0, 1): see `jaxunc.decisions.conformal_sets` for what is promised.
        by_class
            With ``coverage``: whether it is promised for the instances of each class, and not only for all together.
        calibration
            With ``coverage``: instances and labels ``(X, y)`` that the model was not fitted to; or all that a forest
            with bags was fitted to, in their order. Default: the rows that ``fit`` kept as ``calibration_``.

        Returns
        -------
        np.ndarray
            Bools, in the order of ``classes_``. The most probable class and that of `predict` are in every set.

        Raises
        ------
        ValueError, TypeError
            If both ``utility`` and ``coverage`` are given, or ``by_class`` or ``calibration`` without ``coverage``. If
            there are no calibration rows, fewer than the rank needs, or rows that the model was fitted to. What
            `jaxunc.decisions.expected_utility_set` and `jaxunc.decisions.conformal_sets` refuse.

        Notes
        -----
        The promise is proved for rows that the model has not seen and that are drawn like X: those of ``calibration``.
        For out-of-bag rows it is measured: see `jaxunc.decisions.conformal_sets`; with ``counts="oob"`` sets are larger
        than they need to be, since such counts are few. Rows kept by ``counts="held_out"`` are counted in the leaves,
        and each is answered without itself, by one row fewer than new rows are: that is no proof, either.

        Rows of the fit count in the ranks as often as they weigh. The promise then holds for rows that are drawn in
        proportion to their weights, and weigh 1 at most (or the largest weight, if that is smaller). Equal weights
        count as none.

        **Rows of the fit** as ``calibration`` are refused in another order, in part, or mixed with other rows. Where
        values repeat, rows may equal rows of the fit as often as the latter equal each other. For forests that came
        fitted, or from a file, such rows are looked for as in `jaxunc.learning.oob_dataset` with
        ``source="held_out"``, and maybe only warned of.
        """
        check_fitted(self, "classes_")
        if coverage is None:
            if by_class is not False or calibration is not None:
                raise ValueError("by_class and calibration belong to coverage; pass it, or leave them out.")
            return best_sets(*self._probability_and_class(X), 65 if utility is None else utility)
        if utility is not None:
            raise ValueError("utility and coverage are two ways to a set; pass one of them.")
        check_coverage(coverage, by_class)
        smallest = self._calibration(calibration).least(coverage, by_class, self.classes_.tolist())
        return promised_sets(*self._probability_and_class(X), smallest)

    def predict_reject(self, X: InstancesLike, *, costs: Any = None, reject: NumbersLike | None = None) -> Decision:
        """Labels of the least expected cost, and whether rejecting an instance costs less than its label.

        Parameters
        ----------
        X
            Instances, as for `predict`.
        costs
            What each decision costs where a class is the truth, ≥ 0: ``[truth decision]``, in the order of
            ``classes_``. Or by names: a text ``"yes:no=5,no:yes=1"`` of TRUTH:DECISION=COST, a mapping ``{"yes": {"no":
            5}}`` or such JSON, the path of a file of CSV (truths by decisions) or JSON, or a frame with decisions as
            columns and truths as its index; errors that are not named cost 1, and right decisions 0. Default: each
            error costs 1.
        reject
            What a rejection costs: a number, or one for each instance. Default: nothing is rejected.

        Returns
        -------
        Decision
            ``.label`` and ``.rejected``, ``[instances]`` each. Without ``costs`` labels are those of `predict`.

        Raises
        ------
        ValueError, TypeError
            As `jaxunc.decisions.least_cost`, and for names that are not classes.
        """
        check_fitted(self, "classes_")
        probability, predicted = self._probability_and_class(X)
        matrix = cost_matrix(costs, self.classes_.tolist())
        decision = decided(probability, predicted, matrix, reject=None)
        if reject is None:
            rejected = np.zeros(len(decision), bool)
        else:
            rejected = decided(probability, predicted, matrix, reject) < 0  # -1 for a rejection
        return Decision(self.classes_[decision], rejected)

    def predict_interval(self, X: InstancesLike, *, s: float | None = None) -> Interval:
        """Bounds of each class's probability, ``.lower`` and ``.upper`` ``[instances classes]``, wide at few counts.

        They are those of `jaxunc.AveragedIntervals`, widened to hold ``predict_proba``. No confidence is promised.

        Parameters
        ----------
        X
            Instances, as for `predict`.
        s
            Strength of the imprecise Dirichlet model, in instances, > 0. Default: 1, or a cautious forest's ``s``.
        """
        check_fitted(self, "classes_")
        bounds = Interval(*map(np.asarray, self._answer_by(X, AveragedIntervals(1.0 if s is None else s))))
        return bounds.around(self.predict_proba(X))

    def predict_uncertainty(
        self, X: InstancesLike, kind: Literal["entropy", "plausibility", "interval"] = "entropy"
    ) -> Uncertainty:
        """Total, aleatoric and epistemic uncertainty of the class of each instance, ``[instances]`` each.

        Parameters
        ----------
        X
            Instances, as for `predict`.
        kind
            How uncertainty is measured: by ``"entropy"`` in bits; by ``"plausibility"``, for two classes; or by
            ``"interval"``, the entropies that the imprecise Dirichlet model allows. See
            `jaxunc.UncertaintyDecomposition`.

        Warns
        -----
        PureLeavesWarning
            If every leaf is pure: by entropy and plausibility aleatoric uncertainty is then 0, and epistemic is all.
        """
        check_fitted(self, "classes_")
        forest = getattr(self, "forest_", None)  # transduction has none
        if kind != "interval" and forest is not None:
            warn_of_one_doubt(forest)
        return Uncertainty(*map(np.asarray, self._answer_by(X, UncertaintyDecomposition(kind))))

    def _probability_and_class(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities ``[instances classes]``, and the positions of `predict`'s classes ``[instances]``."""
        probability = self.predict_proba(X)
        return probability, probability.argmax(axis=1)

    def _answer_by(self, X: Any, combiner: Combiner) -> Any:
        """Return the answer of another ``combiner`` for the leaves that instances X reach."""
        model: Any = self
        return bind(model.forest_, combiner)(model._instances(X))

    def _calibration(self, rows: Any) -> Calibration:
        """Return what conformal sets rank: the user's ``rows``, a pair (X, y), or for None the rows that ``fit`` kept.

        Rows of the user that all trees have seen are left out. Raises a TypeError if ``rows`` is no pair, and a
        ValueError if ``fit`` kept none, X and y differ in length, or `_answer_unseen` refuses the rows.
        """
        if rows is None:
            calibration = getattr(self, "calibration_", None)
            if calibration is None:
                raise ValueError(
                    f"coverage needs rows that the model was not fitted to, and this {type(self).__name__} keeps none: "
                    f"{self._advice}."
                )
            return Calibration(calibration)
        if not (isinstance(rows, tuple | list) and len(rows) == 2):
            raise TypeError(f"calibration is a {type(rows).__name__}; pass rows and their labels: (X, y).")
        X, y = rows
        position = class_positions(tuple(self.classes_.tolist()), y)
        if n_rows(X) != len(position):
            raise ValueError(f"calibration has {n_rows(X)} rows and {len(position)} labels; pass a label for each.")
        probability, unseen, weight = self._answer_unseen(X, y)
        return Calibration(Calibration.kept(probability, position, unseen, weight))

    def _answer_unseen(self, X: Any, y: Any) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """Return (probabilities, rows, weights) for calibration rows X with labels ``y``, whose labels no answer knows.

        Probabilities ``[rows classes]`` are by trees that have not seen the row. A mask ``[rows]`` or a slice selects
        the rows that have such trees, and weights ``[rows]`` are None if all rows weigh alike. Raises a ValueError for
        rows of the fit, unless they are answered out of bag.
        """
        self._refuse_rows_of_fit(X, y)
        return self._probability_and_class(X)[0], slice(None), None

    def _refuse_rows_of_fit(self, X: Any, y: Any, advice: str = "") -> None:
        """Raise a ValueError, ending in ``advice``, if calibration rows X, ``y`` hold rows of the fit, in any order."""
        hashes = self._rows_of_fit().hashes  # None for a classifier from a file
        seen = None if hashes is None else find_rows_of_fit(hashes, self._hash_rows(X, y))
        if seen is not None:
            raise ValueError(
                f"calibration holds {seen.sum()} rows, of {len(seen)}, that the model was fitted to, the first at "
                f"position {seen.argmax()}: it knows their labels. Pass rows that were held out of fit{advice}."
            )

    def _hash_rows(self, X: Any, y: Any) -> np.ndarray:
        """Return a hash of each row as the model reads it, with its label in ``y``, ``[rows]``."""
        raise NotImplementedError
