"""Fitting of a combiner's numbers to out-of-sample rows, and their standard errors.

`fit_combiner` minimises `objective`: a loss, and the penalty of a weak prior around the start. Numbers within bounds
are moved as "free" real numbers without bounds: `split` makes these, and `join` turns them back. `as_loss` makes a loss
by its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int32, PyTree
from typing_extensions import TypeVar

from jaxunc._checks import check_collection, check_integer, check_numbers, check_one_of, check_within, checked_key
from jaxunc._numerics import jit
from jaxunc.combiners import Answer, Combiner, Preference, check_is_combiner, kind_of
from jaxunc.decisions import utility_of_sizes
from jaxunc.tables import NumbersLike

from ._dataset import OobDataset, Parameter, check_rows, parameters_of
from ._descent import (
    FitProgressLike,
    StepReports,
    WeighedPart,
    best_step,
    check_fit_progress,
    descend_in_parts,
    end_line,
    follow,
    split_rows,
    value_at,
)

MOST_NUMBERS = 500  # most learned numbers for which `standard_errors` computes second derivatives

CombinerT = TypeVar("CombinerT", bound=Combiner, covariant=True, default=Combiner)  # type of the combiner that learns


@dataclass(frozen=True)  # type checks at run time know no NamedTuple that is generic
class FitResult(Generic[CombinerT]):
    """Result of `fit_combiner`, whose section "Returns" explains the fields."""

    combiner: CombinerT
    loss: float
    start_loss: float
    n_steps: int
    status: str
    history: dict[str, np.ndarray]


class _Problem(NamedTuple):
    """Constants of a minimisation: the rows, the loss, the start, and all arrays of the combiner before learning."""

    leaves: list  # all arrays of the combiner, as leaves of a pytree
    start: list[Array]  # free numbers around which the prior lies
    data: Any  # data that the combiner learns from: `OobDataset.data_for`
    y: Array  # class of each row, by its position, ``[rows]``
    weight: Array  # weight of each row ``[rows]``, 0 for padding
    n_trees: Array  # number of the forest's trees
    loss: Any  # function of (answer, y, weight), as `as_loss` returns it
    total_weight: Array  # sum of the rows' weights; the prior weighs as much as a row of weight 1


def fit_combiner(
    combiner: CombinerT,
    rows: OobDataset,
    *,
    loss: str | Callable[..., Any] = "log",
    optimizer: optax.GradientTransformation | None = None,
    n_steps: int | None = None,
    validation: float | OobDataset | None = None,
    patience: int = 20,
    freeze: tuple[str, ...] = (),
    start: Combiner | None = None,
    key: jax.Array | None = None,
    progress: FitProgressLike = None,
) -> FitResult[CombinerT]:
    """Learn the numbers of a combiner from rows whose counts do not hold their own labels.

    Parameters
    ----------
    combiner
        A combiner with array fields: `LearnedPool`, `Calibrated`, `Weighted`, evidence accumulation, a mean of a scorer
        with settings (``jax.tree_util.Partial``), or a combiner of your own. Fields stay within the domains that
        `jaxunc.combiners.learned_field` and `jaxunc.combiners.tree_field` declare.
    rows
        Rows made by `oob_dataset`.
    loss
        ``"log"``, ``"brier"``, ``"auc"`` (a smooth bound of 1 - AUC over drawn pairs) or ``"utility"`` (1 minus the
        softened u65 of sets). Or a function from (answer, y, weight) to a number, which is minimised.
    optimizer
        Any optimiser of optax. Default: L-BFGS on the host, in float64, which needs 20 to 60 evaluations.
    n_steps
        Largest number of steps. Default: 100, or 500 with an ``optimizer``.
    validation
        Other rows, or the share of the rows that is set apart. Learning stops when the loss on them has not fallen for
        ``patience`` steps, and the best numbers are kept. Default: none; combiners with few numbers do not need it.
    patience
        See ``validation``.
    freeze
        Names of fields that are not learned, such as ``("mean_power",)``.
    start
        Combiner of the same kind with the numbers to start from, such as a combiner learned from nearly the same rows.
        The weak prior lies around the numbers of ``combiner`` in any case. Default: ``combiner``.
    key
        Key for draws: of pairs of rows, and of the rows for validation. Default: ``jax.random.key(0)``.
    progress
        True: a line on standard error says how far learning has come; or a function that is called after each step
        with a `FitProgress` (done, total, seconds, loss ...).

    Returns
    -------
    FitResult
        ``combiner``: the combiner with the best numbers seen. ``loss``, and ``start_loss`` of the argument
        ``combiner``, without the prior, on the rows (on those for validation, if there are any). ``n_steps``: steps on
        all rows. ``status``: ``"converged"``; ``"steps"``: after ``n_steps``; ``"stopped early"``: by validation;
        ``"diverged"``: the loss became NaN or infinite, or grew. ``history``: values at the start and after each step,
        ``"loss"`` with the prior and, with validation, ``"validation"`` without it.

    Raises
    ------
    TypeError
        If ``combiner`` is no `Combiner`, or ``rows`` are no `OobDataset`: counts by themselves do not say whether
        a forest was grown on them.
    ValueError
        If there is nothing to learn, the rows cannot serve the combiner, or ``freeze`` names no field. If the loss is
        unknown or does not suit the combiner, or a setting is out of range.

    Warns
    -----
    UserWarning
        If the loss became NaN or infinite, or grew; the message says what to do.

    Notes
    -----
    The objective is the loss plus 1/n times half the squared distance from ``combiner``, in the spreads that fields
    declare: a prior that is worth one row. Weights are repeats (n is their sum): a row of weight 2 is two rows. Results
    are deterministic given the key. Combiners with numbers per tree route the rows at each step; all others learn from
    histograms. With more than 4096 rows, L-BFGS first learns from a random part of them, then from all rows, whose
    steps are counted. This holds for losses that are means over rows, given by name.
    """
    _check(combiner, rows, n_steps, patience, optimizer)
    check_fit_progress(progress)
    key = checked_key(key)
    row_key, draw_key = jax.random.split(key)
    train, validation_rows = _split_validation(rows, validation, row_key)
    spec = choose_parameters(combiner, freeze)
    centre, leaves, structure = split(combiner, spec)
    free = centre if start is None else _split_start(start, spec, structure, leaves)

    def problem_on(subset: OobDataset) -> _Problem:
        # The same draws for training and validation, so that their losses are comparable.
        return problem_of(subset, combiner, leaves, centre, loss, jax.random.clone(draw_key))

    problem = problem_on(train)
    validation_problem = None if validation_rows is None else problem_on(validation_rows)
    shape = (spec, structure)
    default_steps = 100 if optimizer is None else 500
    max_steps = default_steps if n_steps is None else n_steps
    report = StepReports(progress, type(combiner).__name__, train.n, max_steps)
    if optimizer is None:
        parts = split_rows(problem, loss, jax.random.clone(draw_key))
        steps = descend_in_parts(objective, shape, free, parts, max_steps, report)
    else:
        parts = [WeighedPart(1.0, problem)]
        steps = follow(objective, shape, free, problem, optimizer)
    validate = None if validation_problem is None else lambda numbers: float(_loss(shape, numbers, validation_problem))
    best, status, history = best_step(steps, validate, n_steps=max_steps, patience=patience, report=report)
    end_line(progress)
    if validate is None:  # the objective less the penalty, which is 0 at the centre: this needs no further program
        prior_loss = float(penalty(spec, best.numbers, centre) / problem.total_weight)
        best_loss = best.value - prior_loss
        start_loss = value_at(objective, shape, centre, parts)
    else:
        best_loss = validate(best.numbers)
        start_loss = validate(centre)
    return FitResult(
        combiner=cast(CombinerT, join(spec, best.numbers, leaves, structure)),
        loss=best_loss,
        start_loss=start_loss,
        n_steps=len(history["loss"]) - 1,
        status=status,
        history=history,
    )


def _check(combiner, rows, n_steps, patience, optimizer) -> None:
    """Raise a TypeError or a ValueError if one of these arguments of `fit_combiner` has a wrong type or range."""
    check_is_combiner(combiner)
    check_rows(rows)
    if n_steps is not None:
        check_integer("n_steps", n_steps, 1)
    check_integer("patience", patience, 1)
    if not (optimizer is None or hasattr(optimizer, "init")):
        raise TypeError(f"optimizer={optimizer!r:.60} must be one of optax, such as optax.adam(0.1), or None.")


def _split_start(start, spec, structure, leaves: list) -> list[Array]:
    """Return the free numbers of the combiner ``start`` for the parameters ``spec``, as a list of arrays.

    Raises a ValueError unless ``start`` has the combiner's pytree ``structure``, and arrays of the shapes of its
    ``leaves``.
    """
    values = jax.tree.leaves(start)
    has_structure = jax.tree.structure(start) == structure
    if not has_structure or [np.shape(value) for value in values] != [np.shape(leaf) for leaf in leaves]:
        raise ValueError(
            f"start={start!r:.60} differs; pass a combiner of the same kind, options and shapes as combiner."
        )
    return split(start, spec)[0]


def _split_validation(rows: OobDataset, validation, key) -> tuple[OobDataset, OobDataset | None]:
    """Return two data sets: the rows to learn from, and the rows for validation, or None if ``validation`` is None.

    ``validation`` is a data set of other rows, or the share of ``rows`` that ``key`` draws for validation. Raises a
    ValueError if other rows have other classes, or a share leaves no rows on one side.
    """
    if validation is None:
        return rows, None
    if isinstance(validation, OobDataset):
        if validation.class_labels != rows.class_labels:
            raise ValueError(f"validation rows have the classes {validation.class_labels}, rows {rows.class_labels}.")
        return rows, validation
    check_within("validation", validation, "(0, 1)", ", a share; or pass rows")
    # Each data set keeps all rows, some at weight 0: both have one shape, and share programs.
    weight = np.asarray(rows.weight)[: rows.n]
    uniform = np.asarray(jax.random.uniform(key, (int(np.count_nonzero(weight)),)))
    # Rows with a number below the share are for validation. Rows of a group share theirs; without weight it is NaN.
    number = np.full(rows.n, np.nan, uniform.dtype)
    number[weight > 0] = uniform
    number = rows.as_groups(number)
    # Chance may take none of a few groups, or all: so the smallest number is always taken, and the largest never.
    is_smallest = number == np.nanmin(number)
    is_largest = number == np.nanmax(number)
    in_validation = ((number < validation) | is_smallest) & ~is_largest
    if not in_validation.any():
        raise ValueError(
            f"validation={validation} of {rows.n} rows leaves none on one side; pass more rows, of several groups."
        )
    return rows.with_weight(np.where(in_validation, 0, weight)), rows.with_weight(np.where(in_validation, weight, 0))


def problem_of(rows: OobDataset, combiner: Combiner, leaves: list, start: list, loss: Any, key: jax.Array) -> _Problem:
    """Return the `_Problem` of minimising the ``loss`` of a combiner on ``rows``, with a prior around ``start``.

    ``leaves`` are all arrays of the combiner, and ``start`` are free numbers. ``key`` draws pairs of rows for "auc".
    """
    weight = rows.weight
    loss_function = as_loss(loss, rows.y, weight, len(rows.class_labels), key)
    total_weight = jnp.sum(weight)  # weights are repeats
    n_trees = jnp.asarray(float(rows.n_trees))
    return _Problem(leaves, start, rows.data_for(combiner), rows.y, weight, n_trees, loss_function, total_weight)


def loss_of(shape: tuple, free: list[Array], problem: _Problem) -> Array:
    """Return the loss of the combiner with the numbers ``free``, without the penalty of the prior.

    ``shape`` is (spec, structure): the combiner's parameters, and its pytree structure.
    """
    spec, structure = shape
    combiner = join(spec, free, problem.leaves, structure)
    answer = combiner.finish(problem.data.merge(combiner, problem.n_trees))
    return problem.loss(answer, problem.y, problem.weight)


_loss = jit(loss_of, static_argnums=0)


def objective(shape: tuple, free: list[Array], problem: _Problem) -> Array:
    """Return the number that is minimised: `loss_of`, plus the `penalty` of the prior over the rows' total weight."""
    spec, _ = shape
    return loss_of(shape, free, problem) + penalty(spec, free, problem.start) / problem.total_weight


