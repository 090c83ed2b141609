"""Trees of scikit-learn that test sets of categories: its own from 1.10 on, and others made of its trees of ranks."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.tree
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.counting import oob_mask
from jaxunc.estimators import CombinedForestClassifier
from tests._refusal import refuses

from ._rows import answers_of, counts_at, mean_shares, walked
from .test_sklearn import FutureTree

NAMES, NOMINAL = ["x", "word", "z", "number"], (1, 3)
HAS_CATEGORIES = "categorical_features" in DecisionTreeClassifier().get_params()


class CodedTree(FutureTree):
    """A tree of ranks, seen through codes: what lies at or below a rank is a set of codes."""

    def __init__(self, tree: Any, ranks: dict[int, np.ndarray]):
        super().__init__(tree, added=("left_cat_bitset", "split_kind"))
        self._ranks = ranks

    @property
    def split_kind(self) -> np.ndarray:
        kinds = np.isin(self._tree.feature, list(self._ranks)).astype(np.int8)
        return np.where(self._tree.children_left < 0, -1, kinds).astype(np.int8)

    @property
    def threshold(self) -> np.ndarray:
        return np.where(self.split_kind == 1, -np.inf, self._tree.threshold)

    def _of(self, codes: np.ndarray) -> np.ndarray:
        return in_ranks(codes, self._ranks)

    def apply(self, codes: np.ndarray) -> np.ndarray:
        return self._tree.apply(self._of(codes))

    def predict(self, codes: np.ndarray) -> np.ndarray:
        return self._tree.predict(self._of(codes))


def in_ranks(codes: np.ndarray, ranks: dict[int, np.ndarray]) -> np.ndarray:
    found = np.array(codes, np.float32)
    for j, of_code in ranks.items():
        known = ~np.isnan(found[:, j])
        found[known, j] = of_code[found[known, j].astype(int)]
    return found


class Encoding:
    """What scikit-learn 1.10 does: it encodes once, and what is unknown is missing."""

    def fit(self, X: Any, y: Any) -> Any:
        columns = NOMINAL if np.shape(X)[1] > 2 else (1,)
        encoder = OrdinalEncoder(
            dtype=np.float32, handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan
        )
        nominal = np.isin(np.arange(np.shape(X)[1]), columns)
        known = nominal, encoder.fit(np.asarray(X, object)[:, nominal])
        rng = np.random.default_rng(len(y))
        ranks = {j: rng.permutation(len(own)) for j, own in zip(columns, encoder.categories_, strict=True)}
        self.is_categorical_, self._categorical_encoder = known
        super().fit(in_ranks(self._codes(X), ranks), y)  # type: ignore[misc]
        self.is_categorical_, self._categorical_encoder = known
        for member in getattr(self, "estimators_", [self]):
            member.tree_, member.is_categorical_ = CodedTree(member.tree_, ranks), nominal
        if isinstance(X, pd.DataFrame):
            self.feature_names_in_ = np.array(X.columns, object)
        return self

    def _codes(self, X: Any) -> np.ndarray:
        cells = np.asarray(X, object)
        codes = np.zeros(cells.shape, np.float32)
        codes[:, ~self.is_categorical_] = cells[:, ~self.is_categorical_].astype(np.float32)
        codes[:, self.is_categorical_] = self._categorical_encoder.transform(cells[:, self.is_categorical_])
        return codes

    def _validate_X_predict(self, X: Any, check_input: bool = True) -> np.ndarray:
        return self._codes(X) if check_input else X


class CodedDecisionTree(Encoding, DecisionTreeClassifier):
    pass


class CodedForest(Encoding, RandomForestClassifier):
    pass


class CodedRegressor(Encoding, RandomForestRegressor):
    pass


def rows(seed: int, n: int = 500) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame]:
    """Rows to grow on, their classes, and rows to ask about: with unseen categories, and missing values everywhere."""
    rng = np.random.default_rng(seed)
    words = [f"w{i:02d}" for i in rng.permutation(25)]
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "word": pd.Categorical(rng.choice(words, n)),
            "z": rng.standard_normal(n),
            "number": pd.Categorical(rng.integers(-5, 40, n) * 3),
        }
    )
    y = (frame.word.isin(words[:12]) ^ (frame.x > 0.3) ^ (frame.number.astype(int) % 2 == 0)).astype(int)
    for name in NAMES[: 1 + seed % 4]:
        frame.loc[rng.random(n) < 0.1, name] = np.nan
    asked = frame.sample(n, random_state=seed, ignore_index=True).astype({"word": object, "number": object})
    for name, unseen in (("word", "never"), ("number", 1000)):
        asked.loc[rng.random(n) < 0.1, name] = unseen
        asked.loc[rng.random(n) < 0.1, name] = np.nan
    return frame, y.to_numpy(), asked.astype({"number": float})


def in_numbers(frame: pd.DataFrame) -> np.ndarray:
    """The frame with places of words in place of these, and NaN."""
    code = frame.word.map({f"w{i:02d}": i for i in range(25)} | {"never": 99}).astype(float)
    return np.stack([frame.x, code, frame.z, frame.number.astype(float)], axis=1)


# Trees of these forests encode nothing, which those of scikit-learn 1.10 would do.
FORESTS = {
    "forest": lambda seed: CodedForest(8, random_state=seed),
    "shallow": lambda seed: CodedForest(8, max_depth=2, random_state=seed),
}
MODELS = {
    "tree": lambda seed: CodedDecisionTree(random_state=seed),
    # Its trees are shown other rows each, and so know other categories.
    "bag": lambda seed: BaggingClassifier(CodedDecisionTree(max_depth=6), 4, max_samples=0.2, random_state=seed),
}
if HAS_CATEGORIES:
    named = {"categorical_features": list(NOMINAL)}
    MODELS |= {
        "its tree": lambda seed: DecisionTreeClassifier(random_state=seed, **named),
        "its bag": lambda seed: BaggingClassifier(
            DecisionTreeClassifier(**named), 4, max_samples=0.2, random_state=seed
        ),
    }
    if "categorical_features" in RandomForestClassifier().get_params():
        MODELS["its forest"] = lambda seed: RandomForestClassifier(8, random_state=seed)
else:
    MODELS |= FORESTS


@pytest.mark.room(keep=2)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", MODELS)
def test_categories_go_where_they_go_there(kind, seed):
    frame, y, asked = rows(seed)
    if "bag" in kind:
        grown_on, asked = in_numbers(frame.astype({"word": object})), pd.DataFrame(in_numbers(asked), columns=NAMES)
        model = MODELS[kind](seed).fit(grown_on, y)
        wanted = model.predict_proba(asked.to_numpy())
    else:
        model = MODELS[kind](seed).fit(frame, y)
        wanted = model.predict_proba(asked)
    forest = ju.from_any(model)
    levels: Any = forest.trees.columns.levels
    assert [own is not None for own in levels] == [False, True, False, True]
    assert set(levels[3].values) <= set(range(-15, 120, 3))
    for given in (asked, pytest.importorskip("polars").from_pandas(asked), asked.to_numpy(object)):
        np.testing.assert_allclose(mean_shares(forest, given), wanted, atol=1e-6)
    if "bag" not in kind:
        np.testing.assert_allclose(mean_shares(forest, frame), model.predict_proba(frame), atol=1e-6)
    elif seed == 0:
        np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(asked), wanted, atol=1e-6)


def test_regressors():
    frame, y, asked = rows(1)
    if HAS_CATEGORIES:
        model: Any = sklearn.tree.DecisionTreeRegressor(categorical_features=[1, 3]).fit(frame, y * 5.0 + frame.index)
    else:
        model = CodedRegressor(5, random_state=0).fit(frame, y * 5.0 + frame.index)
    made = ju.from_any(model)
    assert isinstance(made, ju.additive.AdditiveTrees)
    np.testing.assert_allclose(answers_of(made, asked), model.predict(asked), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:every leaf of this forest holds one class")
@pytest.mark.exhaustive
def test_classifiers_of_jaxunc():
    """A fitted forest on frames: its own counts, and those of rows that were held out."""
    frame, y, asked = rows(2)
    model = MODELS["its tree" if HAS_CATEGORIES else "forest"](0).fit(frame[:300], y[:300])
    own = CombinedForestClassifier(FrozenEstimator(model), combiner="mean", counts="inbag").fit(None, None)
    np.testing.assert_allclose(own.predict_proba(asked), model.predict_proba(asked), atol=1e-6)
    held = CombinedForestClassifier(FrozenEstimator(model), combiner="mean", counts="held_out")
    held.fit(frame[300:], y[300:])
    counted = ju.count_leaves(ju.from_any(model).trees, frame[300:], y[300:])
    answer = ju.bind(counted, ju.Mean()).probability(asked)
    np.testing.assert_allclose(held.predict_proba(asked), answer, atol=1e-6)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", ["bag", "its bag" if HAS_CATEGORIES else "forest"])
def test_out_of_bag_counts(kind):
    """Counts are those of rows that a tree was not shown, in the leaves where the library itself has them."""
    frame, y, _ = rows(2)
    X: Any = in_numbers(frame.astype({"word": object})) if "bag" in kind else frame
    model = MODELS[kind](1).fit(X, y)
    mask = oob_mask(model, len(y), X=X, y=y)
    forest = ju.count_leaves(ju.from_any(model), X, y, tree_mask=mask)
    ours = counts_at(forest, X)
    for t, (member, shown) in enumerate(zip(model.estimators_, model.estimators_samples_, strict=True)):
        unseen = np.setdiff1d(np.arange(len(y)), shown)
        np.testing.assert_array_equal(np.flatnonzero(mask[:, t]), unseen)
        theirs = member.apply(X) if "bag" in kind else model.apply(X)[:, t]
        counts = np.zeros((theirs.max() + 1, 2))
        np.add.at(counts, (theirs[unseen], y[unseen]), 1)
        np.testing.assert_array_equal(ours[:, t], counts[theirs])
    refuses(ValueError, "are not the rows that this", oob_mask, model, len(y), X=X[::-1], y=y)


@pytest.fixture
def coded() -> tuple[CodedDecisionTree, pd.DataFrame, pd.DataFrame]:
    frame, y, asked = rows(3)
    return CodedDecisionTree(max_depth=6, random_state=0).fit(frame, y), frame, asked


def as_documented(estimator: Any, *, max_depth: int | None = None) -> dict:
    """What `sklearn.tree.export_dict` returns, of what is read of it: labels come with the root at any depth."""
    assert max_depth == 0
    known = zip(NOMINAL, ESTIMATORS_LABELS[id(estimator)], strict=True)
    listed = [{"feature": j, "categories": [value for value in own if value == value]} for j, own in known]
    left = {"node_id": 1, "n_node_samples": 2, "weighted_n_node_samples": 2.0, "impurity": 0.0, "truncated": True}
    return {**left, "node_id": 0, "feature": 1, "categories_left": [0], "left": left, "categorical_features": listed}


ESTIMATORS_LABELS: dict[int, Any] = {}


def test_labels_as_export_dict_tells_them(coded, monkeypatch):
    model, _, asked = coded
    known = ju.from_sklearn(model)
    labels = [own.tolist() for own in model._categorical_encoder.categories_]
    monkeypatch.setattr(sklearn.tree, "export_dict", as_documented, raising=False)
    monkeypatch.setitem(ESTIMATORS_LABELS, id(model), labels)
    read = ju.from_sklearn(model)
    assert read.trees.columns == known.trees.columns
    np.testing.assert_array_equal(walked(read.trees, asked), walked(known.trees, asked))
    monkeypatch.setitem(ESTIMATORS_LABELS, id(model), [labels[0][::-1], labels[1]])
    refuses(ValueError, "does not tell which values have which codes", ju.from_sklearn, model)


def by_hash(model: Any) -> None:
    kinds = np.where(model.tree_.split_kind == 1, 2, model.tree_.split_kind)
    model.tree_ = type("Hashed", (CodedTree,), {"split_kind": kinds})(model.tree_._tree, model.tree_._ranks)


def without_encoder(model: Any) -> None:
    model._categorical_encoder = None


def other_order(model: Any) -> None:
    first, second = model._categorical_encoder.categories_
    told = type("Told", (), {"categories_": [first, second[::-1]], "transform": model._categorical_encoder.transform})
    model._categorical_encoder = told()


def with_none(model: Any) -> None:
    first, second = model._categorical_encoder.categories_
    model._categorical_encoder.categories_ = [np.array([None, *first[1:]], object), second]


REFUSED = {
    "hash": (by_hash, r"by a random hash, as extra trees do.*OrdinalEncoder.*a random forest"),
    "untold": (without_encoder, r"test categories of the columns \[1, 3\].*does not tell"),
    "other order": (other_order, "does not tell which values have which codes"),
    "None": (with_none, "categories of column 1 hold None, which is no word"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name, coded):
    model, _, _ = coded
    change, said = REFUSED[name]
    change(model)
    refuses(ValueError, said, ju.from_sklearn, model)


def test_a_column_of_both_kinds():
    """A bag shows its trees some columns, and ``categorical_features`` counts among these."""
    X = np.random.default_rng(0).integers(0, 6, (300, 4)).astype(float)
    kind = DecisionTreeClassifier(categorical_features=[1]) if HAS_CATEGORIES else CodedDecisionTree()
    bag = BaggingClassifier(kind, 12, max_features=2, random_state=0).fit(X, (X.sum(axis=1) % 2).astype(int))
    with refuses(ValueError, "test categories of the columns .* and others of it numbers of the same columns"):
        ju.from_sklearn(bag)
