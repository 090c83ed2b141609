"""A forest, and rows that its trees leave out, with one kind of counts and with both."""

import pytest
from sklearn.ensemble import RandomForestClassifier

from jaxunc.learning import oob_dataset
from tests._forests import toy_data


@pytest.fixture(scope="session")
def model():
    X, y = toy_data(2)
    return X[:200], y[:200], RandomForestClassifier(60, random_state=0, min_samples_leaf=2).fit(X[:200], y[:200])


@pytest.fixture(scope="session")
def rows(model):
    return oob_dataset(model[2], *model[:2], source="oob")


@pytest.fixture(scope="session")
def wide(model):
    return oob_dataset(model[2], *model[:2], source="oob", counts="both")