def loss_on(
    combiner: Combiner, rows: OobDataset, *, loss: str | Callable[..., Any] = "log", key: jax.Array | None = None
) -> float:
    """Return the loss of a combiner on out-of-sample rows, without the prior; arguments are as for `fit_combiner`."""
    check_is_combiner(combiner)
    check_rows(rows)
    loss_function = as_loss(loss, rows.y, rows.weight, len(rows.class_labels), checked_key(key))
    data = rows.data_for(combiner)
    n_trees = float(rows.n_trees)
    return float(_evaluate_loss(combiner, data, rows.y, rows.weight, n_trees, loss_function))


@jit
def _evaluate_loss(combiner: Combiner, data, y, weight, n_trees, loss) -> Array:
    """Return the ``loss`` of a combiner on ``data``, as `OobDataset.data_for` returns it, of rows of classes y."""
    return loss(combiner.finish(data.merge(combiner, n_trees)), y, weight)


class Estimate(NamedTuple):
    """Learned numbers of a field, and the standard error of each."""

    value: np.ndarray
    error: np.ndarray


def standard_errors(
    combiner: Combiner,
    rows: OobDataset,
    *,
    loss: str | Callable[..., Any] = "log",
    freeze: tuple[str, ...] = (),
    key: jax.Array | None = None,
) -> dict[str, Estimate]:
    r"""Return standard errors of learned numbers, by Laplace's approximation.

    .. math:: \Sigma = \Big(n \nabla^2 L(u) + \operatorname{diag}(\sigma^{-2})\Big)^{-1}

    u are the learned numbers as `fit_combiner` moves them, such as logarithms of positive numbers. L is the mean loss,
    n the sum of the rows' weights, σ the spreads of the fields. Errors are carried over to the numbers themselves by
    the delta method.

    Parameters
    ----------
    combiner
        The combiner that was learned, at its optimum: ``fitted.combiner``.
    rows, loss, freeze, key
        The arguments with which `fit_combiner` was called.

    Returns
    -------
    dict
        By the name of each field ``.value`` and ``.error``, arrays of the field's shape. All errors are NaN if the
        matrix is not positive definite: then the numbers are no minimum, or rows do not determine them.

    Raises
    ------
    ValueError
        As `fit_combiner` does, and for more than 500 numbers.

    Notes
    -----
    Meant for the log loss; for other losses the formula is the same. Rows share trees, and are not independent of each
    other, so errors tend to be too small.
    """
    check_is_combiner(combiner)
    check_rows(rows)
    spec = choose_parameters(combiner, freeze)
    free, leaves, structure = split(combiner, spec)
    flat, unravel = ravel_pytree(free)
    if len(flat) > MOST_NUMBERS:
        raise ValueError(
            f"{len(flat)} numbers were learned; a matrix of their second derivatives is made of {MOST_NUMBERS}."
        )
    problem = problem_of(rows, combiner, leaves, free, loss, checked_key(key))
    value_of = lambda numbers: objective((spec, structure), unravel(numbers), problem)
    curvature = np.asarray(jit(jax.hessian(value_of))(flat), float) * float(problem.total_weight)
    try:
        np.linalg.cholesky(curvature)  # raises unless positive definite
        covariance = np.linalg.inv(curvature)
    except np.linalg.LinAlgError:
        covariance = np.full_like(curvature, np.nan)
    estimates = {}
    start = 0
    # The matrix has the parameters' numbers one after another: each parameter has a block on the diagonal.
    for parameter, numbers in zip([p for p in spec if p is not None], free, strict=True):
        end = start + numbers.size
        estimates[parameter.name] = _estimate(parameter.domain, numbers, covariance[start:end, start:end])
        start = end
    return estimates


