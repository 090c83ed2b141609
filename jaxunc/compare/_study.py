"""The study: forests under repeated cross-validation, and every combiner on the leaves of the same forests.

`run` shows progress and keeps outcomes. For each split of the data `study` grows a forest on the training rows, or
counts them in given trees. It learns the combiners that learn, and evaluates all on the test fold.
"""

import sys
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from jaxunc._numerics import cores
from jaxunc.combiners import Answer, LearnedPool, Mean
from jaxunc.counting import (
    LabelledRows,
    as_groups,
    copies_of,
    count_leaves,
    counted_forest,
    first_of_each,
    has_bags,
    held_out_split,
)
from jaxunc.estimators import RandomDecisionTreesClassifier
from jaxunc.forest import Forest
from jaxunc.inference import bind
from jaxunc.interop import from_sklearn
from jaxunc.learning import OobDataset, fit_combiner, oob_dataset

from ._evaluate import Answers, Outcome, evaluate, rows_alike
from ._laws import NumberOutcome, evaluate_laws
from ._models import GivenModel, RefittedModel
from ._settings import COMPARED_COMBINERS, FORESTS, FORESTS_OF_NUMBERS, Cell, Settings, cells
from ._store import Results, Store, describe
from ._summary import forest_name
from ._table import Table, positive_class

_EVERY = 30.0  # seconds between lines of progress
FEWEST = 20  # least number of training rows of laws: the ends of 90% intervals need this many
N_FOLDS = 3  # folds in which combiners that learn are cross-fitted, where forests have no bootstrap or few trees


def run(
    table: Table,
    settings: Settings,
    folder: str | Path | None = None,
    *,
    quiet: bool = False,
    given: GivenModel | RefittedModel | None = None,
) -> Results:
    """Run a study and return its results; on a terminal a progress bar shows how far the study is.

    Parameters
    ----------
    table
        The data.
    settings
        Settings of the study.
    folder
        Folder in which outcomes are kept as they finish, so that an interrupted run goes on where it stopped. In the
        end it holds ``results.json``. Without a folder nothing is written.
    quiet
        Show no progress. Where standard error is not a terminal, progress is a line every half a minute.
    given
        The model, in a study of a given model (`Settings.for_model`); else None.

    Returns
    -------
    Results
        Description of the study, and an outcome for each forest.

    Raises
    ------
    ValueError
        If the settings do not suit the table or the model, or the table has too few rows, or too few of a class. Also
        if the folder cannot be written to or holds files of another study.
    """
    # All refusals come before a folder is made; `check_folds`, `combiners_for` and `positive_class` refuse, too.
    if settings.has_model != (given is not None):
        raise ValueError(f"--forests={settings.forests[0]!r} is for a model that comes fitted, and for that alone.")
    if settings.numbers == bool(table.class_labels):
        kind = "classes" if table.class_labels else "numbers"
        raise ValueError(f"numbers={settings.numbers} are the settings, and the target of {table.name} holds {kind}.")
    check_folds(table, settings.n_folds)
    n_classes = len(table.class_labels)
    settings.combiners_for(n_classes)
    if settings.costs is not None and len(settings.costs) != n_classes:
        raise ValueError(f"--costs has {len(settings.costs)} rows; expected one for each of {n_classes} classes.")
    positive_class(table, settings.positive)
    store = None if folder is None else Store(folder, table, settings, given)
    outcomes = {} if store is None else store.outcomes
    console = Console(stderr=True)
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("forests"), TimeRemainingColumn(compact=True))
    hidden = quiet or not console.is_terminal
    progress = _Progress(settings.n_forests - len(outcomes), silent=quiet, lines=not console.is_terminal)
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("compiling", total=settings.n_forests, completed=len(outcomes))
        for cell, outcome in study(table, settings, tuple(outcomes), given):
            if store is None:
                outcomes[cell] = outcome
            else:
                store.add(cell, outcome)
            bar.update(task, advance=1, description=forest_name(cell.forest, cell.leaf_size))
            progress.count_forest()
    return Results(describe(table, settings, given), outcomes) if store is None else store.finish()


