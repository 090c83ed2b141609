"""Fitting of a rule's numbers to out-of-sample rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from typing_extensions import TypeVar

from jaxunc._checks import check_integer, check_within, checked_key
from jaxunc._numerics import jit
from jaxunc.combiners import Combiner, check_is_combiner

from ._descent import WeighedPart, follow, value_at
from ._domains import join, learnable, penalty, split
from ._losses import as_loss
from ._parts import descend_in_parts, parts_of
from ._rows import OobDataset, check_rows
from ._watch import Teller, Told, Watch, check_told, end_line

RuleT = TypeVar("RuleT", bound=Combiner, covariant=True, default=Combiner)
"""The kind of the rule that learned."""


@dataclass(frozen=True)  # type checks at run time know no NamedTuple that is generic
class FitResult(Generic[RuleT]):
    """Result of `fit_combiner`: a rule that has learned, and how."""

    combiner: RuleT
    """The rule with the best numbers seen."""
    loss: float
    """Loss of the rule on the rows that it was learned from (on those for validation, where there are some)."""
    start_loss: float
    """Loss of the rule that learning started from, on the same rows."""
    n_steps: int
    """Number of steps that were taken on all rows."""
    status: str
    """``"converged"``; ``"steps"``: as many as were asked for; ``"stopped early"`` by validation; ``"diverged"``: a
    loss that is no number, or that grew; the numbers are those before."""
    history: dict[str, np.ndarray]
    """Losses by name: ``"loss"`` and, with validation, ``"validation"``; at the start, and after each step."""


class _Problem(NamedTuple):
    """The constant part of a problem: what a step needs beside the numbers that move."""

    leaves: list
    start: list[Array]
    data: Any
    y: Array
    weight: Array
    n_trees: Array
    loss: Any
    effective: Array
    """Weight of all rows: the prior of the numbers weighs 1."""


def fit_combiner(
    combiner: RuleT,
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
    progress: Told = None,
) -> FitResult[RuleT]:
    """Learn the numbers of a rule from rows whose counts do not know their labels.

    Parameters
    ----------
    combiner
        A rule with array fields: `LearnedPool`, `Calibrated`, `Weighted`, evidence accumulation, a mean of a scorer
        with settings (``jax.tree_util.Partial``), one of your own. Where its fields may lie is declared by
        `jaxunc.combiners.learned_field` and `jaxunc.combiners.tree_field`, and kept.
    rows
        Rows made by `oob_dataset`.
    loss
        ``"log"``, ``"brier"``, ``"auc"`` (a smooth bound of 1 - AUC over drawn pairs) or ``"utility"`` (one less the
        softened u65 of sets). Or a function of (answer, y, weight) → a number to minimise.
    optimizer
        Any of optax's; default L-BFGS with a line search, which needs 20 to 60 evaluations.
    n_steps
        At most so many; default 100, of another optimiser 500.
    validation
        Rows to judge by, or the share of the rows that is set apart for it. Learning stops when these have not got
        better for ``patience`` steps, and the best numbers are kept. Default: none; a few numbers do not need it.
    patience
        See ``validation``.
    freeze
        Names of fields that stay as they are, such as ``("mean_power",)``.
    start
        Numbers to start from, as a rule of the same kind, such as one that was learned from nearly the same rows. The
        weak prior stays around those of ``combiner``. Default: ``combiner``.
    key
        For what is drawn: pairs of rows, and the rows for validation. Default: ``jax.random.key(0)``.
    progress
        True: a line on standard error says how far learning has come; or a function that is called after each step
        with a `FitProgress` (done, total, seconds, loss ...).

    Returns
    -------
    FitResult
        The rule with its learned numbers (``.combiner``), and how they were come to.

    Raises
    ------
    TypeError
        If ``combiner`` is no `Combiner`, or ``rows`` are no `OobDataset`: counts by themselves do not say whether
        a forest was grown on them.
    ValueError
        If there is nothing to learn, the rows cannot serve the rule, or ``freeze`` names no field. If the loss is
        unknown or does not suit the rule, or a setting is out of range.

    Warns
    -----
    UserWarning
        If the loss became NaN or infinite, or did not fall: at which step, and what to do.

    Notes
    -----
    Minimised is the loss plus 1/n times half the squared distance from the start, in the spreads that fields declare: a
    prior that is worth one row. Weights are repeats (n is their sum): a row of weight 2 is two rows. Deterministic
    given the key. Rules with numbers per tree route the rows at each step; all others learn from histograms. With more
    than 4096 rows a random part leads most of the way, and all of them the rest. This holds for losses that are means
    over rows, given by name; steps are counted from there.
    """
    _check(combiner, rows, n_steps, patience, optimizer)
    check_told(progress)
    key = checked_key(key)
    for_rows, for_draws = jax.random.split(key)
    train, held_out = _with_validation(rows, validation, for_rows)
    spec = learnable(combiner, freeze)
    centre, leaves, structure = split(combiner, spec)
    free = centre if start is None else _start(start, spec, structure, leaves)
    # The same draws for training and validation: the losses are then comparable.
    made = lambda some: problem_of(some, combiner, leaves, centre, loss, jax.random.clone(for_draws))  # noqa: E731
    problem, judge = made(train), None if held_out is None else made(held_out)
    shape, most = (spec, structure), (100 if optimizer is None else 500) if n_steps is None else n_steps
    tell = Teller(progress, type(combiner).__name__, train.n, most)
    if optimizer is None:
        parts = parts_of(problem, loss, jax.random.clone(for_draws))
        steps = descend_in_parts(objective, shape, free, parts, most, tell)
    else:
        parts = [WeighedPart(1.0, problem)]
        steps = follow(objective, shape, free, problem, optimizer)
    best, status, history = Watch(most, patience, tell).over(
        steps, None if judge is None else lambda numbers: float(_loss(shape, numbers, judge))
    )
    end_line(progress)
    if judge is None:  # no further program: the objective less the prior's part, which is none at the start
        held = float(penalty(spec, best.numbers, centre) / problem.effective)
        found, first = best.value - held, value_at(objective, shape, centre, parts)
    else:
        found, first = (float(_loss(shape, numbers, judge)) for numbers in (best.numbers, centre))
    return FitResult(
        combiner=cast(RuleT, join(spec, best.numbers, leaves, structure)),
        loss=found,
        start_loss=first,
        n_steps=len(history["loss"]) - 1,
        status=status,
        history=history,
    )


def _check(combiner, rows, n_steps, patience, optimizer) -> None:
    check_is_combiner(combiner)
    check_rows(rows)
    if n_steps is not None:
        check_integer("n_steps", n_steps, 1)
    check_integer("patience", patience, 1)
    if not (optimizer is None or hasattr(optimizer, "init")):
        raise TypeError(f"optimizer={optimizer!r:.60} must be one of optax, such as optax.adam(0.1), or None.")


def _start(start, spec, structure, leaves: list) -> list[Array]:
    found = jax.tree.leaves(start)
    same = jax.tree.structure(start) == structure
    if not same or any(np.shape(a) != np.shape(b) for a, b in zip(found, leaves, strict=True)):
        raise ValueError(f"start={start!r:.60} differs; pass a rule of the same kind, options and shapes as combiner.")
    return split(start, spec)[0]


def _with_validation(rows: OobDataset, validation, key) -> tuple[OobDataset, OobDataset | None]:
    if validation is None:
        return rows, None
    if isinstance(validation, OobDataset):
        if validation.class_labels != rows.class_labels:
            raise ValueError(f"validation rows have the classes {validation.class_labels}, rows {rows.class_labels}.")
        return rows, validation
    check_within("validation", validation, "(0, 1)", ", a share; or pass rows")
    # Rows are not cut out but weigh 0: both sides keep their shape, and one program serves both.
    apart = rows.as_groups(np.asarray(jax.random.uniform(key, (rows.n,))) < validation)
    weight = np.asarray(rows.weight)[: rows.n]
    if not weight[apart].any() or not weight[~apart].any():
        raise ValueError(f"validation={validation} of {rows.n} rows leaves none on one side; pass more rows.")
    return rows.with_weight(np.where(apart, 0, weight)), rows.with_weight(np.where(apart, weight, 0))


def loss_on(
    combiner: Combiner, rows: OobDataset, *, loss: str | Callable[..., Any] = "log", key: jax.Array | None = None
) -> float:
    """Return the loss of a rule as it is, on out-of-sample rows.

    Parameters
    ----------
    combiner, rows, loss, key
        See `fit_combiner`; the loss is that of the rule as given, without a prior of its numbers.
    """
    check_is_combiner(combiner)
    check_rows(rows)
    made = as_loss(loss, rows.y, rows.weight, len(rows.class_labels), checked_key(key))
    return float(_loss_as_it_is(combiner, rows.data_for(combiner), rows.y, rows.weight, float(rows.n_trees), made))


@jit
def _loss_as_it_is(rule: Combiner, data, y, weight, n_trees, loss) -> Array:
    return loss(rule.finish(data.merged(rule, n_trees)), y, weight)


def problem_of(rows: OobDataset, rule: Combiner, leaves: list, start: list, loss: Any, key: jax.Array) -> _Problem:
    """Return the problem of minimising the loss of a rule on these rows."""
    weight = rows.weight
    made = as_loss(loss, rows.y, weight, len(rows.class_labels), key)
    effective = jnp.sum(weight)  # weights are repeats
    n_trees = jnp.asarray(float(rows.n_trees))
    return _Problem(leaves, start, rows.data_for(rule), rows.y, weight, n_trees, made, effective)


def loss_of(shape: tuple, free: list[Array], problem: _Problem) -> Array:
    """Return the loss of these numbers, without the prior."""
    rule = join(shape[0], free, problem.leaves, shape[1])
    answer = rule.finish(problem.data.merged(rule, problem.n_trees))
    return problem.loss(answer, problem.y, problem.weight)


def objective(shape: tuple, free: list[Array], problem: _Problem) -> Array:
    """Return the loss of these numbers, and the prior's part."""
    return loss_of(shape, free, problem) + penalty(shape[0], free, problem.start) / problem.effective


_loss = jit(loss_of, static_argnums=0)
