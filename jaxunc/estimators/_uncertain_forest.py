"""A regressor of forests and boosted models with quantiles, intervals, and variances of two kinds."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted

from jaxunc._checks import (
    as_weights,
    check_bool,
    check_integer,
    check_numbers,
    check_one_of,
    check_seed,
    check_within,
    is_concrete,
)
from jaxunc._numerics import Pickled
from jaxunc.counting import has_bags, rows_together
from jaxunc.interop import Opened, known_to_sklearn, library_of, n_rows, opened, steps_of, transformed
from jaxunc.regression import (
    LAWS,
    LEAVES_ALONE,
    SCORES,
    LeafScales,
    Moments,
    NumberDistribution,
    Strata,
    TargetMap,
    checked_levels,
    checked_target,
    interval_levels,
    strata_of,
)
from jaxunc.tables import Columns, InstancesLike, LabelsLike, NumbersLike, encode_rows, fit_columns

from ._boosted_numbers import BoostedNumbers, is_boosted, predictions
from ._checked_data import WORDS, check_labels, convert_objects, validate_mixed, validate_numbers
from ._forest_numbers import ForestNumbers
from ._forest_rows import Grown, Sample, UnseenAnswers
from ._pipelines import check_steps, column_types, copy_steps, map_of, reads_categories, without_transform
from ._raw_rows import ReadsRows
from ._transaction import as_transaction

COUNTS = ("auto", "oob", "held_out", "cross_fit")  # values of the parameter ``counts``
COVERAGE = 0.9  # coverage of the intervals whose targets are counted


class HeldShare(NamedTuple):
    """For a value of a column, how many rows have it, and how often 90 % intervals hold these rows' targets."""

    rows: int
    share: float  # of the rows' targets, by weight; NaN for no rows