class _Progress:
    """A printer of the time that a study of ``n`` forests still takes, on standard error.

    It prints once after the first forests, if half a minute or more is left, and with ``lines`` again every half
    minute; with ``silent`` never.
    """

    def __init__(self, n: int, *, silent: bool, lines: bool):
        self.n, self.silent, self.lines = n, silent, lines
        self.n_done = 0
        self.start = self.last_print = time.perf_counter()

    def count_forest(self) -> None:
        """Count a finished forest, and print the time left if a line is due."""
        self.n_done += 1
        now = time.perf_counter()
        n_timed = self.n_done - cores()  # the first forest of each thread compiles, and is not timed
        if n_timed <= 0:
            self.start = now
            return
        seconds_left = (self.n - self.n_done) * (now - self.start) / n_timed
        is_later_line_due = self.lines and now >= self.last_print + _EVERY
        is_due = seconds_left >= _EVERY if n_timed == 1 else is_later_line_due
        if self.silent or self.n == self.n_done or not is_due:
            return
        self.last_print = now
        about = f"{seconds_left / 60:.0f} minutes" if seconds_left > 90 else f"{seconds_left:.0f} seconds"
        print(f"jaxunc: {self.n_done} of {self.n} forests, about {about} left", file=sys.stderr, flush=True)


def study(
    table: Table, settings: Settings, skip: Container[Cell] = (), given: GivenModel | RefittedModel | None = None
) -> Iterator[tuple[Cell, Outcome | NumberOutcome]]:
    """Yield (cell, outcome of its forest) for each cell of the settings, in their order.

    As many forests as the machine has cores are made at a time. Cells in ``skip`` are left out. If ``given`` is a
    `GivenModel`, no forests are grown: its leaves count the training rows of each split. A `RefittedModel` is fitted
    anew to these rows.

    Raises a ValueError if rows are too few, a class has fewer rows than there are folds, or no combiner suits the
    number of classes. Also if a class is in none of the samples that a forest counts.
    """
    copy_groups = copies_of(np.asarray(table.X, np.float32), table.codes)  # None: there are no copies
    # Distinct rows are split, and copies follow: a copy in another fold would tell the row's label.
    if copy_groups is None:
        distinct = groups = np.arange(len(table.y))
    else:
        distinct = first_of_each(copy_groups)
        groups = copy_groups
    check_folds(table._replace(X=table.X[distinct], y=table.y[distinct]), settings.n_folds)
    combiners = settings.combiners_for(len(table.class_labels))
    kind = RepeatedKFold if settings.numbers else RepeatedStratifiedKFold
    folds = kind(n_splits=settings.n_folds, n_repeats=settings.n_repeats, random_state=settings.seed)
    splits = list(folds.split(table.X[distinct], table.y[distinct]))
    positive = positive_class(table, settings.positive)
    positive_position = 1 if positive is None else table.class_labels.index(positive)
    costs = None if settings.costs is None else np.asarray(settings.costs)

    def run(cell: Cell) -> tuple[Cell, Outcome | NumberOutcome]:
        """Make the forest of a cell on its training rows, and return the cell and the outcome on its test fold."""
        split = cell.repeat * settings.n_folds + cell.fold  # `splits` holds the folds of one repetition after another
        train, test = (distinct[rows] for rows in splits[split])  # positions of rows in the table
        if copy_groups is not None:
            train = _with_copies(train, copy_groups)
            test = _with_copies(test, copy_groups)
        y_train = table.y[train]
        # The seed depends on the split alone, so that forests of all kinds and leaf sizes are compared on equal terms.
        seed = settings.seed + split
        if settings.numbers:
            regressor = FORESTS_OF_NUMBERS[cell.forest](settings.n_trees, cell.leaf_size, seed)
            training_rows = table.X[train], y_train, np.unique(groups[train], return_inverse=True)[1]
            regressor.fit(*training_rows[:2])
            X_test = np.take(table.X, test, axis=0)
            return cell, evaluate_laws(regressor, combiners, training_rows, X_test, table.y[test])
        trained = _train(cell, settings, seed, table, train, groups[train], given)
        learning = [name for name in combiners if COMPARED_COMBINERS[name].learns]
        learned = learn(learning, trained.model, trained.forest, trained.X, y_train, groups[train])
        if isinstance(given, GivenModel):
            learned |= given.answers(trained.X, y_train)
        outcome = evaluate(
            trained.forest,
            combiners,
            trained.read(test),
            table.y[test],
            learned,
            positive=positive_position,
            costs=costs,
        )
        return cell, outcome._replace(doubtful=_describe_doubtful(outcome, trained, table, train, test))

    # Threads suffice: growing trees and running compiled programs release the interpreter's lock.
    with ThreadPoolExecutor(cores(), thread_name_prefix="jaxunc-study") as pool:
        futures = [pool.submit(run, cell) for cell in cells(settings) if cell not in skip]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _with_copies(rows: Int[np.ndarray, "rows"], groups: Int[np.ndarray, "instances"]) -> Int[np.ndarray, "copies"]:
    """Return the positions ``rows`` and those of their copies, which share a number in ``groups``, in rising order."""
    return np.flatnonzero(np.isin(groups, groups[rows]))


