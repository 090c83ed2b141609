"""What people hand in by mistake: a ValueError or TypeError that names the argument and says what to pass."""

import dataclasses
import re

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import jaxunc as ju
from jaxunc.inference import ByRows
from tests._refusal import refuses
from tests.conftest import TYPED

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(TYPED, reason="the type hook, which users do not have, would speak first"),
]

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
y = np.digitize(X[:, 0], [-0.5, 0.5])
COUNTS, THREE = np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([[3.0, 1.0, 2.0]])
PROBA, LABELS, P = np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([0, 1]), np.array([0.2, 0.9])
NAN = float("nan")


class Given:
    def __init__(self):
        self.model = RandomForestClassifier(4, min_samples_leaf=3, random_state=0).fit(X, y)
        self.forest = ju.from_sklearn(self.model)
        self.bound = ju.bind(self.forest, ju.Mean())
        self.unfitted = ju.estimators.CombinedForestClassifier()
        self.key = jax.random.key(0)
        self.fitted = ju.learning.FitResult(ju.Mean(), *[None] * (len(dataclasses.fields(ju.learning.FitResult)) - 1))


@pytest.fixture(scope="module")
def given():
    return Given()


def by_rows(given):
    rule = ju.Mean()
    return ju.inference.BoundForest(ByRows.of(given.forest, rule, "blocks"), rule, 1)


def combined(*args, **settings):
    return ju.estimators.CombinedForestClassifier(*args, **settings).fit(X, y)


FORESTS = [
    (lambda g: ju.from_sklearn(None), "model is a NoneType; from_sklearn imports"),
    (lambda g: ju.from_sklearn(RandomForestClassifier), "from_sklearn imports"),
    (lambda g: ju.from_sklearn(RandomForestClassifier()), "is not fitted; call model.fit"),
    (lambda g: ju.from_sklearn(RandomForestRegressor(2).fit(X, X[:, 0])), "is a RandomForestRegressor; from_sklearn"),
    (lambda g: ju.from_sklearn([g.model]), "model is a list"),
    (lambda g: ju.from_sklearn(g.forest), "model is a Forest"),
    (lambda g: ju.from_sklearn(g.model, prior=[0.5, 0.5]), r"prior has shape \(2,\); pass one probability per class"),
    (lambda g: ju.from_sklearn(g.model, prior="even"), "prior='even' is no number"),
    (lambda g: ju.from_sklearn(g.model, prior=[NAN, 0.5, 0.5]), "prior=.*must hold probabilities that add to 1"),
    (lambda g: ju.bind(g.model, ju.Mean()), "forest is a RandomForestClassifier.*from_sklearn"),
    (lambda g: ju.bind(None, ju.Mean()), "forest is a NoneType.*from_sklearn"),
    (lambda g: ju.bind("forest", ju.Mean()), "forest is a str"),
    (lambda g: ju.bind(g.bound, ju.Mean()), "forest is a BoundForest. Pass its forest"),
    (lambda g: ju.bind(g.unfitted, ju.Mean()), "forest is a CombinedForestClassifier. Pass its forest_"),
    (lambda g: ju.bind(ju.estimators.UncertainForestRegressor(), ju.Mean()), "It predicts a number.*its moments_"),
    (lambda g: ju.bind(g.forest, g.fitted), "combiner is a FitResult; .* its .combiner"),
    (lambda g: ju.bind(g.forest, g.model), "combiner is RandomForest.*pass a Combiner"),
    (lambda g: ju.bind(g.forest, "mean"), "combiner is 'mean'; pass a Combiner.*combiner_by_name"),
    (lambda g: ju.bind(g.forest, ju.Mean), r"combiner is the class Mean; .*Mean\(\)"),
    (lambda g: ju.bind(g.forest, None), "combiner is None; pass a Combiner"),
    (lambda g: ju.bind(g.forest, [ju.Mean()]), "combiner is .*; pass a Combiner"),
    (lambda g: ju.bind(ju.Mean(), g.forest), "combiner is Forest.*; pass a Combiner"),
    (lambda g: ju.bind(g.forest, ju.OneVsRest([ju.Mean()] * 2)), "rule holds 2 combiners, but counts have 3 classes"),
    (lambda g: ju.bind(g.forest, ju.Mean(), walk="levls"), "walk='levls' is unknown. Did you mean 'levels'"),
    (lambda g: g.bound(None), r"X has shape \(\); expected"),
    (lambda g: ju.leaf_index(g.model, X), "trees is a RandomForestClassifier.*from_sklearn"),
    (lambda g: ju.leaf_index(g.bound, X), "trees is a BoundForest. Pass its forest"),
    (lambda g: ju.leaf_index(g.forest, X, walk="levls"), "walk='levls' is unknown"),
    (lambda g: ju.leaf_counts(g.model, X), "forest is a RandomForestClassifier.*from_sklearn"),
    (lambda g: ju.leaf_counts(None, X), "forest is a NoneType"),
    (lambda g: ju.inference.leaf_table(g.model, ju.Mean()), "from_sklearn"),
    (lambda g: ju.inference.leaf_table(g.forest, "mean"), "combiner is 'mean'"),
    (lambda g: ju.forest.check_forest(g.model), "from_sklearn"),
    (lambda g: ju.forest.check_trees(g.forest), "trees is a Forest; pass Trees"),
    (lambda g: g.forest.with_prior("even"), "prior='even' is no number"),
    (lambda g: g.forest.with_prior([0.5, 0.6, 0.7]), "must hold probabilities that add to 1"),
    (lambda g: g.forest.with_empty_leaves("sums"), "mode='sums' is unknown. Did you mean 'sum'"),
    (lambda g: ju.shard(g.bound, "mesh"), "mesh is 'mesh'; pass a mesh"),
    (lambda g: g.bound.lower(0), "n_instances=0 must be at least 1"),
    (lambda g: by_rows(g).lower(1), "scored ByRows: there is no one program"),
    (lambda g: ju.shard(g.bound, jax.make_mesh((1, 1), ("data", "tree"))).lower(2.5), "n_instances=2.5 must be an int"),
]