class UncertainForestRegressor(Pickled, ForestNumbers, BoostedNumbers, ReadsRows, RegressorMixin, BaseEstimator):
    r"""A regression forest or boosted model, with quantiles, intervals and variances of each target.

    Quantiles of a target are :math:`q_\tau(x) = w\,(m(x) + s(x)\,z_\tau) + (1 - w)\,b_\tau(x)`. m is the forest's mean,
    and :math:`s^2` the sum of the mean variance in the leaves, the variance of the leaves' means and a floor.
    :math:`z_\tau` are quantiles of the standardised residuals of training rows, each from trees that have not seen the
    row, and :math:`b_\tau` are quantiles of the targets in the leaves.

    A boosted model has w = 1, and :math:`s^2(x) = \text{floor} + \exp(c + \sum_t u_t(x))`: each leaf gets a step u of
    the logarithm, learned tree by tree from residuals of rows that the model has not seen.

    Parameters
    ----------
    estimator
        The forest to fit: scikit-learn's ``RandomForestRegressor`` (the default), ``ExtraTreesRegressor``, a bag of
        regression trees, or a tree; XGBoost's ``XGBRFRegressor``, LightGBM's with ``boosting_type="rf"``. Or a boosted
        regressor of scikit-learn, XGBoost, LightGBM or CatBoost. Or a pipeline that ends in one of these, which takes
        raw columns; its transformers are fitted to the rows that the model is fitted to. A fitted model, or an
        `AdditiveTrees`, comes in a ``FrozenEstimator`` and is kept as it is. A ``TransformedTargetRegressor`` around
        the model, or last in the pipeline, transforms targets: see the notes.
    law
        ``"learned"``: w and the floor have the best score on unseen rows. ``"residuals"``: w = 1, the floor is
        learned. ``"bins"``: w = 0, a quantile regression forest. ``"conformal"``: w = 1, a fixed floor, and z at the
        ranks of conformal prediction. ``"neighbours"``: the floor is learned, and z are residuals of the rows in the
        leaves that x reaches; a row weighs the mean, over trees, of its share of the leaf. For boosted models
        ``"learned"`` chooses the strength of the steps, the number of trees that have steps, and the floor;
        ``"residuals"`` has one s for all rows; ``"conformal"`` learns s as ``"learned"`` does and takes ranks; the
        other two are refused.
    counts
        Which rows give residuals. ``"oob"``: all, by their out-of-bag trees. ``"held_out"``: rows that the model has
        not seen; a part of the data, or all of it if the model comes fitted. ``"cross_fit"``: all, each by a model like
        it that is fitted to four fifths without the row: six models are fitted. ``"auto"``: ``"oob"`` for forests with
        bags, ``"held_out"`` for other frozen models, else ``"cross_fit"``.
    n_bins
        Approximate number of bins of the target that leaves count: long tails get more, see
        `jaxunc.regression.target_bins`. With ``law="neighbours"`` they are bins of z, whose tails get no more.
    learn_by
        The score by which the law is learned: ``"interval_score"`` of 90 % intervals, or ``"crps"``.
    shrinkage
        Number of rows with the mean variance of all leaves that each leaf gets beside its own rows: see
        `jaxunc.regression.LeafMoments`.
    held_out_size
        The share of the rows that is held out with ``counts="held_out"``, in (0, 1).
    random_state
        Seed of the forest (where it has one) and of the split; None leaves the forest's own.
    support
        The smallest and the largest possible target, such as (0, inf): ends, quantiles and probabilities keep to this
        range. None: any number. The range of a boosted model's link is kept to in any case. A third number is the step
        between targets: with (0, inf, 1) these are whole numbers from 0 on. Quantiles are rounded to the nearest
        possible target, so that no interval loses a target, and all other answers follow from these quantiles.
    coverage_by
        A column of X, by its name or position, whose values divide the rows into strata, such as sites. With
        ``law="conformal"`` each stratum has ranks of its own, so that the promise holds within each; with other laws
        ``coverage_by_value_`` reports the coverage of each. Of a pipeline it is a raw column, even one that the steps
        drop, or that a frozen pipeline was fitted without. A missing value is a value.

    Attributes
    ----------
    estimator_
        The fitted forest, or pipeline; with transformed targets the one that predicts transformed targets.
    moments_
        The `LeafMoments` of the forest; for a boosted model an object whose ``answer`` has the mean and s².
    bins_, forest_
        The bins of the target, with ``law="neighbours"`` of z, and the `Forest` that counts them; ``forest_`` is None
        with a boosted model, or a single bin.
    oob_distribution_
        With out-of-bag residuals, the `jaxunc.regression.NumberDistribution` of the rows of the fit, in their order,
        each by the trees that have not seen it: NaN where there are none, or the weight is 0. Else None; files do not
        keep it. The law was fitted to the residuals of these very rows.
    coverage_by_value_
        For each value of the column ``coverage_by``: ``rows``, the number of its rows that the law was fitted to, and
        ``share``, the share of their targets in 90 % intervals, each row answered without its target. None without such
        a column, and with ``law="neighbours"`` unless residuals are out of bag; files do not keep it.
    law_
        The law: its ``weight`` w, what is ``added`` to the variance, the sorted ``residuals`` z, and their ``weights``.
    n_features_in_, feature_names_in_
        The number of columns of X in ``fit``; and their names, if X had text names. Of a frozen pipeline they are those
        of its own fit, and with ``law="conformal"`` the column ``coverage_by``.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: unknown names, classifiers, pipelines with a step that samples or leaves words, several targets,
        targets that are masked, not finite, outside of the support or off its steps, a support that is no range; a
        transform of targets that neither rises nor falls, or that its inverse does not undo; with boosted models
        ``counts="oob"``, and the laws ``"bins"`` and ``"neighbours"``, which their leaves cannot answer; weights that
        are negative, not finite or 0 throughout, and fewer than two rows of positive weight; out of bag, rows that a
        frozen forest was not grown on, or no row that some tree has not seen; a column ``coverage_by`` that is not
        there, or, with ``law="conformal"``, a value of it that fewer than 19 ranked rows have, or rows that weigh less
        than 19. On quantiles and all that follows from them: rows with a value in that column that no row of the fit
        had.

    Notes
    -----
    **What is promised.** ``law="conformal"`` with ``counts="held_out"``: if rows are exchangeable (drawn alike), an
    interval holds the target at least as often as asked, in the mean over rows and draws, whatever n is. That holds for
    forests that keep their own variances (scikit-learn's) or are grown here. Nothing is promised for a single row, or
    for any part of the rows but those with one value of ``coverage_by``, if these are drawn alike. ``groups`` keep rows
    together, and ranks do not read them: rows of one group are not drawn alike. **What is not.** Out of bag there is no
    such proof: training rows are answered by a third of the trees. The learned law chooses two numbers by the rows that
    it then ranks. Both kinds of intervals reach their coverage in the limit of many rows.

    ``predict`` returns the forest's own predictions. Leaves' variances are those that scikit-learn keeps, with bags and
    weights; for other criteria and other libraries they are computed from the rows of the fit. Leaves count each row of
    a bag once in the bins, by its sample weight. The law's residuals and scores, and ranks of conformal prediction
    count it so, too: the promise then holds for rows that are drawn in proportion to their weights, and weigh 1 at most
    (or the largest weight, if that is smaller). Weights that are all equal count as none. Rows that every tree has seen
    are left out of the law; where there are no others, the learned law is that of the bins, with a warning.

    With ``law="neighbours"`` leaves count the rows of their tree's bag, with ``"cross_fit"`` all rows, with
    ``"held_out"`` those held out; where a leaf has none, all bins have equal shares. Where residuals nearby have one
    sign, the median lies off the mean.

    **Boosted models.** With ``law="conformal"`` s is learned from other rows than those that are ranked: with
    ``counts="held_out"`` by cross-fitting within the fitted part, with a frozen model from half of the rows. Refits
    have as many rounds as a model that stopped early. Ends keep to the range of the model's link, as at least 0 for
    counts. A frozen model is refused rows that it was fitted to, where its leaves hold their very residuals or
    thresholds lie halfway between them. It is not detected if the model has seen a part of the rows, or was fitted with
    another loss: such intervals are too narrow. Below 50 rows all rows have one s, with a warning.

    **Transformed targets.** The law and its residuals are those of transformed targets; with ``counts="held_out"`` the
    transformer is fitted without the rows that are held out, else to all rows. Quantiles are mapped back by the
    inverse, and a falling map swaps ends; limits, ``support`` and ``oob_distribution_`` are in units of the
    target. ``predict`` is the inverse of the transformed mean, as scikit-learn's, and no mean of the target, which is
    ``predict_distribution(X).mean``. ``return_std`` is the law's. ``moments_``, ``predict_uncertainty`` and
    `jaxunc.explain` are of the transformed target. No answer lies more than ten ranges of the targets beyond them. The
    promise excludes targets that the transform does not bring back, as beyond a ``QuantileTransformer``'s range. Files
    keep pairs of NumPy's and SciPy's functions, scalers and ``PowerTransformer``; other transforms are not saved.

    Missing values are taken where the model itself takes them, and so are categorical columns of frames with boosted
    models.

    References
    ----------
    Meinshausen 2006, "Quantile regression forests"; Johansson et al. 2014, "Regression conformal prediction with random
    forests"; Zhang et al. 2020, "Random forest prediction intervals".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from jaxunc.estimators import UncertainForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = UncertainForestRegressor(random_state=0).fit(X[:300], y[:300])
    >>> ends = model.predict_interval(X[300:], coverage=0.9)
    >>> ends.shape, bool(0.8 < ((ends[:, 0] <= y[300:]) & (y[300:] <= ends[:, 1])).mean() < 1)
    ((142, 2), True)
    """

    def __init__(
        self,
        estimator: Any = None,
        law="learned",
        counts="auto",
        n_bins=20,
        learn_by="interval_score",
        shrinkage=0.0,
        held_out_size=0.2,
        random_state: Any = None,
        support: Any = None,
        coverage_by: Any = None,
    ):
        self.estimator = estimator
        self.law = law
        self.counts = counts
        self.n_bins = n_bins
        self.learn_by = learn_by
        self.shrinkage = shrinkage
        self.held_out_size = held_out_size
        self.random_state = random_state
        self.support = support
        self.coverage_by = coverage_by

    @as_transaction
    def fit(
        self,
        X: InstancesLike,
        y: NumbersLike | None = None,
        sample_weight: NumbersLike | None = None,
        groups: LabelsLike | None = None,
    ) -> "UncertainForestRegressor":
        """Fit the forest, read its leaves, and fit the law of residuals.

        Parameters
        ----------
        X
            Instances ``[instances features]``. For a frozen forest: out of bag those that it was fitted to, in their
            order; with ``counts="held_out"`` others, none of which it may have seen. Seen rows are refused as far as
            thresholds, leaf sizes and leaves of one row reveal them. Thresholds of features whose values repeat reveal
            nothing, and leaves are compared in scikit-learn's forests alone. To sparse rows scikit-learn may fit other
            trees than to the same dense ones, as splits that tie are decided by rounding; of one fit both get the same.
        y
            Their targets ``[instances]``, finite numbers.
        sample_weight
            How often each instance counts ``[instances]``, ≥ 0.
        groups
            A label for each instance, such as its patient: instances of one group are out of bag, or held out, only
            together. Default: copies are a group, as `jaxunc.counting.oob_mask` finds them, with a warning.

        Returns
        -------
        self
            The fitted regressor.
        """
        self._fit(X, y, sample_weight, groups)
        return self

    def _open(self) -> Opened:
        """Return the parameter ``estimator``, or the default model, without its `TransformedTargetRegressor`."""
        return without_transform(self._default_model() if self.estimator is None else self.estimator)[0]

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        """Fit as `fit` does, which sees to it that an error leaves no parts of two fits behind."""
        model_or_pipeline, model, frozen = self._open()
        self._check_parameters()
        boosted = is_boosted(model, frozen)
        counts = self._counts(model, frozen, boosted)
        for former in ("feature_names_in_", "law_", "moments_"):
            vars(self).pop(former, None)  # of a former fit: methods that are called below would read it
        self._chosen = self._choices()
        self._steps = copy_steps(model_or_pipeline) if frozen else steps_of(model_or_pipeline)
        self._raw_types = None
        # Such models may read names, categories, or more digits than the checked arrays have.
        self._reads_given = frozen or bool(self._steps) or reads_categories(model, X)
        X = self._as_given(X) if self._reads_given else X
        values, target = self._validate(X, y, model_or_pipeline if frozen else None)
        support = self._check_targets(target)
        weight = None if sample_weight is None else as_weights(sample_weight, len(target))
        if weight is not None and not weight.any():
            raise ValueError("the weights of all instances are zero; there is nothing to fit.")
        has_weight = np.ones(len(target), bool) if weight is None else weight > 0
        if (n_weighted := int(has_weight.sum())) < 2:
            raise ValueError(f"X has n_samples = {n_weighted}; a law of residuals needs two or more instances.")
        strata, stratum = self._strata_of(X, has_weight)
        if self._steps and groups is None:  # copies are rows with the same output of the steps
            if frozen:
                values = self._reader(model_or_pipeline)(X)
            else:
                values = self._transform_all(model_or_pipeline, X, target, weight, groups)
        group_numbers = _groups(values, target, weight, groups)
        sample = Sample(X if self._reads_given else values, target, weight, group_numbers, stratum)
        if counts != "oob":
            sample = sample.part(np.flatnonzero(has_weight))  # bags hold positions of all rows
        fit_model = self._fit_boosted if boosted else self._fit_forest
        self._target_map = None  # `_map_targets` makes it when the first model is grown or taken
        take_or_grow = self._take_fitted if frozen else self._grow
        grow: Any = partial(take_or_grow, model_or_pipeline)
        answers, residual_stratum = cast(Any, fit_model(grow, sample, frozen, counts))
        target_map = vars(self).pop("_target_map")  # taken away, since from here on the law keeps the map
        law = self.law_._replace(**support, target_map=None if target_map is None else target_map.named)
        if strata is not None and law.is_by_rank:
            strata.check_enough(residual_stratum, "rows that are ranked", law.repeats)
            position = self._position_among_raw(strata, X)
            # The law ranks residuals within strata, and so has to know the stratum of each residual.
            law = law._replace(strata=strata._replace(number=residual_stratum, position=position))
        self.bound_.law = self.law_ = law
        self.oob_distribution_ = None
        if counts == "oob":
            self.oob_distribution_ = self._oob_distribution(answers, stratum, len(target))
        self.coverage_by_value_ = None if strata is None else self._coverage_by_value(strata, answers)

    def _check_targets(self, target: np.ndarray) -> dict[str, Any]:
        """Return the fields ``support`` and ``step`` of a law by name, as the parameter ``support`` says.

        Raises a ValueError if a target ``[rows]`` is outside of the support, or off its steps, or if its upper end is.
        Steps count from the support's lower end, or from 0 if that is infinite.
        """
        (low, high), step = self._support()
        start = low if np.isfinite(low) else 0.0
        # Not in `_support`, which loaded estimators pass, too: former versions took such an end.
        if step and (high - start) % step > 0:  # for an infinite end this compares NaN, and is False
            raise ValueError(
                f"support={self.support!r:.60} ends at {high:g}, which steps of {step:g} from {start:g} on do not "
                f"reach; end it at {high - (high - start) % step:g}."
            )
        if (is_outside := (target < low) | (target > high)).any():
            row = int(np.argmax(is_outside))
            raise ValueError(
                f"y holds {target[row]:g} in row {row}, outside of support=({low:g}, {high:g}); widen it, or leave the "
                "row out."
            )
        support = {"support": (low, high), "step": step}
        law = LEAVES_ALONE._replace(**support)  # any law, to round targets to the nearest possible ones
        if step and (is_off := target != law.on_grid(target)).any():
            row = int(np.argmax(is_off))
            raise ValueError(
                f"y holds {target[row]:g} in row {row}, which steps of {step:g} do not reach by "
                f"support={self.support!r:.60}; leave the step out for targets of any kind."
            )
        return support

    def _strata_of(self, X: Any, has_weight: np.ndarray) -> tuple[Strata | None, np.ndarray | None]:
        """Return strata by the column ``coverage_by`` of raw rows X, and the number of each row's stratum ``[rows]``.

        Both are None without such a column. For the conformal law, a stratum with few of the rows that weigh more than
        0 (``has_weight [rows]``) raises a ValueError.
        """
        if self.coverage_by is None:
            return None, None
        strata = strata_of(X, self.coverage_by, is_raw=bool(self._steps))
        stratum = strata.numbers(X)
        if self.law == "conformal":  # before hours are spent
            # Which rows will be ranked, and how they weigh, is not known yet: here all are, and count once.
            may_be_ranked = stratum[has_weight]
            strata.check_enough(may_be_ranked, "rows", np.ones(len(may_be_ranked)))
        return strata, stratum

    def _position_among_raw(self, strata: Strata, X: Any) -> int:
        """Return the position of the strata's column among the raw columns of the fit, not among those of raw rows X.

        A column without which a frozen pipeline was fitted becomes the last raw column.
        """
        names = getattr(self, "feature_names_in_", np.zeros(0)).tolist()
        if not strata.is_raw or not names or strata.column.names is None:
            return strata.position
        name = strata.column.names[0]  # `strata.column` has a single column
        if name not in names:
            self.feature_names_in_ = np.array([*names, name], object)
            self.n_features_in_ = len(names) + 1
            if self._raw_types is not None:
                self._raw_types = (*self._raw_types, cast(Any, column_types(X))[strata.position])
        return self.feature_names_in_.tolist().index(name)

    def _coverage_by_value(self, strata: Strata, answers: UnseenAnswers) -> dict[Any, HeldShare] | None:
        """Return, for each value of the strata's column, how many rows have it and how often intervals hold targets.

        The rows are those of ``answers``, to which the law was fitted. None where `_intervals_held` is None.
        """
        is_held = self._intervals_held(answers, COVERAGE)
        if is_held is None:
            return None
        sample = answers.sample
        return _held_shares(strata, cast(Any, sample.stratum), is_held, sample.weights)

    def _grow(self, whole: Any, sample: Sample, **settings: Any) -> Grown:
        """Return a copy of a model or pipeline, fitted to ``sample`` with the model's parameters ``settings``."""
        if settings:
            whole = cast(Any, clone(whole))
            opened(whole).forest.set_params(**settings)
        model_sample = sample.of(sample.X, self._map_targets(sample.y, fitted=False))
        data = (model_sample.X, model_sample.y, model_sample.weight)
        whole, X = self._fit_copy(whole, data, self.random_state)
        return Grown(whole, opened(whole).forest, model_sample._replace(X=X), self._reader(whole), self._target_map)

    def _take_fitted(self, whole: Any, sample: Sample) -> Grown:
        """Return ``whole``, a model or pipeline that came fitted, with the sample as the model reads it."""
        read = self._reader(whole)
        target_map = self._map_targets(sample.y, fitted=True)
        return Grown(whole, opened(whole).forest, sample.of(read(sample.X), target_map), read, target_map)

    def _map_targets(self, y: np.ndarray, *, fitted: bool) -> TargetMap | None:
        """Return the map by which a `TransformedTargetRegressor` transforms targets; None if there is none.

        The first call in a fit makes the map, for the targets ``y``, and further calls return the same: so all
        residuals share one map. ``fitted``: whether the model came frozen.
        """
        transform = without_transform(self.estimator)[1]
        if transform is not None and self._target_map is None:
            # Functions around a frozen model came unfitted, and have nothing to fit.
            self._target_map = map_of(transform, y, fitted=fitted and opened(self.estimator).fitted)
        return self._target_map

    def _reader(self, model_or_pipeline: Any) -> Callable[[Any], Any]:
        """Return a function from rows, as ``fit`` takes them, to rows as the model (the last step) reads them."""
        steps = steps_of(model_or_pipeline)
        if not steps:
            return lambda X: X
        return lambda X: self._rows_of_model(transformed(steps, self._restore_types(X)))

    def _keep(self, grown: Grown) -> None:
        """Keep the fitted model ``grown``, and the pipeline's steps before it."""
        self.estimator_ = grown.whole
        if self._steps and not self._model()[1]:  # the steps of a frozen pipeline were copied before
            self._steps = steps_of(grown.whole)

    def predict(self, X: InstancesLike, quantiles: NumbersLike | None = None, return_std: bool = False) -> Any:
        """Return the forest's own predictions; or quantiles; or predictions and standard deviations.

        Parameters
        ----------
        X
            Instances ``[instances features]``.
        quantiles
            One level in [0, 1], or several.
        return_std
            Whether to return standard deviations, too: √(aleatoric + epistemic), for a boosted model the scale s(x) of
            the class's formula. With transformed targets they are those of the law, in units of the target.

        Returns
        -------
        numpy.ndarray or tuple
            Predictions ``[instances]``, those of ``estimator_`` to the bit; of a loaded file the mean of ``moments_``.
            With transformed targets they are mapped back. With ``quantiles`` these instead: ``[instances]`` for one
            level, ``[instances levels]`` for several, in their order. With ``return_std`` a tuple (predictions,
            standard deviations), ``[instances]`` each.

        Raises
        ------
        ValueError
            If a level lies outside [0, 1], quantiles and ``return_std`` are both asked for, or a conformal law was
            fitted to fewer rows than a level needs.
        """
        check_bool("return_std", return_std)
        if quantiles is None:
            rows = self._instances(X)
            target_map = self.law_.target_map
            has_model = hasattr(self, "estimator_")  # files keep the means of leaves instead
            moments = self.moments_.answer(rows) if return_std or not has_model else None
            mean = predictions(self._forest_model, rows) if has_model else cast(Any, moments).mean
            mean = mean if target_map is None else target_map.inverse(mean)
            if moments is None or not return_std:
                return mean
            std = moments.std if target_map is None else self.predict_distribution(X).std
            return mean, std
        if return_std:
            raise ValueError("quantiles and return_std=True are two questions; ask one at a time.")
        checked_levels(quantiles, "quantiles")
        return self.predict_distribution(X).quantile(quantiles)

    def predict_interval(self, X: InstancesLike, coverage: NumbersLike = 0.9) -> np.ndarray:
        """Return the lower and upper ends ``[instances 2]`` of prediction intervals for the instances ``X``.

        ``coverage`` is how often an interval is to hold the target, in (0, 1); as many targets are to lie below it as
        above. The notes of the class say what is promised. Several coverages give ``[instances coverages 2]``, by one
        walk through the trees. Raises a ValueError for a coverage outside (0, 1), or if a conformal law was fitted to
        fewer rows than it needs.
        """
        interval_levels(coverage)
        return self.predict_distribution(X).interval(coverage)

    def predict_distribution(self, X: InstancesLike) -> NumberDistribution:
        """Return the distribution of the target of each instance of ``X``, from which quantiles and intervals are read.

        It has ``cdf(y)``, ``exceeds(limit)``, ``quantile(levels)``, ``interval(coverage)``, ``sample(key, n)``,
        ``crps(y)``, ``mean`` and ``std``, by the fitted law: see `jaxunc.regression.NumberDistribution`.
        """
        rows = self._instances(X)
        stratum = None if self.law_.strata is None else self.law_.strata.numbers(X)
        return self.bound_.distribution(rows, strata=stratum)

    def predict_uncertainty(self, X: InstancesLike) -> Moments:
        """Return ``.aleatoric``, the mean of the leaves' variances, and ``.epistemic``, the variance of their means.

        Both are ``[instances]`` for the instances ``X``, in squared units of the target; ``.std`` and ``.mean`` stand
        beside them. Where a transform is around the model, all are of the transformed target.

        Raises
        ------
        TypeError
            If the model is boosted: its residuals do not tell aleatoric from epistemic variance.

        Warns
        -----
        PureLeavesWarning
            If every leaf holds one number alone: aleatoric variance is then 0, and epistemic is all.
        """
        X = self._instances(X)
        if isinstance(self.moments_, LeafScales):
            raise TypeError(
                "a boosted model's residuals do not tell what more data would remove. Ask predict(X, return_std=True) "
                "for how far off it is, and jaxunc.from_any(model).virtual_uncertainty(X) for what its parts disagree "
                "on."
            )
        self.moments_.warn_of_one_doubt()
        return self.moments_.answer(X)

    # Fitting.

    _default_model = RandomForestRegressor

    @property
    def _tested_columns(self) -> Columns:
        """Columns of the rows that the fitted trees read."""
        return self.moments_.columns

    @property
    def _columns_read(self) -> tuple[int, ...]:
        """Positions, among the raw columns of the fit, of those that the model, its steps or its strata read."""
        law: Any = vars(self).get("law_")
        by = () if law is None or law.strata is None else (law.strata.position,)
        return tuple(sorted({*super()._columns_read, *by}))

    def _check_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        model_or_pipeline, model, frozen = self._open()
        check_one_of("law", self.law, LAWS)
        check_one_of("counts", self.counts, COUNTS)
        check_one_of("learn_by", self.learn_by, SCORES)
        check_integer("n_bins", self.n_bins, 2)
        check_within("shrinkage", self.shrinkage, "[0, inf)", ", in rows")
        check_within("held_out_size", self.held_out_size, "(0, 1)", ": the share that is held out")
        check_seed(self.random_state)
        self._support()
        _check_coverage_by(self.coverage_by)
        if frozen and self.counts == "cross_fit":
            raise ValueError("counts='cross_fit' grows forests, and this one came frozen; pass it unfrozen.")
        check_steps(model_or_pipeline, model)
        name = type(model).__name__
        if isinstance(model, type) or not (frozen or isinstance(model, BaseEstimator) or _is_catboost(model)):
            raise TypeError(
                f"estimator={model!r:.60} is no model of scikit-learn; pass a forest of regression trees, or None. A "
                "fitted one of another library or an AdditiveTrees comes in scikit-learn's FrozenEstimator."
            )
        if (isinstance(model, BaseEstimator) and is_classifier(model)) or name.endswith(("Classifier", "Ranker")):
            what = "ranks rows" if name.endswith("Ranker") else "predicts classes"
            raise TypeError(
                f"estimator is a {name}, which {what}; pass one that predicts numbers, or take "
                "CombinedForestClassifier. See docs/estimators.md."
            )
        transform = without_transform(self.estimator)[1]
        if isinstance(model, TransformedTargetRegressor):
            raise TypeError(
                "estimator is a TransformedTargetRegressor in another; make one of both, by a pipeline of transformers."
            )
        by_transformer = transform is not None and transform.transformer is not None
        if by_transformer and frozen and not opened(self.estimator).fitted:
            raise ValueError(
                "estimator is a TransformedTargetRegressor of a frozen model, whose transformer is not fitted; freeze "
                "the whole: FrozenEstimator(TransformedTargetRegressor(...).fit(X, y))."
            )
        if is_boosted(model, frozen):
            self._check_boosted(model, frozen)
        elif self.counts == "oob" and not has_bags(model):
            raise ValueError(
                f"counts='oob' needs trees that leave rows out, and {name} has no bags that are known. Set "
                "bootstrap=True where it has such a parameter, or take counts='held_out'"
                f"{' with rows that it has not seen' if frozen else ' or ' + repr('cross_fit')}."
            )

    def _support(self) -> tuple[tuple[float, float], float]:
        """Return ((low, high), step) by the parameter ``support``: the range of targets, and 0 without a step.

        Raises a TypeError or a ValueError unless the parameter is None, or two or three numbers of that meaning.
        """
        if self.support is None:
            return (-np.inf, np.inf), 0.0
        check_numbers("support", self.support)
        numbers = np.ravel(self.support).astype(np.float64).tolist()
        if len(numbers) < 2:
            numbers = [0.0, 0.0]  # stand for a single number, to be refused below, since they do not ascend
        low, high, *step = numbers
        if np.ndim(self.support) != 1 or len(step) > 1 or not low < high:
            raise ValueError(f"support={self.support!r:.60} must be two numbers in their order, such as (0, inf).")
        finite = [number for number in (low, high, *step) if np.isfinite(number)]
        if step and (not 1 <= step[0] < np.inf or any(number % 1 for number in finite)):
            raise ValueError(
                f"support={self.support!r:.60} has a step that is no whole number from 1 on, or ends that are none; "
                "whole targets from 0 on are (0, inf, 1)."
            )
        return (low, high), step[0] if step else 0.0

    def _counts(self, model: Any, frozen: bool, boosted: bool) -> str:
        """Return the parameter ``counts``, with ``"auto"`` replaced by the way that suits the ``model``."""
        if self.counts != "auto":
            return self.counts
        if not boosted and has_bags(model):
            return "oob"
        return "held_out" if frozen else "cross_fit"

    def _validate(self, X: Any, y: Any, fitted: Any) -> tuple[Any, np.ndarray]:
        """Return rows X and targets y, checked; the rows of a pipeline stay raw, and their columns are kept.

        ``fitted`` is the model or pipeline if it came fitted, else None.
        """
        numbers = np.asarray(check_labels(self, y))
        if self._steps:
            self._take_raw_columns(X, fitted)
            values = X
        elif reads_categories(self._model()[0], X):
            values = validate_mixed(self, X, reset=True)
        else:
            values = validate_numbers(self, X, reset=True, **self._data_checks())
        if numbers.dtype.kind == "c":
            raise TypeError("y holds complex numbers; pass real ones.")
        if numbers.dtype.kind in "OUSf" and numbers.ndim <= 2:  # they may hold words, or numbers that are not finite
            try:
                numbers = cast(Any, check_array)(numbers, dtype=np.float64, ensure_2d=False, input_name="y")
            except ValueError as error:
                if WORDS not in str(error):
                    raise
                raise ValueError(f"y holds words: {error}. Pass numbers, written plainly (1234.5).") from error
        # Several columns are left to `checked_target`, which refuses them.
        target = column_or_1d(numbers, warn=True) if numbers.ndim < 2 or numbers.shape[1] == 1 else numbers
        # Variances are made of the targets' squares, which must not overflow either.
        return values, checked_target(target, n_rows(values), squared=True)

    def _as_given(self, X: Any) -> Any:
        """Return rows X for a model that reads them itself: raw rows of a pipeline; else objects become numbers."""
        X = known_to_sklearn(X)
        if self._steps:
            return X
        return convert_objects(X) if isinstance(X, np.ndarray) or hasattr(X, "iloc") else X

    def _choices(self) -> dict[str, Any]:
        """Return the settings on which answers depend, by name; ``dtype`` is the type of numbers that trees compare."""
        is_loaded = self.estimator is None and hasattr(self, "moments_")  # files keep no model of another library
        # LightGBM compares float64, so it is fitted to float64 as well as asked with it.
        is_lightgbm = library_of(self._model()[0]) == "lightgbm"
        reads_float64 = is_lightgbm or (is_loaded and self.moments_.columns.cuts is not None)
        return super()._choices() | {"dtype": "float64" if reads_float64 else "float32"}

    def _data_checks(self) -> dict[str, Any]:
        """Return the arguments with which scikit-learn checks rows, as of the base class, for the model's ``dtype``."""
        return super()._data_checks() | {"dtype": np.dtype(self._settings["dtype"])}

    # Answering.

    def _instances(self, X: Any) -> Any:
        """Return raw rows X as the fitted model reads them; raise a TypeError for rows that JAX traces."""
        check_is_fitted(self)
        if not is_concrete(X):
            raise TypeError(
                "X is traced, and a regressor answers on the host. Ask outside of jit, grad and vmap; or trace what it "
                "is made of, model.moments_.bound.answer(X)."
            )
        if self._steps:
            return self._output(X)
        X = self._as_given(X) if self._reads_given else X
        if self.moments_.columns.levels is not None:  # the trees look up words
            return X
        values = validate_numbers(self, X, reset=False, ensure_min_samples=0, **self._data_checks())
        return X if self._reads_given else values


