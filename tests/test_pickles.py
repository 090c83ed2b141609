"""States of models: for pickles and copies as ever, for writers such as skops of arrays and texts alone."""

import copy
import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from jax.tree_util import Partial
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxunc as ju
from jaxunc.estimators import (
    CautiousForestClassifier,
    CombinedForestClassifier,
    RandomDecisionTreesClassifier,
    TransductiveClassifier,
    TransductiveTreeClassifier,
    UncertainForestRegressor,
)
from tests._forests import toy_data
from tests._refusal import refusals
from tests._rules import GiniWeighted, tempered

pytestmark = [pytest.mark.once, pytest.mark.room]
X, Y = toy_data(2)
TEXT = np.array(["no", "yes"])[Y]
FRAME = pd.DataFrame({"a": X[:, 0], "word": np.array(["red", "green", "blue"])[np.arange(len(X)) % 3]})
FOREST = RandomForestClassifier(6, min_samples_leaf=5, random_state=0)
NUMBERS = RandomForestRegressor(5, min_samples_leaf=3, random_state=0)
SPARSE = scipy.sparse.csr_matrix(np.where(X > 0, X, 0))


class Own(CombinedForestClassifier):
    """A class of one's own with a further attribute in its state."""

    def __init__(self, estimator=None, further=3):
        super().__init__(estimator)
        self.further = further

    def __getstate__(self):
        return super().__getstate__() | {"seen": True}


@lru_cache
def forest() -> ju.Forest:
    return ju.from_sklearn(clone(FOREST).fit(X, TEXT))


RULE, SCORER = ju.EvidenceAccumulation(np.array([0.5, 0.5])), {"scorer": ju.scorers.plausibility}
OF_JAX = {"smoothing": jnp.array(0.5)}
MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "a rule": lambda: (CombinedForestClassifier(FOREST, RULE).fit(X, Y), X),
    "an option": lambda: (CombinedForestClassifier(FOREST, "mean", SCORER, random_state=3).fit(X, Y > 0), X),
    "an array of JAX": lambda: (CombinedForestClassifier(FOREST, "evidence", OF_JAX).fit(X, Y), X),
    "sparse": lambda: (CombinedForestClassifier(FOREST).fit(SPARSE, TEXT), SPARSE),
    "of one's own": lambda: (Own(FOREST, 4).fit(X, TEXT), X),
    "a frozen forest": lambda: (CombinedForestClassifier(FrozenEstimator(clone(FOREST).fit(X, TEXT))).fit(), X),
    "a frozen Forest": lambda: (CombinedForestClassifier(FrozenEstimator(forest())).fit(), X),
    "cautious": lambda: (CautiousForestClassifier(clone(FOREST).set_params(n_estimators=40), s=2.0).fit(X, TEXT), X),
    "random trees": lambda: (RandomDecisionTreesClassifier(5, random_state=0).fit(FRAME, TEXT), FRAME),
    "transduction": lambda: (TransductiveTreeClassifier(progress=print).fit(FRAME[:40], TEXT[:40]), FRAME[:4]),
    "any transduction": lambda: (TransductiveClassifier(FOREST).fit(X[:30], TEXT[:30]), X[:2]),
    "a pipeline": lambda: (make_pipeline(StandardScaler(), CombinedForestClassifier(FOREST)).fit(X, Y), X),
    "frozen": lambda: (FrozenEstimator(CombinedForestClassifier(FOREST).fit(X, Y)), X),
    "numbers": lambda: (UncertainForestRegressor(NUMBERS).fit(X, X[:, 0] + Y), X),
    "unfitted": lambda: (CombinedForestClassifier(None, RULE), None),
    "forest": lambda: (forest(), None),
    "trees": lambda: (forest().trees, None),
    "rule": lambda: (ju.Calibrated(ju.Mean(ju.scorers.plausibility), scale=1.5, bias=np.array([0.0, 0.5])), None),
    "bound": lambda: (ju.bind(forest(), {"mean": ju.Mean(), "median": ju.Median()}), X),
    "vote": lambda: (ju.voting.bind_vote(forest(), confidence=0.9), X),
    "ensemble": lambda: (ju.from_any(GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, Y)), X),
}
"""What is written, and the instances that it is asked about."""


