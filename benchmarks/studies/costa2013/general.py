"""Transduction around other learners, the open question of Costa, Verwer and Blockeel 2013: does it help them?

    python -m benchmarks costa2013 --parts general [--data FOLDER] [--sets NAME ...]

Five learners of scikit-learn, each alone and in `jaxunc.estimators.TransductiveClassifier`, read by the paper's mean
and by predictive normalized maximum likelihood. A hundred instances of each set are answered (all of a smaller one),
each by what is fitted on four of five folds. A cell is a set and a learner.
"""

import warnings
from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.cells import make_part
from benchmarks.data import DataSet, load
from benchmarks.studies.costa2013.methods import Probabilities, widened
from benchmarks.studies.costa2013.pools import POOL_MEASURES, by_folds, sizes
from jaxunc.estimators import TransductiveClassifier

SETS_RUN = (
    *("iris", "postoperative", "tae", "labor", "vertebral-2c", "vertebral-3c", "liver", "wine", "hepatitis"),
    *("breast-cancer-ljubljana", "heart-statlog", "heart-h", "heart-c", "spect", "lymph", "glass", "bridges", "zoo"),
    *("sonar", "ionosphere"),
)
"""Twenty of the study's sets, of few instances and few classes."""
NEIGHBOURS, TREES, SAMPLE = 5, 20, 100
LEARNERS: dict[str, Any] = {
    "naive Bayes": GaussianNB(),
    "neighbours": KNeighborsClassifier(NEIGHBOURS),
    "tree": DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, random_state=0),
    "logistic": LogisticRegression(max_iter=300),
    "forest": RandomForestClassifier(TREES, random_state=0),
}
GeneralCell = namedtuple("GeneralCell", "data learner")
"""A set and a learner."""


def run_cell(cell: GeneralCell, data: DataSet) -> dict:
    """{reading: `POOL_MEASURES`}, with the set's sizes."""
    drawn = np.random.default_rng(1).permutation(len(data.y))[:SAMPLE]
    return sizes(data) | by_folds(data, partial(_of_fold, LEARNERS[cell.learner]), drawn)


def _of_fold(learner: Any, data: DataSet, train: np.ndarray, test: np.ndarray, _: int) -> Probabilities:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # levels that the training part lacks are no level
        prepare = prepared(data)
        X, X_test = prepare.fit_transform(data.X[train]), prepare.transform(data.X[test])
        model = TransductiveClassifier(learner).fit(X, data.y[train])
        answers = model.predict_proba_by_label(X_test)
    probs = {
        "itself": model.estimator_.predict_proba(X_test),
        "mean": answers.mean(axis=1),
        "pnml": normalized_likelihood(answers),
    }
    if (smooth := smoothed(model.estimator_, X_test)) is not None:
        probs["laplace"] = smooth
    return {name: widened(of, model.classes_, len(data.class_labels)) for name, of in probs.items()}


def prepared(data: DataSet) -> Any:
    """Columns as numbers, by what the training part holds: the inserted instance is not among it."""
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    return make_column_transformer(
        (numbers, np.flatnonzero(~data.nominal)),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), np.flatnonzero(data.nominal)),
    )


def smoothed(model: Any, X: np.ndarray) -> Any:
    """Laplace's estimate of what the learner counts, which costs nothing; None where it counts nothing."""
    if isinstance(model, RandomForestClassifier):
        return np.mean([smoothed(tree, X) for tree in model.estimators_], axis=0)
    if isinstance(model, KNeighborsClassifier):
        n = NEIGHBOURS
    elif isinstance(model, DecisionTreeClassifier):
        n = model.tree_.weighted_n_node_samples[model.apply(X)][:, None]
    else:
        return None
    probs = np.asarray(model.predict_proba(X))
    return (probs * n + 1) / (n + probs.shape[1])


def normalized_likelihood(answers: np.ndarray) -> np.ndarray:
    """Each label's probability by its own model ``[instances classes]``, normalized; the mean where all are 0."""
    own = np.diagonal(answers, axis1=1, axis2=2)
    total = own.sum(axis=1, keepdims=True)
    return np.where(total > 0, own / np.where(total > 0, total, 1), answers.mean(axis=1))


_cells = lambda name: [GeneralCell(name, learner) for learner in LEARNERS]
PART = make_part(SETS_RUN, _cells, lambda of, _: len(of["pnml"]) == len(POOL_MEASURES), run_cell, load, "general")
