"""The study: forests under repeated cross-validation, every rule on the same leaves."""

from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from sklearn.model_selection import RepeatedStratifiedKFold

from jaxunc._numerics import cores
from jaxunc.counting import as_groups, calibration_split, copies_of, count_leaves, counted_forest, first_of_each
from jaxunc.estimators import RandomDecisionTreesClassifier
from jaxunc.forest import Forest
from jaxunc.interop import from_sklearn

from ._compared_rules import RULES
from ._data import Table
from ._evaluate import Outcome, evaluate
from ._given_model import GivenModel
from ._learned import learn
from ._settings import FORESTS, Settings, check_folds


class Cell(NamedTuple):
    """Key of a forest in a study: its kind and leaf size, and the test fold it is tried on."""

    forest: str
    leaf_size: int
    repeat: int
    fold: int


def study(
    table: Table, settings: Settings, done: Container[Cell] = (), given: GivenModel | None = None
) -> Iterator[tuple[Cell, Outcome]]:
    """Grow the forests, one per core at a time, and yield for each how the rules did on its test fold.

    They come in the order of the settings: forests, leaf sizes, repetitions, folds.

    Parameters
    ----------
    table
        The data.
    settings
        Settings of the study.
    done
        Cells to leave out.
    given
        The model of a study of `Settings.for_model`: none is grown, its leaves count the training part.

    Yields
    ------
    tuple[Cell, Outcome]
        Which forest, and how the rules did.

    Raises
    ------
    ValueError
        If a class has fewer instances than there are folds, or is in no sample that the trees were grown on; or if no
        rule suits the number of classes.
    """
    together = copies_of(np.asarray(table.X, np.float32), table.y)
    # A copy of a row in another fold would tell its label.
    apart = np.arange(len(table.y)) if together is None else first_of_each(together)
    check_folds(table._replace(X=table.X[apart], y=table.y[apart]), settings.n_folds)
    rules = settings.rules_for(len(table.class_labels))
    folds = RepeatedStratifiedKFold(n_splits=settings.n_folds, n_repeats=settings.n_repeats, random_state=settings.seed)
    splits = dict(enumerate(folds.split(table.X[apart], table.y[apart])))
    groups = apart if together is None else together

    def run(cell: Cell) -> tuple[Cell, Outcome]:
        i = cell.repeat * settings.n_folds + cell.fold
        train, test = (apart[part] for part in splits[i])
        if together is not None:
            train, test = (np.flatnonzero(np.isin(together, together[part])) for part in (train, test))
        # The seed depends on the split alone: forests of all kinds and leaf sizes on a split are compared on equal
        # terms.
        if given is None:
            model, forest = _grow(cell, settings, settings.seed + i, table, train, groups[train])
        else:
            model = forest = count_leaves(given.trees, table.X[train], table.y[train])
        names = [name for name in rules if RULES[name].learns]
        learned = learn(names, model, forest, table.X[train], table.y[train], groups[train])
        if given is not None:
            learned |= given.answers(table.X[train], table.y[train])
        return cell, evaluate(forest, rules, table.X[test], table.y[test], learned)

    # Threads suffice: growing trees and compiled programs let go of the interpreter.
    with ThreadPoolExecutor(cores(), thread_name_prefix="jaxunc-study") as pool:
        waiting = [pool.submit(run, cell) for cell in cells(settings) if cell not in done]
        try:
            for future in waiting:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def cells(settings: Settings) -> list[Cell]:
    """Return all cells of a study, in order."""
    axes = (settings.forests, settings.leaf_sizes, range(settings.n_repeats), range(settings.n_folds))
    return [Cell(*values) for values in product(*axes)]


def _grow(
    cell: Cell,
    settings: Settings,
    seed: int,
    table: Table,
    train: Int[np.ndarray, "train"],
    groups: Int[np.ndarray, "train"],
) -> tuple[Any, Forest]:
    """Grow the forest of a cell.

    Returns the model that it can be learned from, and the forest, counted as the settings say.
    """
    X, y = table.X[train], table.y[train]
    grown_on = counted_on = (X, y, None)
    if settings.counts == "held_out":
        try:
            grown_on, counted_on = (
                (X[part], y[part], None) for part in calibration_split(y, 0.2, seed, as_groups(groups, len(y)))
            )
        except ValueError as error:
            raise ValueError(
                "--counts='held_out' holds out a fifth of each training part, and the smallest class has "
                f"{np.bincount(y).min()} of {len(y)} rows there, too few to be in both. Merge or leave out such "
                "classes of the target, or take --counts oob."
            ) from error
    model = FORESTS[cell.forest](settings.n_trees, cell.leaf_size, seed, settings.counts == "oob")
    if isinstance(model, RandomDecisionTreesClassifier):
        model.set_params(nominal=list(table.nominal)).fit(*grown_on[:2])
        forest = model.forest_
        if settings.counts == "held_out":
            forest = count_leaves(forest, *counted_on[:2])
    else:
        model.fit(*grown_on[:2])
        forest = counted_forest(from_sklearn(model), model, settings.counts, *counted_on, groups=groups).forest
    if np.any(np.asarray(forest.prior) <= 0):
        raise ValueError(
            f"a class is in none of the samples that the {forest.n_trees} trees count, so evidence for it is "
            "undefined. Raise --trees, or merge rare classes of the target."
        )
    if isinstance(model, RandomDecisionTreesClassifier):
        model = forest.with_empty_leaves("parent")  # no instance of its own is in an empty leaf
    return model, forest