COUNTING = [
    (lambda g: ju.count_leaves(g.model, X, y), "from_sklearn"),
    (lambda g: ju.count_leaves(g.bound, X, y), "Pass its forest"),
    (lambda g: ju.count_leaves(g.forest, X, y[:5]), "y has 5 labels for 60 instances"),
    (lambda g: ju.count_leaves(g.forest, X, None), r"y has shape \(\)"),
    (lambda g: ju.count_leaves(g.forest, X, y + 1), r"labels that the forest does not know: \[3\]"),
    (lambda g: ju.count_leaves(g.forest, X[:, :2], y), "X has 2 features"),
    (lambda g: ju.count_leaves(g.forest, X[:0], y[:0]), "nothing to count"),
    (lambda g: ju.count_leaves(g.forest, X, y, sample_weight=np.ones(5)), r"sample_weight has shape \(5,\)"),
    (lambda g: ju.count_leaves(g.forest, X, y, sample_weight=np.full(60, NAN)), "sample_weight holds nan; pass finite"),
    (
        lambda g: ju.count_leaves(g.forest, X, y, sample_weight=-np.ones(60)),
        "sample_weight holds -1.0; pass finite numbers >= 0",
    ),
    (lambda g: ju.count_leaves(g.forest, X, y, sample_weight="balanced"), "sample_weight='balanced' is no number"),
    (lambda g: ju.count_leaves(g.forest, X, y, tree_mask=np.ones((4, 60), bool)), r"tree_mask has shape \(4, 60\)"),
    (lambda g: ju.count_leaves(g.forest, X, y, leaves=np.zeros((60, 3), int)), "leaves is of int64 and has shape"),
    (lambda g: ju.count_leaves(g.forest, X, y, leaves=np.full((60, 4), -1)), "leaves holds nodes that are no leaves"),
    (lambda g: ju.counting.leave_one_out(g.model, ju.Mean(), X, y), "from_sklearn"),
    (lambda g: ju.counting.leave_one_out(g.forest, "mean", X, y), "combiner is 'mean'; pass a Combiner"),
    (lambda g: ju.counting.oob_mask(g.forest, 60), "model is a Forest, which has no bags"),
    (lambda g: ju.counting.oob_mask(g.model, 59), "n=59, but model was fitted on 60"),
    (lambda g: ju.counting.oob_mask(g.model, None), "n=None must be an integer"),
    (lambda g: ju.counting.oob_mask(RandomForestClassifier(4), 60), "is not fitted"),
    (lambda g: g.forest.with_count_set("oob", g.model), "counted is a RandomForestClassifier"),
    (lambda g: g.forest.with_count_set("oob", None), "counted is a NoneType"),
    (lambda g: ju.predict_until_settled(g.forest, X, criterion="bond"), "Did you mean 'bound'"),
    (lambda g: ju.predict_until_settled(g.forest, X, population="infnite"), "Did you mean 'infinite'"),
    (lambda g: ju.predict_until_settled(g.forest, X, prior=-1), "prior=-1 must be one positive number"),
    (lambda g: ju.predict_until_settled(g.forest, X, criterion="optmal"), "Did you mean 'optimal'"),
    (lambda g: ju.predict_until_settled(g.forest, X, disagreement=0.01), "choose criterion='optimal'"),
    (
        lambda g: ju.predict_until_settled(g.forest, X, criterion="optimal", confidence=0.9),
        "confidence=0.9 is a promise for each instance",
    ),
    (lambda g: ju.predict_until_settled(g.forest, X, criterion="optimal", disagreement=1), r"must lie in \(0, 0.5\)"),
    (lambda g: ju.voting.bind_vote(g.bound), "forest is a BoundForest. Pass its forest"),
    (lambda g: ju.voting.fit_vote_prior(None), "vote_counts has shape"),
]

