"""The study: forests under repeated cross-validation, and every combiner on the leaves of the same forests.

`run` shows progress and keeps outcomes. `study` splits the data. For each split it grows a forest on the training rows,
or counts them in given trees. It learns the combiners that learn, and evaluates all combiners on the test fold.
"""

import sys
import time
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

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
    """Run a study and return its results; a progress bar shows how far it is if standard error is a terminal.

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
        If the settings do not suit the table or the model, the table has too few rows, or too few of a class, or the
        folder cannot be written to or holds files of another study.
    """
    # What can be refused is refused before a folder is made.
    if settings.has_model != (given is not None):
        raise ValueError(f"--forests={settings.forests[0]!r} is for a model that comes fitted, and for that alone.")
    if settings.numbers == bool(table.class_labels):
        kind = "classes" if table.class_labels else "numbers"
        raise ValueError(f"numbers={settings.numbers} are the settings, and the target of {table.name} holds {kind}.")
    check_folds(table, settings.n_folds)
    settings.combiners_for(n_classes := len(table.class_labels))
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
    """A printer of the time left, on standard error.

    ``n`` is the number of forests to run; ``silent`` prints nothing. The time is printed once after the first forests,
    if it is half a minute or more, and with ``lines`` again every half minute.
    """

    def __init__(self, n: int, *, silent: bool, lines: bool):
        self.n, self.silent, self.lines = n, silent, lines
        self.n_done, self.start, self.last_print = 0, time.perf_counter(), time.perf_counter()

    def count_forest(self) -> None:
        """Count a finished forest, and print a line if one is due."""
        self.n_done, now = self.n_done + 1, time.perf_counter()
        n_timed = self.n_done - cores()  # not the first forests, which compile, one in each thread
        if n_timed <= 0:
            self.start = now
            return
        seconds_left = (self.n - self.n_done) * (now - self.start) / n_timed
        is_due = seconds_left >= _EVERY if n_timed == 1 else self.lines and now >= self.last_print + _EVERY
        if self.silent or self.n == self.n_done or not is_due:
            return
        self.last_print = now
        about = f"{seconds_left / 60:.0f} minutes" if seconds_left > 90 else f"{seconds_left:.0f} seconds"
        print(f"jaxunc: {self.n_done} of {self.n} forests, about {about} left", file=sys.stderr, flush=True)


