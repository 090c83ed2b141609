"""The study: forests under repeated cross-validation, every rule on the same leaves → plain records."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from joblib import cpu_count
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

from jaxunc import __version__
from jaxunc.combiners import Answer, margin
from jaxunc.interop import from_sklearn
from jaxunc.routing import bind

from ._data import Table
from ._rules import all_rules, rules_for

FORESTS = {"random-forest": RandomForestClassifier, "extra-trees": ExtraTreesClassifier}
"""The kinds of forests, by the name that tables and files use."""

METRICS = {"accuracy": True, "auc": True, "brier": False, "log_loss": False}
"""The measures, and whether larger is better."""


class Record(NamedTuple):
    """How one rule did on one test fold of one forest."""

    forest: str
    leaf_size: int
    repeat: int
    fold: int
    rule: str
    accuracy: float
    auc: float
    brier: float
    log_loss: float


@dataclass(frozen=True)
class Settings:
    """What a study runs: kinds of forests × leaf sizes × repetitions × folds.

    Parameters
    ----------
    forests
        Names from `FORESTS`.
    leaf_sizes
        Least numbers of instances in a leaf (``min_samples_leaf``).
    n_trees, n_repeats, n_folds
        Trees in a forest; repetitions and folds of stratified cross-validation.
    seed
        Decides the folds and the forests.

    Raises
    ------
    ValueError
        If a forest is unknown or a number too small.
    """

    forests: tuple[str, ...] = tuple(FORESTS)
    leaf_sizes: tuple[int, ...] = (1, 2, 4, 8, 32)
    n_trees: int = 100
    n_repeats: int = 2
    n_folds: int = 5
    seed: int = 0

    def __post_init__(self):
        for name in self.forests:
            if name not in FORESTS:
                choices = ", ".join(FORESTS)
                raise ValueError(
                    f"--forests={name!r} is unknown; choose from {choices} (the file DATA goes before them)."
                )
        if not self.forests or not self.leaf_sizes:
            raise ValueError("--forests and --leaf-sizes need at least one value each.")
        for size in self.leaf_sizes:
            _check_range("--leaf-sizes", size, 1, "the least number of instances in a leaf")
        _check_range("--trees", self.n_trees, 1, "the number of trees in a forest")
        _check_range("--repeats", self.n_repeats, 1, "the number of repetitions of the cross-validation")
        _check_range("--folds", self.n_folds, 2, "the number of parts of which each is the test set once")
        _check_range("--seed", self.seed, 0, "the seed of folds and forests")
        object.__setattr__(self, "forests", tuple(dict.fromkeys(self.forests)))
        object.__setattr__(self, "leaf_sizes", tuple(sorted(set(self.leaf_sizes))))

    @property
    def n_forests(self) -> int:
        """How many forests the study grows."""
        return len(self.forests) * len(self.leaf_sizes) * self.n_repeats * self.n_folds


def _check_range(option: str, value: int, least: int, meaning: str) -> None:
    if not least <= value < 2**31:
        raise ValueError(f"{option}={value} ({meaning}) is out of range; expected an integer from {least} to 2^31 - 1.")


def check_folds(table: Table, n_folds: int) -> None:
    """Raise a ValueError unless every class can be in every test fold."""
    sizes = np.bincount(table.y, minlength=len(table.class_labels))
    if len(table.y) < 2 * n_folds:
        raise ValueError(
            f"DATA has {len(table.y)} rows, too few for --folds={n_folds}; expected at least {2 * n_folds}, "
            "two in every fold. Add rows, or lower --folds (to 2 at least)."
        )
    if sizes.min() < n_folds:
        rare = [f"{label!r} ({size})" for label, size in zip(table.class_labels, sizes, strict=True) if size < n_folds]
        remedy = f"Lower --folds to {sizes.min()}, or merge" if sizes.min() >= 2 else "Merge"
        raise ValueError(
            f"the target has classes with fewer rows than --folds={n_folds}: {', '.join(rare[:5])}"
            f"{' and more' * (len(rare) > 5)}; every class must be in every fold. {remedy} or leave out such classes."
        )


def study(table: Table, settings: Settings) -> Iterator[list[Record]]:
    """Grow the forests, one per core at a time, and yield for each the records of all rules on its test fold.

    They come in the order of the settings: forests, leaf sizes, repetitions, folds.

    Parameters
    ----------
    table
        The data.
    settings
        What to run.

    Raises
    ------
    ValueError
        If a class has fewer instances than there are folds, or is in no sample that the trees were grown on.
    """
    check_folds(table, settings.n_folds)
    folds = RepeatedStratifiedKFold(n_splits=settings.n_folds, n_repeats=settings.n_repeats, random_state=settings.seed)
    splits = list(enumerate(folds.split(table.X, table.y)))

    def run(name: str, leaf_size: int, i: int, train: np.ndarray, test: np.ndarray) -> list[Record]:
        model = FORESTS[name](settings.n_trees, min_samples_leaf=leaf_size, random_state=settings.seed + i)
        measured = evaluate(model.fit(table.X[train], table.y[train]), table.X[test], table.y[test])
        repeat, fold = divmod(i, settings.n_folds)
        return [Record(name, leaf_size, repeat, fold, rule, **values) for rule, values in measured.items()]

    # Threads suffice: growing trees and compiled programs let go of the interpreter.
    with ThreadPoolExecutor(cpu_count(), thread_name_prefix="jaxunc-study") as pool:
        waiting = [
            pool.submit(run, name, leaf_size, i, train, test)
            for name, leaf_size, (i, (train, test)) in product(settings.forests, settings.leaf_sizes, splits)
        ]
        try:
            for future in waiting:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def evaluate(
    model, X: Float[np.ndarray, "instances features"], y: Int[np.ndarray, " instances"]
) -> dict[str, dict[str, float]]:
    """Every rule on the leaves of a fitted forest, by one routing: {rule: {measure: value}}.

    ``y`` holds positions in ``model.classes_``. Raises a ValueError if a class is in no tree's sample.
    """
    forest = from_sklearn(model)
    if np.any(np.asarray(forest.prior) <= 0):
        raise ValueError(
            f"a class is in none of the samples that the {forest.n_trees} trees were grown on, so evidence for it is "
            "undefined. Raise --trees, or merge rare classes of the target."
        )
    answers = bind(forest, all_rules(forest)).answer(X)
    # JAX hands dictionaries back with sorted keys.
    return {rule: measure(answers[rule], y) for rule in rules_for(forest.n_classes)}


def measure(answer: Answer, y: Int[np.ndarray, " instances"]) -> dict[str, float]:
    """The measures of one rule's answers; classes are 0 … C-1.

    Accuracy is that of the largest class score. AUC is one class against the rest, averaged over the classes. Brier
    is the mean squared error of the probability: for two classes of that of class 1, for more summed over classes.
    Log loss clips probabilities at the rounding unit of float64. All as in scikit-learn.
    """
    scores, shares, log_probs = (
        np.asarray(part, np.float64) for part in (answer.class_scores, answer.probability, answer.log_probability)
    )
    probs = shares / shares.sum(axis=1, keepdims=True)
    classes = np.arange(probs.shape[1])
    if len(classes) == 2:
        area = roc_auc_score(y, np.asarray(margin(answer.class_scores), np.float64))
        brier = brier_score_loss(y, probs[:, 1])
    else:
        keys = _ranking_keys(shares, log_probs)
        area = np.mean([roc_auc_score(y == c, keys[:, c]) for c in classes])
        brier = np.mean(np.sum((probs - (y[:, None] == classes)) ** 2, axis=1))
    return {
        "accuracy": float(accuracy_score(y, np.argmax(scores, axis=1))),
        "auc": float(area),
        "brier": float(brier),
        "log_loss": float(log_loss(y, probs, labels=classes)),
    }


def _ranking_keys(probs: np.ndarray, log_probs: np.ndarray) -> np.ndarray:
    """Numbers in the order of the probabilities that also order those which round to 0 or 1."""
    others = np.stack(
        [np.logaddexp.reduce(np.delete(log_probs, c, axis=1), axis=1) for c in range(probs.shape[1])], axis=1
    )
    with np.errstate(divide="ignore"):
        return np.where(probs == 1, -others, np.where(probs > 1e-30, np.log(probs), log_probs))


def check_writable(path: str | Path) -> None:
    """Raise a ValueError if a file of that name cannot be made, before hours are spent on what it should hold."""
    path = Path(path)
    if path.is_dir():
        found = "is a folder"
    elif not path.parent.is_dir():
        found = "is in a folder that does not exist"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        found = "cannot be written to"
    else:
        return
    raise ValueError(f"--json={str(path)!r} {found}; expected the name of a file to write, such as results.json.")


def write_json(path: str | Path, table: Table, settings: Settings, records: list[Record]) -> None:
    """Write data, settings and all records of a study. Raises an OSError if the file cannot be written."""
    document = {
        "format": "jaxunc compare",
        "format_version": 1,
        "jaxunc": __version__,
        "data": {
            "name": table.name,
            "n_instances": table.X.shape[0],
            "n_features": table.X.shape[1],
            "classes": dict(zip(table.class_labels, np.bincount(table.y).tolist(), strict=True)),
            "notes": list(table.notes),
        },
        "settings": asdict(settings),
        "results": [record._asdict() for record in records],
    }
    Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
