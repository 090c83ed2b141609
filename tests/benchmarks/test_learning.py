"""The study of learning: calibrators, and the committed page."""

import itertools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.isotonic import IsotonicRegression

from benchmarks.studies.learning import further, methods
from benchmarks.studies.learning import run as learning
from benchmarks.studies.learning.instead import INSTEAD, out_of_bag, stable_isotonic
from benchmarks.studies.learning.page import GROUPS, beside
from tests._claims import Page

pytestmark = pytest.mark.once
DOCS = Page("docs/learning.md")
SHRINKAGE_TOLD = (
    "hierarchical shrinkage, its strength chosen out of bag", "the same, with the best of sixteen calibrators",
)  # fmt: skip


def of_part(part: str):
    """The measures of the committed cells of a part."""
    return methods.table({c: record for c, record in learning.kept(learning.RESULTS).items() if c.part == part})


@pytest.mark.parametrize(
    ("part", "measure", "n_sets", "wins", "gains"),
    [
        ("grown-out", "log_loss", 35, [33, 30, 34], [0.2, 0.043, 0.063]),
        ("other-sets", "log_loss", 26, [23, 18, 24], [0.207, 0.035, 0.07]),
        ("other-sets", "log_loss_clipped", 26, [23, 18, 24], [0.194, 0.035, 0.07]),
    ],
)
def test_what_is_said_of_pools(part, measure, n_sets, wins, gains):
    frame = of_part(part)
    pairs = [methods.paired(frame, "pool", other, measure) for other in ("mean", "P", "isotonic")]
    assert [len(sets) for *_, sets in pairs] == [n_sets] * 3
    assert [(a < b).sum() for a, b, _ in pairs] == wins
    np.testing.assert_allclose([np.median(1 - a / b) for a, b, _ in pairs], gains, rtol=0, atol=0.0006)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrators_calibrate(n_classes, rng):
    true = rng.dirichlet(np.ones(n_classes), 2000)
    y = np.array([rng.choice(n_classes, p=p) for p in true])
    sharp = true**3 / np.sum(true**3, axis=1, keepdims=True)
    for calibrator in (methods.best_calibrator(sharp, y), methods.isotonic(sharp, y)):
        assert methods.measures(calibrator(sharp), y)[0] < methods.measures(sharp, y)[0] - 0.05


@pytest.mark.parametrize("ties", [False, True])
def test_venn_abers_pairs_are_isotonic_fits_with_the_new_row(ties, rng):
    for n in (1, 2, 7, 40):
        scores = rng.integers(0, 8, n) / 8 if ties else rng.random(n)
        positive = rng.random(n) < scores
        new = np.concatenate([scores[:4], rng.random(4), rng.integers(-1, 10, 6) / 8])
        pair = methods.venn_abers_pair(scores, positive, new)
        for label, found in enumerate(pair):
            rows = [(np.append(scores, score), np.append(positive, label), score) for score in new]
            fitted = [IsotonicRegression().fit(x, y).predict([score])[0] for x, y, score in rows]
            np.testing.assert_allclose(found, fitted, atol=1e-12)
        assert np.all(pair[0] < pair[1])
        np.testing.assert_allclose(methods.merged_pairs([pair, pair]), methods.merged_pair(*pair))


def test_out_of_bag_answers_are_those_of_scikit_learn(rng):
    X, y = rng.normal(size=(120, 4)), rng.integers(0, 3, 120)
    X[:, 0] += y
    model = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, y)
    own = out_of_bag(model, X, y)
    np.testing.assert_allclose(own.probability, model.oob_decision_function_, atol=1e-12)
    np.testing.assert_allclose(own.weighted.sum(axis=1), 1)
    assert np.all(own.n_trees > 0)
    tree, out = model.estimators_[3], np.setdiff1d(np.arange(120), model.estimators_samples_[3])
    brier = np.mean(np.sum((tree.predict_proba(X[out].astype(np.float32)) - np.eye(3)[y[out]]) ** 2, axis=1))
    assert own.weights[3] == pytest.approx(1 / brier)
    trees = zip(model.estimators_, model.estimators_samples_, strict=True)
    answers = [tree.predict_proba(X[[5]].astype(np.float32))[0, 1] for tree, bag in trees if 5 not in bag]
    assert own.variance[5, 1] == pytest.approx(np.var(answers))
    assert own.n_trees[5] == len(answers)