def study(
    table: Table, settings: Settings, skip: Container[Cell] = (), given: GivenModel | RefittedModel | None = None
) -> Iterator[tuple[Cell, Outcome | NumberOutcome]]:
    """Yield each cell of the settings, in their order, with the outcome of its forest; one forest per core at a time.

    Cells in ``skip`` are left out. If ``given`` is a `GivenModel`, no forests are grown: its leaves count the training
    rows of each split. A `RefittedModel` is fitted anew to these. For targets that are numbers, laws are compared
    instead of combiners, and folds are not stratified.

    Raises a ValueError if rows are too few, a class has fewer than there are folds or is in none of the samples that a
    forest counts, or no combiner suits the number of classes.
    """
    copy_groups = copies_of(np.asarray(table.X, np.float32), table.codes)
    # Distinct rows are split, and copies follow: a copy in another fold would tell the row's label.
    distinct = np.arange(len(table.y)) if copy_groups is None else first_of_each(copy_groups)
    check_folds(table._replace(X=table.X[distinct], y=table.y[distinct]), settings.n_folds)
    combiners = settings.combiners_for(len(table.class_labels))
    kind = RepeatedKFold if settings.numbers else RepeatedStratifiedKFold
    folds = kind(n_splits=settings.n_folds, n_repeats=settings.n_repeats, random_state=settings.seed)
    splits = dict(enumerate(folds.split(table.X[distinct], table.y[distinct])))
    groups = distinct if copy_groups is None else copy_groups
    positive = positive_class(table, settings.positive)
    settings_of_classes: dict[str, Any] = {"positive": 1 if positive is None else table.class_labels.index(positive)}
    settings_of_classes["costs"] = None if settings.costs is None else np.asarray(settings.costs)

    def run(cell: Cell) -> tuple[Cell, Outcome | NumberOutcome]:
        """Return a cell and its outcome: grow, count or refit a forest on training rows, and answer the test fold."""
        split = cell.repeat * settings.n_folds + cell.fold
        train, test = (distinct[rows] for rows in splits[split])  # positions of rows in the table
        if copy_groups is not None:  # copies follow their distinct row
            train, test = (np.flatnonzero(np.isin(copy_groups, copy_groups[rows])) for rows in (train, test))
        # The seed depends on the split alone, so that forests of all kinds and leaf sizes are compared on equal terms.
        model: Any
        X, names, read = table.X[train], table.names, partial(np.take, table.X, axis=0)
        if settings.numbers:
            model = FORESTS_OF_NUMBERS[cell.forest](settings.n_trees, cell.leaf_size, settings.seed + split)
            sample = X, table.y[train], np.unique(groups[train], return_inverse=True)[1]
            return cell, evaluate_laws(model.fit(*sample[:2]), combiners, sample, read(test), table.y[test])
        if given is None:
            model, forest = _grow(cell, settings, settings.seed + split, table, train, groups[train])
        elif isinstance(given, RefittedModel):
            model, read, X, names = given.fit(table, train, settings.seed + split)
            forest = from_sklearn(model)
        else:
            forest = model = count_leaves(given.trees, table.X[train], table.y[train])
        learning = [name for name in combiners if COMPARED_COMBINERS[name].learns]
        learned = learn(learning, model, forest, X, table.y[train], groups[train])
        if isinstance(given, GivenModel):
            learned |= given.answers(X, table.y[train])
        outcome = evaluate(forest, combiners, read(test), table.y[test], learned, **settings_of_classes)
        columns = _root_columns(forest, table, names)
        doubtful = [_add_file_columns(row, int(test[row["row"]]), table, columns) for row in outcome.doubtful]
        # [doubtful, alike], positions among the training rows.
        alike = rows_alike(forest.trees, X, read(test[[row["row"] for row in outcome.doubtful]]))
        for row, positions in zip(doubtful, train[alike].tolist(), strict=True):
            row["alike"] = [[_number_in_file(i, table), int(table.y[i])] for i in positions]
        return cell, outcome._replace(doubtful=doubtful)

    # Threads suffice: growing trees and running compiled programs release the interpreter's lock.
    with ThreadPoolExecutor(cores(), thread_name_prefix="jaxunc-study") as pool:
        futures = [pool.submit(run, cell) for cell in cells(settings) if cell not in skip]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _root_columns(forest: Forest, table: Table, names: tuple[str, ...]) -> list[str]:
    """Return up to three raw columns, those that most trees test at their roots; none if raw columns are unknown.

    ``names`` are those of the columns that the forest reads, which a transformer may have made of the table's.
    """
    if table.frame is None:
        return []
    raw_names = [str(name) for name in table.frame.columns]
    root_features = np.asarray(forest.trees.feature)[:, 0]
    order = np.argsort(-np.bincount(root_features[root_features >= 0], minlength=len(names)), kind="stable")
    # A transformer's column is named after a raw one: num__age, cat__colour_red. Several may come of one raw column.
    short_names = [
        names[i].rpartition("__")[2] if names[i] not in raw_names else names[i] for i in order[:9] if i < len(names)
    ]
    is_source = lambda name, short: name == short or (short not in raw_names and short.startswith(name + "_"))
    root_columns = [name for short in short_names for name in raw_names if is_source(name, short)]
    return list(dict.fromkeys(root_columns))[:3]


def _add_file_columns(row: dict[str, Any], i: int, table: Table, columns: list[str]) -> dict[str, Any]:
    """Return a doubtful row with "row", its number in the file, and "columns", {name: value in the file as text}.

    ``i`` is the position of the row in the table, and ``columns`` are the names of the columns that are shown.
    """
    if table.frame is None:
        return {**row, "row": _number_in_file(i, table), "columns": {}}
    values = table.frame.iloc[i]
    write = lambda value: f"{value:g}" if isinstance(value, float) else str(value)[:40]
    texts = {name: "missing" if pd.isna(values[name]) else write(values[name]) for name in columns}
    return {**row, "row": _number_in_file(i, table), "columns": texts}


