"""One forest on one test fold, against plain NumPy and scikit-learn."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import jaxunc as ju
from jaxunc import compare
from jaxunc.compare._evaluate import _Answers, _measure, rows_alike
from tests.voting._votes import naive, settled_by

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def fold():
    """A forest, test instances, and how two combiners did on them."""
    X, y = make_classification(700, 8, flip_y=0.2, random_state=3)
    forest = ju.from_sklearn(RandomForestClassifier(7, min_samples_leaf=5, random_state=0).fit(X[:500], y[:500]))
    return forest, X[500:], y[500:], compare.evaluate(forest, ("probability", "evidence"), X[500:], y[500:])


def test_measures_curves_and_map(fold):
    forest, X, y, outcome = fold
    for name, combiner in (("probability", ju.Mean()), ("evidence", ju.EvidenceAccumulation(forest.prior))):
        bound = ju.bind(forest, combiner)
        probs, scores = np.asarray(bound.probability(X), float), np.asarray(bound(X), float)
        certainty, right = np.abs(scores[:, 1] - scores[:, 0]), scores.argmax(1) == y
        bins = outcome.reliability[name]
        sums = {"size": len(y), "hits": right.sum(), "confidence": probs.max(1).sum()}
        assert {key: sum(values) for key, values in bins.items()} == pytest.approx(sums, rel=1e-5)
        expected = {"accuracy": right.mean(), "auc": roc_auc_score(y, scores[:, 1] - scores[:, 0])}
        expected |= {"brier": np.mean((probs[:, 1] - y) ** 2), "log_loss": log_loss(y, probs / probs.sum(1)[:, None])}
        expected["calibration_error"] = np.abs(np.array(bins["hits"]) - bins["confidence"]).sum() / len(y)
        found = outcome.measures[name]
        assert {measure: found[measure] for measure in expected} == pytest.approx(expected, rel=1e-5, abs=1e-6)
        curve = outcome.rejection[name]
        assert curve[-1] == pytest.approx(right.mean(), abs=1e-6), "nothing rejected"
        if name == "evidence":  # whose certainties do not tie
            half = np.argsort(-certainty, kind="stable")[:100]
            assert curve[9] == pytest.approx(right[half].mean(), abs=1e-6)
        if name == "probability":
            assert np.sum(outcome.uncertainty, axis=0)[2:].tolist() == [len(y), np.sum(~right)]


@pytest.mark.parametrize("positive", [0, 1])
def test_rows_called_most_likely_costs_and_doubtful_rows(fold, positive):
    forest, X, y, _ = fold
    costs = np.array([[0.0, 1.0], [7.0, 0.5]])
    combiners = ("probability", "vote")  # a vote of seven trees ties often
    outcome = compare.evaluate(forest, combiners, X, y, positive=positive, costs=costs)
    for name in combiners:
        probs = np.asarray(ju.bind(forest, compare.COMPARED_COMBINERS[name].make(forest)).probability(X), float)
        of, hit, p = outcome.positive[name], y == positive, probs[:, positive]
        rounded = np.round(p, 6)
        assert of["average_precision"] == pytest.approx(average_precision_score(hit, rounded), abs=1e-6)
        for top, share in zip((1, 5, 10, 20), of["top"], strict=True):
            n = round(len(y) * top / 100)
            least = np.sort(rounded)[-n]
            above, tied = rounded > least, rounded == least
            expected = (hit[above].sum() + (n - above.sum()) * hit[tied].mean()) / n
            assert share == pytest.approx(expected, abs=1e-6)
        sums = {"size": len(y), "hits": hit.sum(), "probability": p.sum()}
        assert {key: sum(of[key]) for key in sums} == pytest.approx(sums, rel=1e-5)
        assert of["size"][0] == np.sum(p <= 0.001)
        cheapest = [min((0, 1), key=lambda d: q[0] * costs[0, d] + q[1] * costs[1, d]) for q in probs]
        assert outcome.costs[name] == pytest.approx(np.mean([costs[c, d] for c, d in zip(y, cheapest, strict=True)]))
    counts = np.asarray(ju.leaf_counts(forest, X), float)
    shares = counts / counts.sum(axis=2, keepdims=True)
    entropy = lambda q: -np.sum(q * np.log2(np.where(q > 0, q, 1)), axis=-1)
    total = entropy(shares.mean(axis=1))
    assert outcome.doubtful[0]["row"] == np.argmax(np.round(total, 6))
    for row in outcome.doubtful:
        i = row["row"]
        assert row["aleatoric"] + row["epistemic"] == pytest.approx(total[i], abs=1e-5)
        assert row["leaf_rows"] == np.median(counts[i].sum(axis=1))
        assert (row["truth"], row["predicted"]) == (y[i], shares[i].mean(axis=0).argmax())


def test_rows_alike_meet_in_most_leaves(fold):
    forest, X, _, _ = fold
    found = rows_alike(forest.trees, X[10:], X[:4])
    meetings = ju.neighbours(forest, X[:4], rows=X[10:], k=3, kind="leaves")
    np.testing.assert_array_equal(found, meetings.index)


def test_certain_answers_keep_their_order():
    log_odds = np.array([[-200.0, 0, -300], [-150, 0, -300], [0, -120, -300], [0, -180, -300], [-300, -300, 0]])
    probs = np.exp(log_odds).astype(np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    logs = log_odds.astype(np.float32)
    measures, *_ = _measure(_Answers(logs[None], probs[None], logs[None]), np.array([0, 1, 0, 0, 2]))
    assert float(measures["auc"][0]) == pytest.approx((5 / 6 + 3 / 4 + 1) / 3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_intervals_and_polling(n_classes):
    X, y = make_classification(600, 8, n_informative=4, n_classes=n_classes, flip_y=0.3, random_state=1)
    forest = ju.from_sklearn(RandomForestClassifier(9, min_samples_leaf=3, random_state=0).fit(X[:400], y[:400]))
    X, y = X[400:], y[400:]
    counts, outcome = np.asarray(ju.leaf_counts(forest, X)), compare.evaluate(forest, ("probability",), X, y)
    assert list(outcome.sets) == list(outcome.set_sizes) == ["1", "2", "3", "5", "10", "20"]
    for s, measured in outcome.sets.items():
        leads = counts[:, :, :, None] - counts[:, :, None, :] >= int(s)
        share = leads.mean(axis=1)  # [instances, preferred, other]
        rejected = share >= 0.5
        if n_classes == 2:
            rejected[:, 0, 1] = share[:, 0, 1] > 0.5
        sets = ~rejected.any(axis=1)
        sets |= ~sets.any(axis=1, keepdims=True)
        sizes, right = sets.sum(axis=1), sets[np.arange(len(y)), y]
        x = right / sizes
        expected = {
            "determinacy": np.mean(sizes == 1),
            "single_set_accuracy": right[sizes == 1].mean() if 1 in sizes else None,
            "u65": np.mean(1.6 * x - 0.6 * x**2),
            "u80": np.mean(2.2 * x - 1.2 * x**2),
            "set_size": sizes.mean(),
        }
        assert measured == pytest.approx(expected, abs=1e-6)
        assert outcome.set_sizes[s] == [int(np.sum(sizes == size)) for size in range(1, n_classes + 1)]
    size = counts.sum(axis=2, keepdims=True)
    # Where a bin ends is a matter of rounding; what is in it is not.
    edges, rounded = np.arange(1, 10, dtype=np.float32) / 10, np.asarray(ju.Mean().probability(jnp.asarray(counts)))
    lower, mean, upper = (part.mean(axis=1) for part in (counts / (size + 1), counts / size, (counts + 1) / (size + 1)))
    bins = {name: [0.0] * 10 for name in ("size", "hits", "probability", "lower", "upper")}
    for i, c in np.ndindex(len(y), n_classes):
        if n_classes > 2 or c == 1:
            sums = (1, y[i] == c, mean[i, c], lower[i, c], upper[i, c])
            for part, value in zip(bins.values(), sums, strict=True):
                part[int(np.sum(rounded[i, c] > edges))] += value
    assert list(outcome.intervals) == list(bins)
    for name, found in outcome.intervals.items():
        np.testing.assert_allclose(found, bins[name], rtol=1e-5, err_msg=name)
    assert all(isinstance(n, int) for name in ("size", "hits") for n in outcome.intervals[name])
    losses = {}
    if n_classes == 2:
        near, far = np.where(y == 1, [upper[:, 1], lower[:, 1]], [lower[:, 1], upper[:, 1]])
        losses = {"lower": near, "mean": mean[:, 1], "upper": far}
    assert outcome.brier_range == pytest.approx({k: np.mean((p - y) ** 2) for k, p in losses.items()}, rel=1e-5)
    votes = np.array([[vote_of(leaf, t) for t, leaf in enumerate(row)] for row in counts])
    whole = np.array([np.bincount(row[row >= 0], minlength=n_classes).argmax() for row in votes])
    # The paper's combiner hears a tree after the other.
    n_polled, predicted, settled, _ = naive(votes, n_classes, 0.99, settled_by(9, 0.99))
    expected = {"n_polled": np.mean(n_polled), "settled": np.mean(settled), "accuracy": np.mean(predicted == y)}
    expected |= {"whole_accuracy": np.mean(whole == y), "same": np.mean(predicted == whole)}
    assert outcome.polling == pytest.approx(expected, abs=1e-6)


def vote_of(leaf, t):
    """The largest class, tied ones in turns; none if all are tied."""
    tied = np.flatnonzero(leaf == leaf.max())
    return -1 if len(tied) == len(leaf) else tied[t % len(tied)]


def test_no_sets_of_many_classes_and_no_accuracy_of_none():
    X, y = make_classification(400, 8, n_informative=6, n_classes=11, n_clusters_per_class=1, random_state=1)
    grow = lambda X, y: ju.from_sklearn(RandomForestClassifier(2, random_state=0).fit(X, y))
    many = compare.evaluate(grow(X, y), ("probability",), X, y)
    assert many.sets == many.set_sizes == many.intervals == many.brier_range == many.polling == {}
    two = compare.evaluate(grow(X[:6], y[:6] % 2), ("probability",), X, y % 2)
    at_ten = two.sets["10"]
    assert (at_ten["determinacy"], at_ten["single_set_accuracy"], at_ten["u65"]) == (0.0, None, 0.65)
    assert two.set_sizes["10"] == [0, 400]
    json.dumps(two, allow_nan=False)