def test_calibration_with_equal_weights_of_rows_is_isotonic_regression(rng):
    X, y = rng.normal(size=(100, 3)), rng.integers(0, 3, 100)
    own = out_of_bag(RandomForestClassifier(40, random_state=0).fit(X, y), X, y)
    flat = own._replace(variance=0 * own.variance, n_trees=0 * own.n_trees)
    found = stable_isotonic(flat, y)(own.probability)
    np.testing.assert_allclose(found, methods.isotonic(own.probability, y)(own.probability), atol=1e-6)
    assert np.abs(stable_isotonic(own, y)(own.probability) - found).max() > 1e-4


@pytest.mark.parametrize("part", GROUPS)
def test_what_users_would_do_instead_is_of_the_same_forests(part):
    found = learning.kept(learning.RESULTS)
    joined, of_part = beside(found, "instead", part), set(learning.sets_of(part))
    assert {cell.data for cell in joined} == of_part
    assert len(joined) == sum(cell.part == "instead" and cell.data in of_part for cell in found)
    for cell in joined:
        again, before = (
            dict(zip(methods.MEASURES, of[cell]["methods"]["mean"], strict=True)) for of in (found, joined)
        )
        for measure in ("log_loss_clipped", "brier", "accuracy"):  # the others tell zeros and ties of float32 apart
            assert again[measure] == pytest.approx(before[measure], abs=1e-5)


def test_fresh_sets_share_none_with_those_of_development():
    assert not set(learning.sets_of("other-sets")) & set(learning.sets_of("development"))
    assert set(learning.sets_of("instead")) == set(learning.OTHER_SETS + learning.SETS)
    found = {learning.Cell("instead", name, fold): {} for name, folds in (("a", 2), ("b", 1)) for fold in range(folds)}
    assert methods.how_many(found) == "2 sets: 2 of 5 folds of 1 of them, 1 of the others."


def test_what_the_pages_say_against_what_users_would_do_instead():
    found, said = learning.kept(learning.RESULTS), DOCS.text
    frames, measured = (
        [methods.table(beside(found, "instead", part)) for part in GROUPS],
        ("log_loss_clipped", "log_loss", "brier"),
    )
    for frame in frames:
        for method in INSTEAD:
            cells = [methods.duel(frame, "pool", method, measure) for measure in measured]
            assert f"| {' | '.join(cells)} |" in said, method
    shrunk = [methods.table(beside(found, "shrinkage", part)) for part in GROUPS]
    for frame, (method, text) in itertools.product(shrunk, zip(further.SHRINKAGE, SHRINKAGE_TOLD, strict=True)):
        cells = [methods.duel(frame, "pool", method, measure) for measure in measured]
        assert f"| {text} | {' | '.join(cells)} |" in said, method
    chosen = [record["chosen"] for record in beside(found, "shrinkage", "other-sets").values()]
    against = methods.duel(shrunk[0], "shrinkage", "mean", "log_loss_clipped").split()[0]
    told = f"is not told apart from the mean ({against}); no shrinkage was chosen in {chosen.count(0)} of {len(chosen)}"
    assert told in DOCS.said
    for part in GROUPS:
        frame = of_part(part)
        for measure in ("log_loss_clipped", "log_loss"):
            cells = [methods.duel(frame, "pool", method, measure) for method in ("mean", "P", "isotonic")]
            assert f"| {' | '.join(cells)} |" in said, measure
    frame = frames[0]
    for text, first, second in (
        ("the forest as it comes is {}, not told apart", "pool, tuned", "pool"),
        ("gains by learning on it: {gain} against its mean", "pool, tuned", "tuned mean"),
        ("its mean, {gain} against its calibrated mean", "pool, tuned", "tuned mean, calibrated"),
        ("sixteen calibrators**: {}, not told apart", "pool", "tuned mean, P"),
        ("Without tuning that rival is as good ({})", "tuned mean, P", "P"),
    ):
        shown = methods.duel(frame, first, second, "log_loss_clipped")
        assert shown.startswith("**") == ("told" not in text and "as good" not in text)
        wins, gain = shown.strip("*").split(" ", 1)
        assert text.format(wins, gain=f"{wins}, {gain}") in DOCS.said
    a, b, sets = methods.paired(frame, "pool", "tuned mean, P", "log_loss_clipped")
    shares = dict(zip(sets, a / b, strict=True))
    assert sorted(shares, key=lambda name: shares[name])[-3:] == ["iris", "scene", "mushroom"]
    assert [round(shares[name], 2) for name in ("iris", "scene")] == [1.23, 1.70]