def _estimate(domain: str, free: Array, covariance: np.ndarray) -> Estimate:
    """Return the values in a domain for the numbers ``free``, and their errors by the delta method.

    ``covariance`` is the matrix of the raveled free numbers.
    """

    def to_values(numbers: Array) -> Array:
        return from_free(domain, numbers.reshape(free.shape)).ravel()

    slope = np.asarray(jax.jacobian(to_values)(free.ravel()), float)
    variance = np.einsum("ij,jk,ik->i", slope, covariance, slope)  # the diagonal of J Σ Jᵀ, J the slopes
    return Estimate(np.asarray(from_free(domain, free)), np.sqrt(variance).reshape(free.shape))


def to_free(domain: str, value: Array, nearest: float = 0.01) -> Float[Array, "..."]:
    """Return the free real numbers, without bounds, that stand for a value in a domain.

    A value on a bound of the domain is first moved inside by ``nearest``. The domains, and their free numbers:

    * "positive": the logarithm of the value.
    * "unit", numbers in [0, 1]: the logit.
    * "simplex", shares that add to 1: their logarithms, less the mean of these.
    * "log_simplex", logarithms of such shares: these, less their mean.
    * "ordered", ascending numbers: the first number, then logarithms of the differences.
    * any other, such as "real": the value itself.
    """
    if domain == "positive":
        # At 0 the logarithm has no slope.
        return jnp.log(jnp.where(value > 0, value, nearest))
    if domain == "unit":
        inside = jnp.where(value <= 0, nearest, jnp.where(value >= 1, 1 - nearest, value))
        return jnp.log(inside) - jnp.log1p(-inside)
    if domain == "simplex":
        return _centred(jnp.log(jnp.where(value > 0, value, nearest / value.shape[-1])))
    if domain == "log_simplex":
        return _centred(value)
    if domain == "ordered":
        steps = jnp.log(jnp.maximum(jnp.diff(value, axis=-1), nearest))
        return jnp.concatenate([value[..., :1], steps], axis=-1)
    return value