class _TrainedForest(NamedTuple):
    """A forest whose leaves count the training rows of one split."""

    model: Any  # what `learn` takes: the fitted estimator, or the forest itself
    forest: Forest
    X: Any  # features of the training rows, as the forest reads them
    names: tuple[str, ...]  # names of the features; empty if they are not known
    read: Callable[..., np.ndarray]  # function from positions in the table to the features of these rows


def _train(
    cell: Cell,
    settings: Settings,
    seed: int,
    table: Table,
    train: Int[np.ndarray, "train"],
    groups: Int[np.ndarray, "train"],
    given: GivenModel | RefittedModel | None,
) -> _TrainedForest:
    """Return the forest of a cell: grown on the training rows, or the ``given`` model, counted or refitted on them.

    ``train`` holds the positions of the training rows in the table, and ``groups`` a number for each of them, the same
    for copies. Raises the ValueErrors of `_grow` and `RefittedModel.fit`.
    """
    X = table.X[train]
    read = partial(np.take, table.X, axis=0)
    if given is None:
        model, forest = _grow(cell, settings, seed, table, train, groups)
        return _TrainedForest(model, forest, X, table.names, read)
    if isinstance(given, RefittedModel):
        estimator, read_steps, X_of_steps, names = given.fit(table, train, seed)
        return _TrainedForest(estimator, from_sklearn(estimator), X_of_steps, names, read_steps)
    forest = count_leaves(given.trees, X, table.y[train])
    return _TrainedForest(forest, forest, X, table.names, read)


def _describe_doubtful(
    outcome: Outcome,
    trained: _TrainedForest,
    table: Table,
    train: Int[np.ndarray, "train"],
    test: Int[np.ndarray, "test"],
) -> list[dict[str, Any]]:
    """Return the doubtful rows of an outcome with what the file holds of them, as entries of `Outcome.doubtful`.

    ``train`` and ``test`` hold the positions in the table of the split's training and test rows.
    """
    columns = _root_columns(trained.forest, table, trained.names)
    positions = test[[row["row"] for row in outcome.doubtful]]
    # [doubtful, alike], positions in the table of the training rows most like each doubtful row.
    alike = train[rows_alike(trained.forest.trees, trained.X, trained.read(positions))]
    doubtful = []
    for row, position, alike_positions in zip(outcome.doubtful, positions.tolist(), alike.tolist(), strict=True):
        described = _add_file_columns(row, position, table, columns)
        described["alike"] = [[_number_in_file(i, table), int(table.y[i])] for i in alike_positions]
        doubtful.append(described)
    return doubtful


def _root_columns(forest: Forest, table: Table, names: tuple[str, ...]) -> list[str]:
    """Return the names of up to three raw columns of the table, those that most trees test at their roots.

    ``names`` are those of the columns that the forest reads, which a transformer may have made of raw columns.
    """
    if table.frame is None:
        return []
    raw_names = [str(name) for name in table.frame.columns]
    root_features = np.asarray(forest.trees.feature)[:, 0]
    n_roots = np.bincount(root_features[root_features >= 0], minlength=len(names))  # a root that is a leaf tests none
    root_columns = []
    # Nine features, since several of them may come of one raw column.
    for i in np.argsort(-n_roots, kind="stable")[:9]:
        if i >= len(names):  # the names are not known
            continue
        # A transformer's column is named after a raw one: num__age, cat__colour_red.
        name = names[i] if names[i] in raw_names else names[i].rpartition("__")[2]
        if name in raw_names:
            root_columns.append(name)
        else:
            root_columns += [raw_name for raw_name in raw_names if name.startswith(raw_name + "_")]
    return list(dict.fromkeys(root_columns))[:3]