def test_noise_is_what_mushroom_loses():
    cells = {cell: record for cell, record in learning.kept(learning.RESULTS).items() if cell.part == "noise"}
    assert {cell.data for cell in cells} == set(further.NOISE_SETS)
    losses = methods.table(cells).groupby(["set", "method"])["log_loss"].mean().unstack()[list(further.NOISE)]
    kept_back = np.mean([record["noise"]["pool"] for cell, record in cells.items() if cell.data == "mushroom"]) / 2
    assert losses["pool"]["mushroom"] == pytest.approx(kept_back, rel=0.15)
    assert losses["no noise"]["mushroom"] < losses["pool"]["mushroom"] / 8
    saved = 1 - losses["pool"] / losses["no noise"]
    assert set(saved.index[saved > 0]) == {"breast-w", "ionosphere", "kr-vs-kp"}
    assert f"{100 * saved['breast-w']:.0f} % on breast-w, {100 * saved['kr-vs-kp']:.0f} % on kr-vs-kp" in DOCS.said
    known = of_part("other-sets")
    again = known[(known["set"] == "mushroom") & (known["method"] == "pool")]["log_loss"].mean()
    assert again == pytest.approx(losses["pool"]["mushroom"], abs=2e-6)


def test_conformal_sets_come_out_the_same_twice(rng):
    pytest.importorskip("crepes")
    own, predicted = (rng.integers(1, 4, (n, 3)) / 4 for n in (60, 40))  # many ties
    y = rng.integers(0, 3, 60)
    first = methods.conformal_sets(own, y, predicted, seed=0)
    np.random.random(5)  # noqa: NPY002  the state of NumPy must not matter
    np.testing.assert_array_equal(first, methods.conformal_sets(own, y, predicted, seed=0))
    assert methods.filled(first, predicted).any(axis=1).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_shrunken_leaves_are_those_of_a_walk(n_classes, rng):
    X, y = rng.normal(size=(200, 4)), rng.integers(0, n_classes, 200)
    X[:, 0] += y
    model = RandomForestClassifier(60, max_depth=6, oob_score=True, random_state=0).fit(X, y)
    tree = model.estimators_[0].tree_
    path = model.estimators_[0].decision_path(X[:1].astype(np.float32)).indices
    shares = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
    expected = shares[0]
    for parent, child in itertools.pairwise(path):
        expected = expected + (shares[child] - shares[parent]) / (1 + 10 / tree.weighted_n_node_samples[parent])
    np.testing.assert_allclose(further.shrunk_nodes(tree, (10.0,))[0, path[-1]], expected, atol=1e-12)
    free, *_, heavy = further.shrunk_answers(model, X, (0.0, 1.0, 1e9))
    np.testing.assert_allclose(free, model.predict_proba(X), atol=1e-12)
    roots = np.mean([further.shrunk_nodes(one.tree_, (0.0,))[0, 0] for one in model.estimators_], axis=0)
    np.testing.assert_allclose(heavy, np.tile(roots, (200, 1)), atol=1e-5)
    np.testing.assert_allclose(further.shrunk_out_of_bag(model, X, y)[0], model.oob_decision_function_, atol=1e-12)