def from_free(domain: str, free: Array) -> Array:
    """Return the value in a domain for which the real numbers ``free`` stand: the inverse of `to_free`."""
    if domain == "positive":
        return jnp.exp(free)
    if domain == "unit":
        return jax.nn.sigmoid(free)
    if domain == "simplex":
        return jax.nn.softmax(free, axis=-1)
    if domain == "log_simplex":
        return jax.nn.log_softmax(free, axis=-1)
    if domain == "ordered":
        return jnp.cumsum(jnp.concatenate([free[..., :1], jnp.exp(free[..., 1:])], axis=-1), axis=-1)
    return free


def _centred(logs: Array) -> Array:
    """Return ``logs [... shares]`` less their mean over the last axis.

    A softmax ignores a shift of all logarithms; without the mean, the penalty ignores it, too.
    """
    return logs - jnp.mean(logs, axis=-1, keepdims=True)


def choose_parameters(combiner: Combiner, freeze: tuple[str, ...]) -> tuple[Parameter | None, ...]:
    """Return the parameter of each array of a combiner; None for a fixed array, and for one that ``freeze`` names.

    Raises a ValueError if a name matches no parameter, or no parameter is left.
    """
    check_collection("freeze", freeze, "names of fields, such as ('bias',)")
    parameters = parameters_of(combiner)
    names = [p.name for p in parameters if p is not None]
    for name in freeze:
        if not any(_matches(name, path) for path in names):
            raise ValueError(f"freeze names {name!r}, but {type(combiner).__name__} can learn {sorted(names)}.")
    is_frozen = lambda path: any(_matches(name, path) for name in freeze)
    spec = tuple(None if p is None or is_frozen(p.name) else p for p in parameters)
    if any(spec):
        return spec
    nothing = f"{type(combiner).__name__} has nothing to learn"
    if names:
        raise ValueError(f"{nothing} beside {sorted(names)}, which freeze names.")
    raise ValueError(
        f"{nothing}: no field of it holds real numbers. LearnedPool has, and Calibrated(Mean()), or around any "
        "combiner with probabilities that does not keep what every tree says, as medians and mixtures do."
    )