RULES = [
    (lambda g: ju.Vote(ties=None), "ties=None is unknown"),
    (lambda g: ju.EvidenceAccumulation(None), "prior=None is no number"),
    (lambda g: ju.EvidenceAccumulation("even"), "prior='even' is no number"),
    (lambda g: ju.DempsterRule(prior="even"), "prior='even' is no number"),
    (lambda g: ju.DempsterRule(reliability="x"), "reliability='x' is no number"),
    (lambda g: ju.CautiousRule(prior=[0.2, 0.3, 0.5]), "prior has shape"),
    (lambda g: ju.GeneralizedMixture(reference="meen"), "Did you mean 'mean'"),
    (lambda g: ju.bind(g.forest, {"a": 3}), r"combiner\['a'\] is 3; pass a Combiner"),
    (lambda g: ju.bind(g.forest, {1: ju.Mean()}), "combiner has the key 1; name combiners by strings"),
    (lambda g: ju.Weighted(None, [1.0]), "rule is None; pass a Combiner"),
    (lambda g: ju.Weighted(ju.Mean(), None), "weights=None is no number"),
    (lambda g: ju.Weighted(ju.Median(), [1.0, 1.0]), "Median merges by"),
    (lambda g: ju.Calibrated("mean"), "mean"),
    (lambda g: ju.Calibrated(ju.Mean), "Mean"),
    (lambda g: ju.LearnedPool(None), "prior=None is no number"),
    (lambda g: ju.LearnedPool([0.5, 0.6]), "adds to 1.1"),
    (lambda g: ju.combiners.learned_field("positve"), "Did you mean 'positive'"),
    (lambda g: ju.margin([[1.0, 2.0]]), "class_scores is a list; pass an array"),
    (lambda g: ju.Mean()(None), "counts=None is no number"),
    (lambda g: ju.Mean()("counts"), "counts='counts' is no number"),
    (lambda g: ju.Mean()([[1, 2], [3]]), "counts=.* rows of one length"),
    (lambda g: ju.combiners.combiner_by_name(["mean"], prior=[0.5, 0.5]), "name=.'mean'. is unknown"),
    (lambda g: ju.combiners.combiner_by_name("mean", 3, prior=[0.5, 0.5]), "options=3 is no dict"),
    (lambda g: ju.combiners.combiner_by_name("evidence", prior=None), "prior=None is no number"),
    (lambda g: ju.scorers.probability([3.0]), "last axis must hold the classes, two or more"),
    (lambda g: ju.scorers.laplace(np.array([[1, "a"]], object)), "counts=.*is no number"),
    (lambda g: ju.scorers.plausibility(THREE), "plausibility compares two classes, but counts have 3"),
    (lambda g: ju.scorers.plausibility(COUNTS, prior="even"), "prior='even' is no number"),
    (lambda g: ju.scorers.m_estimate(COUNTS, m="two", prior=0.5), "m='two' is no number"),
]