@lru_cache
def model_of(name: str) -> tuple[Any, Any]:
    return MODELS[name]()


def answers(model: Any, rows: Any) -> list[np.ndarray]:
    if rows is None:  # what it holds
        held = model.combiner if isinstance(model, CombinedForestClassifier) else model
        return list(map(np.asarray, jax.tree.leaves(held)))
    if isinstance(model, UncertainForestRegressor):
        return [model.predict(rows), model.predict(rows, quantiles=[0.1, 0.8]), *model.predict_uncertainty(rows)]
    if hasattr(model, "predict_proba"):
        return [model.predict_proba(rows), model.predict(rows)]
    return list(map(np.asarray, jax.tree.leaves(model.answer(rows))))


def check_identical(again: Any, model: Any, rows: Any) -> None:
    for own, other in zip(answers(again, rows), answers(model, rows), strict=True):
        assert own.dtype == other.dtype
        np.testing.assert_array_equal(own, other)
    if hasattr(model, "get_params"):
        was, now = model.get_params(), again.get_params()
        assert list(now) == list(was)
        plain = [name for name, value in was.items() if isinstance(value, str | int | float | None)]
        assert {name: now[name] for name in plain} == {name: was[name] for name in plain}
        assert type(clone(again)) is type(clone(model))


def state_of(part: Any) -> Any:
    """What a writer without pickles takes of an object: arrays, texts and numbers, and objects by their state.

    Models of scikit-learn are copied, which such a writer knows.
    """
    if isinstance(part, np.ndarray | np.generic | str | int | float | None):
        return part
    if type(part) in (list, tuple):
        return type(part)(map(state_of, part))
    if type(part) is dict:
        assert all(type(key) is str for key in part)
        return {key: state_of(value) for key, value in part.items()}
    if type(part).__module__.startswith(("sklearn.ensemble", "sklearn.tree", "sklearn.preprocessing", "scipy")):
        return copy.deepcopy(part)
    assert part.__reduce__()[0] is not type(part)
    return type(part), state_of(part.__getstate__())


def from_state(state: Any) -> Any:
    if type(state) is tuple and len(state) == 2 and isinstance(state[0], type):
        made = state[0].__new__(state[0])
        attributes = from_state(state[1])
        made.__setstate__(attributes) if hasattr(made, "__setstate__") else vars(made).update(attributes)
        return made
    if type(state) in (list, tuple):
        return type(state)(map(from_state, state))
    return {key: from_state(value) for key, value in state.items()} if type(state) is dict else state


@pytest.mark.exhaustive(keep=3)
@pytest.mark.parametrize("name", MODELS)
def test_a_state_of_arrays_and_texts_answers_the_same(name):
    model, rows = model_of(name)
    again = from_state(state_of(model))
    check_identical(again, model, rows)
    check_identical(pickle.loads(pickle.dumps(from_state(state_of(again)))), model, rows)


@pytest.mark.exhaustive(keep=2)
@pytest.mark.parametrize("name", MODELS)
def test_skops(name):
    io = pytest.importorskip("skops.io")
    model, rows = model_of(name)
    content = io.dumps(model)
    trusted = io.get_untrusted_types(data=content)
    check_identical(io.loads(content, trusted=trusted), model, rows)
    own = [kind for kind in trusted if kind.startswith("jaxunc.")]
    assert len(own) <= 1 + (name == "a frozen Forest")