def _matches(name: str, path: str) -> bool:
    """Return whether ``name`` is a parameter's ``path``, or its first or last fields: "a.b" and "c" match "a.b.c"."""
    return path == name or path.startswith(name + ".") or path.endswith("." + name)


def split(combiner: Combiner, spec: tuple[Parameter | None, ...]) -> tuple[list[Array], list, Any]:
    """Return (free numbers, leaves, structure) of a combiner: what is learned, and its pytree, which `join` needs, too.

    Free numbers are a list with an array for each parameter in ``spec`` that is not None; leaves are in its order.
    """
    leaves, structure = jax.tree.flatten(combiner)
    free = [
        to_free(p.domain, jnp.asarray(leaf, jnp.result_type(float)), p.nearest)
        for p, leaf in zip(spec, leaves, strict=True)
        if p is not None
    ]
    return free, leaves, structure


def join(spec: tuple[Parameter | None, ...], free: list[Array], leaves: list, structure) -> Combiner:
    """Return the combiner with the numbers ``free`` in place of leaves with a parameter in ``spec``: undo `split`."""
    remaining_numbers = iter(free)
    values = []
    for parameter, leaf in zip(spec, leaves, strict=True):
        if parameter is None:
            values.append(leaf)
        else:
            value = from_free(parameter.domain, next(remaining_numbers))
            values.append(value.astype(jnp.result_type(leaf)))
    return jax.tree.unflatten(structure, values)