def _groups(values: Any, y: np.ndarray, weight: np.ndarray | None, groups: Any) -> np.ndarray | None:
    """Return the number of each row's group ``[rows]``; None if each row is a group by itself.

    Rows with the same label in ``groups`` are of one group. Without ``groups`` a row and its copies are, which agree in
    ``values [rows features]`` and in the target y; a row of ``weight`` 0 is a group by itself.
    """
    if groups is None:
        columns = fit_columns(values) if hasattr(values, "columns") else Columns(values.shape[1])
        values = encode_rows(values, columns).values
    target_number = np.unique(y, return_inverse=True)[1]  # in the place of classes
    return rows_together(values, target_number, groups, weight=weight)


def _is_catboost(model: Any) -> bool:
    """Return whether a model is CatBoost's, which has scikit-learn's methods but not its base class."""
    return library_of(model) == "catboost" and hasattr(model, "get_params")


def _check_coverage_by(by: Any) -> None:
    """Raise a TypeError or a ValueError unless ``by`` is a column's name, its position, or None."""
    if by is None or isinstance(by, str):
        return
    if isinstance(by, bool | np.bool_) or not isinstance(by, int | np.integer):
        raise TypeError(f"coverage_by={by!r:.60} is no column; pass its name, or its position from 0 on.")
    if by < 0:
        raise ValueError(f"coverage_by={by} is no column of X; the first is 0.")


def _held_shares(strata: Strata, number: np.ndarray, is_held: np.ndarray, weight: np.ndarray) -> dict[Any, HeldShare]:
    """Return for each value of the strata's column how many rows have it, and how often intervals hold their targets.

    By row ``[rows]``: ``number`` of its stratum, whether its interval holds its target, and its weight in the share.
    """
    n_values = len(strata.values)
    n_rows = np.bincount(number, minlength=n_values)
    total_weight = np.bincount(number, weight, minlength=n_values)
    held_weight = np.bincount(number, weight * is_held, minlength=n_values)
    share = np.divide(held_weight, total_weight, out=np.full(n_values, np.nan), where=total_weight > 0)
    return {value: HeldShare(int(n_rows[i]), float(share[i])) for i, value in enumerate(strata.values)}