def _add_file_columns(row: dict[str, Any], i: int, table: Table, columns: list[str]) -> dict[str, Any]:
    """Return ``row``, an entry of `Outcome.doubtful`, with its number in the file and "columns", {name: value as text}.

    ``i`` is the row's position in the table, and ``columns`` are the names to show. Without a file none are shown.
    """
    if table.frame is None:
        return {**row, "row": _number_in_file(i, table), "columns": {}}
    values = table.frame.iloc[i]
    texts = {}
    for name in columns:
        value = values[name]
        if pd.isna(value):
            texts[name] = "missing"
        else:
            texts[name] = f"{value:g}" if isinstance(value, float) else str(value)[:40]
    return {**row, "row": _number_in_file(i, table), "columns": texts}


def _number_in_file(i: int, table: Table) -> int:
    """Return the number, from 1, that the row at position ``i`` of the table has in the file."""
    return i + 1 if table.frame is None else int(table.frame.index[i])


def _grow(
    cell: Cell,
    settings: Settings,
    seed: int,
    table: Table,
    train: Int[np.ndarray, "train"],
    groups: Int[np.ndarray, "train"],
) -> tuple[Any, Forest]:
    """Grow the forest of a cell, with a seed, on the table's rows at the positions ``train``.

    Return the model that `learn` takes, and the forest, counted as the settings say. ``groups`` holds a number for each
    of the rows, the same for copies. Raises a ValueError if a class is too rare to be held out, or no tree counts it.
    """
    X, y = table.X[train], table.y[train]
    grown_on = counted_on = (X, y)
    if settings.counts == "held_out":
        try:
            grown_rows, counted_rows = held_out_split(y, 0.2, seed, as_groups(groups, len(y)))
        except ValueError as error:
            raise ValueError(
                "--counts='held_out' holds out a fifth of each training part, and the smallest class has "
                f"{np.bincount(y).min()} of {len(y)} rows there, too few to be in both. Merge or leave out such "
                "classes of the target, or take --counts oob."
            ) from error
        grown_on = (X[grown_rows], y[grown_rows])
        counted_on = (X[counted_rows], y[counted_rows])
    needs_bags = settings.counts == "oob"
    model = FORESTS[cell.forest](settings.n_trees, cell.leaf_size, seed, needs_bags)
    if isinstance(model, RandomDecisionTreesClassifier):
        model.set_params(nominal=list(table.nominal)).fit(*grown_on)
        forest = model.forest_
        if settings.counts == "held_out":
            forest = count_leaves(forest, *counted_on)
    else:
        model.fit(*grown_on)
        labelled_rows = LabelledRows(*counted_on, groups=groups)
        forest = counted_forest(from_sklearn(model), model, settings.counts, labelled_rows).forest
    if np.any(np.asarray(forest.prior) <= 0):
        raise ValueError(
            f"a class is in none of the samples that the {forest.n_trees} trees count, so evidence for it is "
            "undefined. Raise --trees, or merge rare classes of the target."
        )
    if isinstance(model, RandomDecisionTreesClassifier):
        model = forest.with_empty_leaves("parent")  # changes no answer for rows of its sample: they reach no empty leaf
    return model, forest