def penalty(spec: tuple[Parameter | None, ...], free: list[Array], start: list[Array]) -> Float[Array, ""]:
    """Return half the squared distance of the numbers ``free`` from ``start``, in units of the parameters' spreads.

    But for a constant this is minus the log density of a Gaussian prior around ``start``.
    """
    spreads = [p.spread for p in spec if p is not None]
    distances = [jnp.sum(((u - centre) / spread) ** 2) for u, centre, spread in zip(free, start, spreads, strict=True)]
    return 0.5 * sum(distances, jnp.zeros(()))


LOSSES = ("log", "brier", "auc", "utility")  # names of the losses


def log_loss_of(answer: Answer, y: Int32[Array, "rows"], weight: Float[Array, "rows"]) -> Float[Array, ""]:
    """Return the mean log loss -log P(y) of an answer, over rows of classes y, by weights ≥ 0."""
    log_share = _read_out(answer, "log_probability")
    _check_rows_of(y, weight, len(log_share))
    return _mean(-jnp.take_along_axis(log_share, y[:, None], axis=1)[:, 0], weight)


def brier_loss_of(answer: Answer, y: Int32[Array, "rows"], weight: Float[Array, "rows"]) -> Float[Array, ""]:
    """Return the mean Brier loss Σ_c (P(c) - [y = c])² of an answer, over rows of classes y, by weights ≥ 0."""
    share = _read_out(answer, "probability")
    _check_rows_of(y, weight, len(share))
    return _mean(jnp.sum((share - jax.nn.one_hot(y, share.shape[1], dtype=share.dtype)) ** 2, axis=1), weight)