ANSWERS = [
    (lambda g: ju.decisions.nondominated(None), "preference is a NoneType; pass a Preference"),
    (lambda g: ju.decisions.nondominated(PROBA), "preference is a ndarray"),
    (lambda g: ju.decisions.expected_utility_set(PROBA * 2), "rows that do not add to 1"),
    (lambda g: ju.decisions.expected_utility_set([NAN, 1.0]), "probability holds"),
    (lambda g: ju.decisions.CautiousReport("one"), "s='one' must be a positive"),
    (lambda g: ju.metrics.interval_brier((P, P), LABELS), "interval is a tuple"),
    (lambda g: ju.compare.uncertainty_map(P, P, None), "correct has dtype object"),
    (lambda g: ju.smoothing.fit_dirichlet_prior(None), "counts"),
    (lambda g: ju.smoothing.fit_forest_prior(g.model), "from_sklearn"),
    (lambda g: ju.smoothing.smooth_forest(g.model), "from_sklearn"),
    (lambda g: ju.smoothing.smooth(COUNTS, None), "prior is a NoneType; pass what fit_beta_prior"),
    (lambda g: ju.smoothing.SmoothedMean("tree"), "prior is a str"),
    (lambda g: ju.smoothing.correction_interval(COUNTS, None), "prior is a NoneType"),
    (lambda g: ju.transductive_certainty(X, y[:5], X), r"y_train has shape \(5,\)"),
    (lambda g: ju.transductive_certainty(X, y, X, min_samples_leaf=0), "min_samples_leaf=0 must be at least 1"),
    (lambda g: ju.transductive_certainty(X, y, algorithm="grupped"), "Did you mean 'grouped'"),
]