def check_folds(table: Table, n_folds: int) -> None:
    """Raise a ValueError unless each of ``n_folds`` folds has two rows and, for classes, one of each class.

    For numbers a training part must have `FEWEST` rows.
    """
    if len(table.y) < 2 * n_folds:
        raise ValueError(
            f"DATA has {len(table.y)} rows, too few for --folds={n_folds}; expected at least {2 * n_folds}, "
            "two in every fold. Add rows, or lower --folds (to 2 at least)."
        )
    if not table.class_labels:
        if len(table.y) * (n_folds - 1) // n_folds < FEWEST:
            raise ValueError(
                f"DATA has {len(table.y)} rows, and a training part of --folds={n_folds} fewer than {FEWEST}, which "
                "the ends of 90% intervals need. Add rows, or raise --folds."
            )
        return
    sizes = np.bincount(table.y, minlength=len(table.class_labels))
    if sizes.min() < n_folds:
        rare = [f"{label!r} ({size})" for label, size in zip(table.class_labels, sizes, strict=True) if size < n_folds]
        remedy = f"Lower --folds to {sizes.min()}, or merge" if sizes.min() >= 2 else "Merge"
        raise ValueError(
            f"the target has classes with fewer rows than --folds={n_folds}: {', '.join(rare[:5])}"
            f"{' and more' * (len(rare) > 5)}; every class must be in every fold. {remedy} or leave out such classes."
        )


def learn(
    names: Sequence[str], model: Any, forest: Forest, X: np.ndarray, y: np.ndarray, groups: np.ndarray
) -> dict[str, Answers]:
    """Learn combiners from training instances, and return {name: function from instances to their answer}.

    ``names`` holds some of "learned", "calibrated" and "isotonic". ``X`` and ``y`` are the training instances.
    ``model`` is the estimator that grew the forest on them, or the forest itself if its tests do not depend on labels.
    ``groups`` holds a number for each instance, the same for copies. If a class has fewer distinct instances than
    `N_FOLDS`, nothing is learned, and each combiner answers as the mean does.
    """
    if not names:
        return {}
    distinct = np.unique(groups, return_index=True)[1]  # one instance of each group of copies
    if np.bincount(y[distinct], minlength=forest.n_classes).min() < N_FOLDS:
        return dict.fromkeys(names, bind(forest, Mean()).answer)
    options = {"counts": "both" if has_bags(model) else "inbag", "n_folds": N_FOLDS, "groups": groups}
    rows = oob_dataset(model, X, y, **options)
    makers = {"learned": _pool, "calibrated": _calibrated, "isotonic": _isotonic}
    return {name: makers[name](rows) for name in names}


def _pool(rows: OobDataset) -> Answers:
    """Return the function from instances to answers of a `LearnedPool` that is fitted to the rows."""
    fit = fit_combiner(LearnedPool(rows.prior, reads=rows.count_sets), rows)
    return rows.bind(fit.combiner).answer


def _calibrated(rows: OobDataset) -> Answers:
    """Return the function from instances to answers of the calibrated mean that has the least loss on the rows."""
    fits = [fit_combiner(candidate, rows) for candidate in rows.default_candidates()["calibrated mean"]]
    best_fit = min(fits, key=lambda fit: fit.loss)
    return rows.bind(best_fit.combiner).answer


def _isotonic(rows: OobDataset) -> Answers:
    """Return the function from instances to answers of the mean, with probabilities calibrated by isotonic regression.

    Each class is calibrated against the rest; for two classes class 1 alone, and class 0 has what is left to 1.
    Probabilities are clipped to [1/(n + 2), 1 - 1/(n + 2)] for n rows, and then scaled to add to 1.
    """
    oob_probability = np.asarray(rows.answer(Mean()).probability)  # [rows, classes]
    y = np.asarray(rows.y)[: rows.n]  # without padding
    lowest = 1 / (rows.n + 2)
    n_classes = oob_probability.shape[1]
    regressions: dict[int, Any] = {}  # by class
    for c in [1] if n_classes == 2 else range(n_classes):
        regressions[c] = IsotonicRegression(out_of_bounds="clip").fit(oob_probability[:, c], y == c)
    mean = rows.bind(Mean())

    def answer(X: np.ndarray) -> Answer:
        """Return the mean's answer with each class's probability mapped by isotonic regression."""
        probability = np.asarray(mean.probability(X))
        columns = []
        for c, regression in regressions.items():
            columns.append(np.clip(regression.predict(probability[:, c]), lowest, 1 - lowest))
        if n_classes == 2:
            columns = [1 - columns[0], *columns]  # class 0 before class 1
        probs: Any = np.stack(columns, axis=1).astype(probability.dtype)
        probs /= probs.sum(axis=1, keepdims=True)
        logs: Any = np.log(probs)
        return Answer(class_scores=logs, score=None, probability=probs, log_probability=logs)

    return answer
