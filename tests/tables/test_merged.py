"""Values that float32 cannot tell apart: who says so, and of what."""

import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier, TransductiveTreeClassifier
from jaxunc.tables import MergedValuesWarning

pytestmark = pytest.mark.once

N = 80
FINE = 1e6 + 0.01 * np.arange(N)
X = np.column_stack([np.arange(N), FINE])
Y = np.arange(N) // 8 % 2
KEY = jax.random.key(0)

CALLS = {
    "transductive_certainty": lambda X: ju.transductive_certainty(X, Y, X[:1]),
    "leave_one_out_certainty": lambda X: ju.transduction.leave_one_out_certainty(X, Y),
    "kukar_kononenko": lambda X: ju.transduction.kukar_kononenko(X, Y, X[:1]),
    "grow_greedy_trees": lambda X: ju.transduction.grow_greedy_trees(X, Y),
    "bagging": lambda X: ju.transduction.bagging(KEY, X, Y, n_trees=1),
    "grow_random_trees": lambda X: ju.grow_random_trees(KEY, X, Y, n_trees=2, min_samples_leaf=4),
    "transductive classifier": lambda X: TransductiveTreeClassifier().fit(X, Y),
    "random trees": lambda X: RandomDecisionTreesClassifier(2, min_samples_leaf=4, random_state=0).fit(X, Y),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.exhaustive
def test_who_grows_trees_says_which_column_is_merged(name):
    with pytest.warns(MergedValuesWarning, match=r"columns 1 \(14 of 80 distinct values are left\)") as caught:
        CALLS[name](X)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "data",
    [
        X.astype(np.float32),
        X - X.mean(axis=0),
        pd.DataFrame({"few": X[:, 0], "random": np.random.default_rng(0).normal(size=N)}),
        np.where(X > 1e5, np.nan, X),
    ],
)
def test_nothing_is_said_where_nothing_is_merged(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ju.transduction.grow_greedy_trees(data, Y)


def test_frames_integers_and_objects():
    numbers = pd.array([*(2**24 + np.arange(N - 1)), None], dtype="Int64")
    frame = pd.DataFrame({"kind": ["a", "b"] * (N // 2), "number": numbers, "time": FINE.astype(object)})
    with pytest.warns(MergedValuesWarning, match=r"'number' \(40 of 79 .*'time' \(14 of 80"):
        ju.transduction.grow_greedy_trees(frame, Y, nominal=["kind"])


def test_a_frame_is_examined_by_some_of_many_rows():
    n = 2**18 + 5
    fine = pd.DataFrame({"time": 1e6 + 1e-3 * np.arange(n)})
    with pytest.warns(MergedValuesWarning, match="of 87383 distinct"):
        ju.tables.warn_of_merged_values(fine, ju.tables.fit_columns(fine))


@pytest.mark.exhaustive
def test_scikit_learn_merges_by_itself():
    with warnings.catch_warnings():
        warnings.simplefilter("error", MergedValuesWarning)
        ju.leaf_counts(ju.from_sklearn(DecisionTreeClassifier().fit(X, Y)), X)