LEARNING = [
    (lambda g: ju.random_trees.grow_random_trees(g.key, X, y, n_trees=2.5), "n_trees=2.5 must be an integer"),
    (lambda g: ju.random_trees.grow_random_trees(g.key, X, y, n_trees=True), "n_trees=True must be an integer"),
    (lambda g: ju.random_trees.grow_random_trees(g.key, X, y, n_trees=2, missing="rndom"), "Did you mean 'random'"),
    (lambda g: ju.random_trees.grow_random_trees(g.key, X, y, n_trees=2, nominal=[7]), r"nominal=\[7\] does not fit"),
    (lambda g: ju.random_trees.grow_random_trees(g.key, X[:0], y[:0], n_trees=2), "at least one of each"),
    (lambda g: ju.transduction.grow_greedy_trees(X, None), r"y has shape \(\)"),
    (lambda g: ju.transduction.grow_greedy_trees(X, y, max_depth="deep"), "max_depth='deep' must be an integer"),
    (lambda g: combined("forest"), "estimator=.forest. is no model of scikit-learn"),
    (lambda g: combined(g.forest), "estimator=Forest.*jaxunc.bind"),
    (lambda g: combined(RandomForestClassifier(0)), "n_estimators=0 must be at least 1"),
    (lambda g: combined(RandomForestClassifier("ten")), "n_estimators='ten' .*must be an integer"),
    (lambda g: combined(RandomForestRegressor(2), combiner="mean"), "RandomForestRegressor that predicts numbers"),
    (lambda g: combined(LogisticRegression(), combiner="mean"), "LogisticRegression; from_sklearn imports"),
    (lambda g: combined(combiner=3), "combiner=3 is a int; pass a combiner, its name"),
    (lambda g: combined(combiner="mean", combiner_options=3), "combiner_options=3 must be options"),
    (lambda g: combined(counts="obo"), "counts='obo' is unknown. Did you mean 'oob'"),
    (lambda g: combined(counts=None), "counts=None is unknown"),
    (lambda g: combined(counts="held_out", held_out_size="x", combiner="mean"), "held_out_size='x' is no number"),
    (lambda g: g.unfitted.predict(X), "not fitted yet"),
    (lambda g: ju.estimators.CautiousForestClassifier(s="one").fit(X, y), "s='one' must be a positive"),
    (lambda g: ju.estimators.CautiousForestClassifier(mass="leafsize").fit(X, y), "Did you mean 'leaf_size'"),
    (
        lambda g: ju.estimators.RandomDecisionTreesClassifier(3).fit(pd.DataFrame({"a": [[1.0]] * 60}), y),
        "'a'.*a list in a cell",
    ),
    (lambda g: ju.estimators.RandomDecisionTreesClassifier(3, empty_leaves="som").fit(X, y), "Did you mean 'sum'"),
    (lambda g: ju.learning.oob_dataset(None, X, y), "model is a NoneType without classes_"),
    (lambda g: ju.learning.oob_dataset(RandomForestClassifier(), X, y), "without classes_; pass a fitted forest"),
    (lambda g: ju.learning.oob_dataset(g.model, X, y[:5]), "y has 5 labels for 60 rows"),
    (lambda g: ju.learning.oob_dataset(g.model, X, y, source="obo"), "Did you mean 'oob'"),
    (lambda g: ju.learning.fit_combiner(ju.LearnedPool([0.5, 0.5]), X), "rows is a ndarray; .*oob_dataset"),
    (lambda g: ju.learning.fit_combiner("mean", X), "combiner is 'mean'; pass a Combiner"),
    (lambda g: ju.learning.select_combiner(None, None), "rows is a NoneType; .*oob_dataset"),
    (lambda g: ju.learning.stack_combiners({}, None), "rows is a NoneType; .*oob_dataset"),
    (lambda g: ju.learning.loss_on(ju.Mean(), None), "rows is a NoneType"),
    (lambda g: ju.learning.loss_on(None, None), "combiner is None"),
    (lambda g: ju.learning.standard_errors(ju.Mean(), X), "rows is a ndarray"),
    (lambda g: ju.tables.fit_columns(pd.DataFrame({"a": [{"u": 1.0}]})), "'a'.*a dict in a cell"),
    (lambda g: ju.save("m", g.model), "RandomForestClassifier of scikit-learn.*from_sklearn"),
    (lambda g: ju.save(g.forest, "m"), "path is a Forest; pass the path of a file first"),
    (lambda g: ju.load(None), "path is a NoneType; pass the path of a file"),
    (lambda g: ju.load(g.forest), "path is a Forest"),
    (lambda g: ju.streaming.BatchPredictor(g.bound), "path is a BoundForest; pass the path of a file"),
    (lambda g: list(ju.stream(g.model, X)), "model is a RandomForestClassifier; what streams is"),
    (lambda g: list(ju.stream(g.bound, None)), "source is a NoneType; pass a file"),
    (lambda g: list(ju.stream(g.bound, X[0])), r"an array of shape \(3,\) is no table"),
    (lambda g: list(ju.stream(g.bound, X, outputs="class")), r"outputs='class' is one name; .*\['class'\]"),
    (lambda g: list(ju.stream(g.bound, X, outputs=["klass"])), "Did you mean 'class'"),
    (lambda g: list(ju.stream(g.bound, X, outputs=[])), "outputs=.. names nothing"),
    (lambda g: list(ju.stream(g.bound, X, outputs=3)), "outputs=3 is no list of names"),
    (lambda g: list(ju.stream(g.bound, X, features=["0", "1"])), "names 2 columns, and the model reads 3"),
    (lambda g: list(ju.stream(g.bound, X, features=["0", "0", "1"])), r"names \['0'\] more than once"),
    (lambda g: list(ju.stream(g.bound, X, outputs=["set"], s=None)), "s=None must be a positive"),
]


@pytest.mark.room(keep=43)
@pytest.mark.parametrize(("call", "match"), [*FORESTS, *COUNTING, *RULES, *ANSWERS, *LEARNING])
def test_misuse_is_refused_by_name(call, match, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError)) as caught:
        call(given)
    message = " ".join(str(caught.value).split())
    assert re.search(match, message), f"{type(caught.value).__name__}: {message}"
    assert not list(tmp_path.iterdir()), "something was written"


def test_what_is_no_file_says_what_to_pass(given, tmp_path):
    refuses(FileNotFoundError, r"none does not exist; pass a file of jaxunc\.save", ju.load, tmp_path / "none")
    refuses(IsADirectoryError, r"is a folder; pass a file of jaxunc\.save", ju.load, tmp_path)
    refuses(IsADirectoryError, "is a folder; add the name of a file", ju.save, tmp_path, given.forest)
    refuses(FileNotFoundError, "is no folder", ju.save, tmp_path / "none" / "m", given.forest)