class AucLoss(eqx.Module):
    """A smooth upper bound of 1 - AUC: the mean of log₂(1 + e^{-d/τ}) over pairs of rows, d the difference of scores.

    Each pair is a row of a class and a row of another class; compared are their scores of the former class. Pairs are
    drawn once, before learning: equally many for each class (of two classes for class 1 alone), with probabilities in
    proportion to weights.
    """

    first: Int32[Array, "pairs"]  # index of the row of the class
    second: Int32[Array, "pairs"]  # index of the row of another class
    of_class: Int32[Array, "pairs"]  # class of the first row, whose scores are compared
    temperature: Float[Array, ""]  # τ > 0: the smaller, the closer to 1 - AUC

    def __check_init__(self) -> None:
        for name in ("first", "second", "of_class"):
            check_numbers(name, getattr(self, name))
        check_within("temperature", self.temperature, "(0, inf)")

    @classmethod
    def of(
        cls,
        y: NumbersLike,
        weight: NumbersLike,
        n_classes: int,
        key: jax.Array,
        n_pairs: int = 2**16,
        temperature: float = 1.0,
    ) -> "AucLoss":
        """Make the loss of ``n_pairs`` pairs of rows, drawn by ``key`` with probabilities in proportion to ``weight``.

        ``y [rows]`` has the rows' classes, of ``n_classes`` in all; a class without rows has no pairs. ``temperature``
        is τ. Raises a ValueError if all rows with a weight are of one class.
        """
        y = np.asarray(y)
        weight = np.asarray(weight, float)
        # NumPy draws with weights far faster than JAX; its seed is drawn from the key.
        rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,), "uint32")))
        classes_with_rows = np.unique(y[weight > 0]).tolist()
        if len(classes_with_rows) < 2:
            raise ValueError(
                "loss='auc' compares rows of different classes, and all rows with a weight are of class "
                f"{classes_with_rows}, by its position; pass rows of two classes or more, such as by fewer folds."
            )
        classes = [1] if n_classes == 2 else classes_with_rows  # of two classes, class 0 would give the same pairs
        pairs_of_class = n_pairs // len(classes)

        def draw(is_candidate: np.ndarray) -> np.ndarray:
            """Return the positions of ``pairs_of_class`` candidates, drawn by weight with replacement."""
            candidates = np.flatnonzero(is_candidate)
            share = weight[candidates] / weight[candidates].sum()
            return rng.choice(candidates, pairs_of_class, p=share)

        first, second, of_class = [], [], []  # with an array for each class
        for c in classes:
            first.append(draw((y == c) & (weight > 0)))
            second.append(draw((y != c) & (weight > 0)))
            of_class.append(np.full(pairs_of_class, c))
        joined = lambda arrays: jnp.asarray(np.concatenate(arrays), jnp.int32)
        return cls(joined(first), joined(second), joined(of_class), jnp.asarray(temperature, jnp.result_type(float)))

    def __call__(self, answer: Answer, y: Array, weight: Array) -> Float[Array, ""]:
        """Return the mean over the pairs; ``y`` and ``weight`` are not read, since the pairs were drawn by them."""
        # A number that is added to all class scores of a row must not change the row's rank.
        scores = answer.class_scores - jnp.mean(answer.class_scores, axis=1, keepdims=True)
        gap = scores[self.first, self.of_class] - scores[self.second, self.of_class]
        return jnp.mean(jax.nn.softplus(-gap / self.temperature.astype(gap.dtype))) / np.log(2)


class UtilityLoss(eqx.Module):
    """1 minus the utility of the set of classes that would be answered, made differentiable.

    For probabilities, the choice among the sets of the k most probable classes becomes a softmax of their expected
    utilities over τ. Whether a set holds the true class becomes a logistic function over τ. For a `Preference`, whether
    a class beats another becomes a logistic function, over τ, of the mass beyond one half. A class that none beats is
    in the set.
    """

    by_size: Float[Array, "classes"]  # utility of a set of 1, 2, … classes that holds the true class
    temperature: Float[Array, ""]  # τ > 0: the smaller, the harder the choice

    def __check_init__(self) -> None:
        check_within("by_size", self.by_size, "[0, inf)", ": the utility of a right set by its size", shape=None)
        check_within("temperature", self.temperature, "(0, inf)")

    @classmethod
    def of(cls, n_classes: int, utility: Any = 65, temperature: float = 0.05) -> "UtilityLoss":
        """Make the loss for ``n_classes`` classes, with τ = ``temperature``.

        ``utility`` is 50, 65 or 80, or has the utility of a set of 1, 2, … classes that holds the true class.
        """
        return cls(utility_of_sizes(utility, n_classes), jnp.asarray(temperature, jnp.result_type(float)))

    def __call__(self, answer: Answer | Preference, y: Array, weight: Array) -> Float[Array, ""]:
        """Return the mean loss of a combiner's answer, over rows of classes y, by ``weight``."""
        if isinstance(answer, Preference):
            return _mean(1 - self._expect_utility(answer, y), weight)
        share = _read_out(answer, "probability")
        by_size = self.by_size.astype(share.dtype)
        temperature = self.temperature.astype(share.dtype)
        falling = -jnp.sort(-share, axis=1)  # column k - 1 of all arrays below belongs to the k most probable classes
        # Their set is expected to be worth their probability times its utility.
        choice = jax.nn.softmax(jnp.cumsum(falling, axis=1) * by_size / temperature, axis=1)
        # It holds the true class if that is more probable than the middle between the k-th and the next.
        middle = (falling[:, :-1] + falling[:, 1:]) / 2
        holds_truth = jax.nn.sigmoid((jnp.take_along_axis(share, y[:, None], axis=1) - middle) / temperature)
        # The set of all classes holds it for sure.
        holds_truth = jnp.concatenate([holds_truth, jnp.ones_like(share[:, :1])], axis=1)
        return _mean(1 - jnp.sum(choice * holds_truth * by_size, axis=1), weight)

    def _expect_utility(self, answer: Preference, y) -> Float[Array, "rows"]:
        """Return the expected utility of each row's set ``[rows]``, if classes are in the set independently.

        ``answer`` has the masses that prefer one class to another, and ``y [rows]`` the true classes.
        """
        mass = jnp.asarray(answer.mass)  # ``[rows classes classes]``: how much prefers the first class to the second
        total = jnp.maximum(jnp.asarray(answer.total), jnp.finfo(mass.dtype).tiny)[..., None, None]
        beats = jax.nn.sigmoid((mass / total - 0.5) / self.temperature.astype(mass.dtype))
        n_classes = mass.shape[-1]
        beats = jnp.where(jnp.eye(n_classes, dtype=bool), jnp.zeros_like(beats), beats)  # no class beats itself
        in_set = jnp.prod(1 - beats, axis=-2)  # probability that no other class beats a class, ``[rows classes]``
        holds_truth = jnp.take_along_axis(in_set, y[:, None], axis=1)[:, 0]
        # The distribution of the number of wrong classes in the set: each class, in turn, adds one with probability p.
        wrong_in_set = jnp.where(jax.nn.one_hot(y, n_classes, dtype=bool), jnp.zeros_like(in_set), in_set)
        n_wrong_probability = jnp.zeros_like(in_set).at[:, 0].set(1)  # column k: k wrong classes
        for c in range(n_classes):
            p = wrong_in_set[:, c : c + 1]
            one_fewer = jnp.concatenate([jnp.zeros_like(p), n_wrong_probability[:, :-1]], axis=1)
            n_wrong_probability = n_wrong_probability * (1 - p) + one_fewer * p
        # A set that holds the truth and k wrong classes is of size k + 1, whose utility is ``by_size[k]``.
        return holds_truth * jnp.sum(n_wrong_probability * self.by_size.astype(mass.dtype), axis=1)