def _number_in_file(i: int, table: Table) -> int:
    """Return the number in the file, from 1, of the row at position ``i`` of the table."""
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
    of these rows, the same for copies.

    Raises a ValueError if a class is too rare to be held out, or is in none of the samples that the trees count.
    """
    X, y = table.X[train], table.y[train]
    grown_on = counted_on = (X, y)
    if settings.counts == "held_out":
        try:
            sides = held_out_split(y, 0.2, seed, as_groups(groups, len(y)))
        except ValueError as error:
            raise ValueError(
                "--counts='held_out' holds out a fifth of each training part, and the smallest class has "
                f"{np.bincount(y).min()} of {len(y)} rows there, too few to be in both. Merge or leave out such "
                "classes of the target, or take --counts oob."
            ) from error
        grown_on, counted_on = ((X[rows], y[rows]) for rows in sides)
    model = FORESTS[cell.forest](settings.n_trees, cell.leaf_size, seed, settings.counts == "oob")
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
    """Raise a ValueError unless each of the folds can have two rows of the table, and one of each class.

    For numbers, raise it unless `FEWEST` rows are left to train on.
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
    """Learn the combiners in ``names``, of "learned", "calibrated" and "isotonic"; return {name: answer function}.

    ``X`` and ``y`` are the training instances. ``model`` is what grew the forest on them, or the forest itself if its
    tests do not depend on labels. ``groups`` holds a number for each instance, the same for copies. If a class has
    fewer distinct instances than `N_FOLDS`, nothing is learned, and each combiner answers as the mean does.
    """
    if not names:
        return {}
    # Where rows of a class are too few for folds, the mean fills the rows of the tables.
    distinct = np.unique(groups, return_index=True)[1]
    if np.bincount(y[distinct], minlength=forest.n_classes).min() < N_FOLDS:
        return dict.fromkeys(names, bind(forest, Mean()).answer)
    options = {"counts": "both" if has_bags(model) else "inbag", "n_folds": N_FOLDS, "groups": groups}
    rows = oob_dataset(model, X, y, **options)
    makers = {"learned": _pool, "calibrated": _calibrated, "isotonic": _isotonic}
    return {name: makers[name](rows) for name in names}


def _pool(rows: OobDataset) -> Answers:
    """Return the answer function of a `LearnedPool` that learned from the rows."""
    return rows.bind(fit_combiner(LearnedPool(rows.prior, reads=rows.count_sets), rows).combiner).answer


def _calibrated(rows: OobDataset) -> Answers:
    """Return the answer function of the calibrated mean that has the least loss on the rows."""
    fits = [fit_combiner(candidate, rows) for candidate in rows.default_candidates()["calibrated mean"]]
    return rows.bind(min(fits, key=lambda fitted: fitted.loss).combiner).answer


def _isotonic(rows: OobDataset) -> Answers:
    """Return the answer function of the mean, calibrated by isotonic regression of each class against the rest.

    Two classes need one regression, of class 1. Probabilities are clipped to [1/(n + 2), 1 - 1/(n + 2)] for n rows, and
    then scaled to add to 1.
    """
    shares_oob, y, lowest = np.asarray(rows.answer(Mean()).probability), np.asarray(rows.y)[: rows.n], 1 / (rows.n + 2)
    n_classes = shares_oob.shape[1]
    regressions: dict[int, Any] = {
        c: IsotonicRegression(out_of_bounds="clip").fit(shares_oob[:, c], y == c)
        for c in ([1] if n_classes == 2 else range(n_classes))
    }
    mean = rows.bind(Mean())

    def answer(X: np.ndarray) -> Answer:
        """Return the mean's answer with each class's probability mapped by isotonic regression."""
        probability = np.asarray(mean.probability(X))
        columns = [
            np.clip(regression.predict(probability[:, c]), lowest, 1 - lowest) for c, regression in regressions.items()
        ]
        columns = [1 - columns[0], *columns] if n_classes == 2 else columns
        shares: Any = np.stack(columns, axis=1).astype(probability.dtype)
        shares /= shares.sum(axis=1, keepdims=True)
        logs: Any = np.log(shares)
        return Answer(logs, None, shares, logs)

    return answer
