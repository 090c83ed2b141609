"""The two later jobs of the study of doubt: rows to label next, and drift."""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.studies.doubt import drift, labelling
from benchmarks.studies.doubt import run as study
from benchmarks.studies.doubt.doubts import kinds
from benchmarks.studies.doubt.jobs import Rows
from benchmarks.studies.doubt.labelling import CHOICES, RANDOM, Grown, doubt_of, grow
from benchmarks.studies.doubt.page import EXPECTED_LATER, KS, SEEN, _marks, compared, table, wide
from benchmarks.studies.rules.abstaining import bags_of
from tests.benchmarks._small import classified

pytestmark = pytest.mark.once


def rows(n_classes=3, n=300):
    return Rows(*classified(n, n_classes), np.zeros(6, bool))


def test_a_forest_by_its_trees_is_that_of_the_library():
    X, y, _ = rows()
    model = RandomForestClassifier(20, min_samples_leaf=3, random_state=0).fit(X[:200], y[:200])
    bags = bags_of(model, X[:200])
    grown = Grown(list(model.estimators_), bags.times, bags.leaves)
    p = kinds(grown.reached(y[:200], 3, grown.apply(X[200:]), bags.times))[0]
    np.testing.assert_allclose(p, model.predict_proba(X[200:]), atol=1e-6)
    found = grown.outside_share(X[200:], X[:200])
    np.testing.assert_allclose(found, ju.outside_share(model, X[200:], rows=X[:200]), atol=1e-9)
    assert found.max() > 0


def test_trees_are_grown_on_their_bags():
    X, y, _ = rows()
    grown = grow(X, y, 0, 8)
    assert (grown.times.sum(axis=0) == len(y)).all()
    wrong = [tree.predict(X) != y for tree in grown.trees]
    assert not any((each & (times > 0)).any() for each, times in zip(wrong, grown.times.T, strict=True))
    assert np.mean(wrong) > 0.05
    assert (grown.outside_share(X, X) == 0).all()


def test_the_next_rows_are_those_of_most_doubt():
    X, y, _ = rows()
    labelled, others = np.arange(50), np.arange(50, 300)
    grown = grow(X[:50], y[:50], 0)
    doubts = {each: doubt_of(each, grown, X, y, 3, X, labelled, others) for each in CHOICES}
    p, inside = kinds(grown.reached(y[:50], 3, grown.apply(X[50:]), grown.times))
    top = np.sort(p, axis=1)
    np.testing.assert_allclose(doubts["margin//"], top[:, -2] - top[:, -1], atol=1e-6)
    np.testing.assert_allclose(doubts["entropy, BALD//"], stats.entropy(p, base=2, axis=1), atol=1e-5)
    np.testing.assert_allclose(doubts["entropy, BALD//"], inside["epistemic"], atol=1e-5, err_msg="leaves are pure")
    assert not doubts[RANDOM].any()
    near = np.sort(np.linalg.norm(X[50:, None] - X[None, :50], axis=2), axis=1)[:, :5].mean(axis=1)
    assert np.argmax(doubts["distance//"]) == np.argmax(near)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_curves_begin_alike_and_are_areas(n_classes, monkeypatch):
    monkeypatch.setattr(labelling, "LABELS", (20, 40, 80))
    found = labelling.run_next(rows(n_classes), 0)["next"]
    assert list(found) == [one for one in CHOICES if n_classes > 2 or "entropy" not in one]
    area, *curve = found[RANDOM]
    assert area == pytest.approx((curve[0] / 2 + curve[1] + curve[2] / 2) / 2, abs=1e-4), "steps double"
    assert len({each[1] for each in found.values()}) == 1
    assert len({tuple(each) for each in found.values()}) > 3
    assert curve[2] > curve[0]


def test_drifts_are_told_where_they_are_large(monkeypatch):
    monkeypatch.setattr(drift, "FLIPPED", 1)
    monkeypatch.setattr(drift, "WEIGHT", 50)
    found = drift.run_drift(rows(2, 600), 0)
    assert list(found) == list(drift.DRIFTS)
    for name, told in (("mix, a column", "KS with Holm//"), ("relation, a region", "error rate//")):
        area, alarms, _ = found[name][told]
        assert (area, alarms) == (1, 1)
    assert len(found["mix, a class"]) == 10
    assert "mean distance//" not in found["relation, a region"], "it sees no label"


def test_p_values_of_a_window():
    rng = np.random.default_rng(0)
    before, same, far = (rng.normal(at, 1, (90, 4)) for at in (0, 0, 2))
    assert drift.domain(before, far, 0) < 1e-6
    assert drift.domain(before, same, 0) > 0.01
    data = Rows(np.r_[before, far].astype(np.float32), np.arange(180) % 2, np.zeros(4, bool))
    p = 0.4 * rng.random(180)
    p = np.stack([1 - p, p], axis=1)
    at, now = np.arange(90), np.arange(90, 130)
    found = drift.detect(data, {}, p, at, now, np.zeros(40, int), 0, "mix, a column")
    least = min(stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(data.X[at].T, data.X[now].T, strict=True))
    assert found["KS with Holm//"] == pytest.approx(min(1, 4 * least))
    assert found["error rate//"] == pytest.approx(stats.fisher_exact([[45, 45], [0, 40]])[1])
    assert found["coverage//"] == pytest.approx(stats.binomtest(40, 40, 0.9).pvalue)  # label 1 is in all sets
    assert drift.welch(np.ones(5), np.ones(5)) == 1


def test_committed_cells_say_what_the_page_does():
    for name in study.LATER_SETS:
        for part in ("next", "drift"):
            journal = study.PARTS[part].journal(study.RESULTS, name)
            assert list(journal.found) == journal.wanted
    frame = table(study.kept(study.RESULTS))
    frame = frame[~frame["set"].isin(SEEN)]
    found = {tuple(row[:3]): row[-2] for row in compared(EXPECTED_LATER, frame, frame[:0])}
    told_next = [pair[1:] for pair, told in found.items() if "next" in pair[0] and told != "not told apart"]
    assert told_next == [("*margin*", "*epistemic*, train")]
    assert [told for (job, *_), told in found.items() if "a column" in job].count("**the reverse**") == 3
    area, at_60 = (wide(frame, "next", measure) for measure in ("area", "accuracy, 60"))
    for values in (area, at_60):
        ahead = {name for name in values if (values[name] - values[RANDOM]).mean() > 0}
        assert ahead == {"margin//"}
    for drift_name, told in ((drift.DRIFTS[0], 8), (drift.DRIFTS[1], 2)):
        marks = _marks(wide(frame, drift_name), KS)
        assert sum(mark == "({})" for mark in marks.values()) == told
        assert marks["mean epistemic/train/"] == marks["mean outside share//"] == "({})"