def as_loss(loss: str | Callable[..., Any], y: Array, weight: Array, n_classes: int, key: jax.Array) -> Any:
    """Return ``loss``, a name in `LOSSES` or a user's function of (answer, y, weight), as a callable that is a pytree.

    For "auc", ``key`` draws pairs of rows of the classes ``y`` by ``weight``.
    """
    if not isinstance(loss, str):
        if not callable(loss):
            raise TypeError(f"loss={loss!r:.60} must be one of {LOSSES}, or a function of (answer, y, weight).")
        return loss if isinstance(loss, (eqx.Module, Partial)) else Partial(loss)
    check_one_of("loss", loss, LOSSES)
    if loss == "auc":
        return AucLoss.of(y, weight, n_classes, key)
    if loss == "utility":
        return UtilityLoss.of(n_classes)
    return Partial(log_loss_of if loss == "log" else brier_loss_of)


def _check_rows_of(y, weight, n: int) -> None:
    """Raise a ValueError unless y and ``weight`` have ``n`` entries, none of them negative."""
    check_within("y", y, "[0, inf)", shape=(n,))
    check_within("weight", weight, "[0, inf)", shape=(n,))


def _read_out(answer: PyTree, readout: str) -> Array:
    """Return the array of an `Answer` that ``readout`` names.

    Raises a TypeError for an answer of another type, and a ValueError if the array is None.
    """
    if not isinstance(answer, Answer):
        raise TypeError(f"answer is {kind_of(answer)}; this loss needs an Answer, with probabilities.")
    value = getattr(answer, readout)
    if value is None:
        raise ValueError("answer has no probabilities, which this loss needs: the combiner's scores have no bound.")
    return value


def _mean(values: Float[Array, "rows"], weight: Float[Array, "rows"]) -> Float[Array, ""]:
    """Return the mean of ``values`` by ``weight``; a row of weight 0 may hold NaN."""
    # Values of padding rows may be NaN, and must not reach the gradient.
    values_or_zero = jnp.where(weight > 0, values, jnp.zeros_like(values))
    weight = weight.astype(values.dtype)
    return jnp.sum(values_or_zero * weight) / jnp.sum(weight)
