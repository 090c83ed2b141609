"""What holds arrays of JAX is pickled and copied as ever, and refuses writers that would lose them."""

import copy
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier
from tests._forests import toy_data

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def model():
    X, y = toy_data(2)
    rule = ju.EvidenceAccumulation(jnp.array([0.5, 0.5]))
    return CombinedForestClassifier(RandomForestClassifier(4, min_samples_leaf=5, random_state=0), combiner=rule).fit(
        X, y
    ), X


@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_and_copies_answer_the_same(model, protocol):
    model, X = model
    for part in (model, model.bound_):
        for kept in (pickle.loads(pickle.dumps(part, protocol)), copy.copy(part), copy.deepcopy(part)):
            own, other = (getattr(m, "bound_", m).probability(X) for m in (part, kept))
            np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", ["forest_", "combiner_", "bound_"])
def test_a_state_without_pickles_is_refused(model, name):
    part = getattr(model[0], name)
    with pytest.raises(TypeError, match=rf"{type(part).__name__} holds arrays of JAX.*jaxunc\.save"):
        part.__reduce__()


def test_skops_is_told_what_to_do(model):
    io = pytest.importorskip("skops.io")
    with pytest.raises(TypeError, match=r"jaxunc\.save"):
        io.dumps(model[0])