@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_and_copies_answer_the_same(protocol):
    for name in ("a rule", "of one's own", "random trees", "bound", "forest", "ensemble"):
        model, rows = model_of(name)
        for kept in (pickle.loads(pickle.dumps(model, protocol)), copy.copy(model), copy.deepcopy(model)):
            check_identical(kept, model, rows)
            assert vars(kept).keys() - {"seen"} == vars(model).keys() - {"_on_tested", "_raw_engine", "_traceable"}
            assert not isinstance(model, Own) or kept.seen


def test_pickles_hold_attributes_alone():
    """As those of before did: they load."""
    model = model_of("a rule")[0]
    for part in (model, model.bound_, model.forest_, model.combiner_):
        made, arguments, state = part.__reduce_ex__(2)
        assert arguments == (type(part),)
        assert set(state) <= set(vars(part))
        again = made(*arguments)
        again.__setstate__(dict(state))
        assert set(vars(again)) == set(state)


def test_settings_of_before_and_after_a_fit():
    model = CombinedForestClassifier(clone(FOREST)).fit(X, Y).set_params(combiner="evidence", estimator__n_estimators=9)
    again = from_state(state_of(model))
    check_identical(again, model, X)
    np.testing.assert_array_equal(again.fit(X, Y).predict_proba(X), clone(model).fit(X, Y).predict_proba(X))
    assert again.forest_.n_trees == 9


def bound(combiner: Any) -> Any:
    return ju.bind(model_of("forest")[0], combiner)


def traced() -> Any:
    return jax.eval_shape(lambda prior: ju.EvidenceAccumulation(prior).__getstate__() and prior, np.array([0.5, 0.5]))


def over_devices() -> Any:
    return ju.shard(bound(ju.Mean()), jax.make_mesh((1, 1), ("data", "tree")))


def of_a_frame() -> Any:
    return TransductiveClassifier(FOREST).fit(pd.DataFrame(X[:30]), Y[:30])


OWN_SCORER, YOURS = Partial(tempered, power=0.5), "GiniWeighted is your own"
test_what_no_state_holds_is_refused = refusals(
    ("a rule", lambda: GiniWeighted().__getstate__(), rf"{YOURS}.*jaxunc\.save keeps it", TypeError),
    ("a scorer", lambda: ju.Mean(OWN_SCORER).__getstate__(), "tempered is your own", TypeError),
    ("one within", lambda: bound({"a": ju.Mean(), "b": GiniWeighted()}).__getstate__(), YOURS, TypeError),
    ("a parameter", lambda: CombinedForestClassifier(FOREST, GiniWeighted()).__getstate__(), YOURS, TypeError),
    ("over devices", lambda: over_devices().__getstate__(), "no place", TypeError),
    ("a frame", lambda: of_a_frame().__getstate__(), "frame of pandas.*pickle", TypeError),
    ("traced", traced, "is traced; save it outside of jit", TypeError),
)


def test_states_are_checked():
    forest, model = model_of("forest")[0], model_of("a rule")[0]
    state = forest.__getstate__()["jaxunc.storage"]
    child = state["arrays"]["trees.child"]
    for wrong, words in [
        ({"arrays": {**state["arrays"], "trees.child": child + 10**6}}, "child"),
        ({"arrays": {**state["arrays"], "trees.child": child.astype(object)}}, "is of type object"),
        ({"arrays": {**state["arrays"], "trees.child": "text"}}, "arrays are none"),
        ({"document": state["document"][:-9]}, "no JSON"),
        ({"document": None}, "cannot be loaded"),
        (ju.Mean().__getstate__()["jaxunc.storage"], "it holds a Mean"),
    ]:
        with pytest.raises(ValueError, match=rf"the state of a Forest .*{words}"):
            ju.Forest.__new__(ju.Forest).__setstate__({"jaxunc.storage": {**state, **wrong}})
    other = CombinedForestClassifier.__new__(CombinedForestClassifier)
    with pytest.raises(ValueError, match="the state of a CombinedForestClassifier cannot be loaded"):
        other.__setstate__({**model.__getstate__(), "jaxunc.storage": state})
