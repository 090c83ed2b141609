"""The study of reliable classification in evidence accumulation: its rules, its protocol and the committed page."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.studies.reliable_evidence import run as study
from benchmarks.studies.reliable_evidence.methods import NAMES, rules_of
from benchmarks.studies.reliable_evidence.page import MEASURES, against, by_set, table
from tests import _reference as reference

pytestmark = pytest.mark.once

LEAVES = np.array([[0, 1], [3, 1], [0, 7], [5, 5], [2, 9], [40, 3]], float)
PRIOR = np.array([0.7, 0.3])


def degrees() -> np.ndarray:
    """``[leaves 2]``: π(−), π(+)."""
    return np.exp([[reference.log_pi_pos(b, a), reference.log_pi_pos(a, b)] for a, b in LEAVES.tolist()])


@pytest.mark.parametrize(("name", "doubt"), [("evidence-certain", "epistemic"), ("evidence-reliable", "both")])
def test_evidence_is_weighted_by_what_is_not_in_doubt(name, doubt):
    pi = degrees()
    weight = 1 - pi.min(1) if doubt == "epistemic" else np.abs(pi[:, 1] - pi[:, 0])
    shares = (LEAVES + 0.1) / (LEAVES.sum(1, keepdims=True) + 0.2)
    expected = np.log(PRIOR) + np.sum(weight[:, None] * (np.log(shares) - np.log(PRIOR)), axis=0)
    answer = rules_of(jnp.asarray(PRIOR))[name].answer(jnp.asarray(LEAVES))
    np.testing.assert_allclose(ju.margin(answer.class_scores), expected[1] - expected[0], rtol=1e-4)


def test_preferences_added_and_multiplied():
    pi = degrees()
    s = pi[:, 1] - pi[:, 0]
    rules, leaves = rules_of(jnp.asarray(PRIOR)), jnp.asarray(LEAVES)
    np.testing.assert_allclose(rules["preference-reliable"].answer(leaves).score, np.mean(np.abs(s) * s), atol=1e-6)
    np.testing.assert_allclose(rules["plausibility"].answer(leaves).score, np.mean(s), atol=1e-6)
    expected = np.sum(np.log1p(s) - np.log1p(-s))
    np.testing.assert_allclose(rules["preference-multiplied"].answer(leaves).score, expected, rtol=1e-4)
    smoothed = np.mean((LEAVES[:, 1] + 0.1) / (LEAVES.sum(1) + 0.2))
    np.testing.assert_allclose(rules["evidence-summed"].answer(leaves).probability[1], smoothed, atol=1e-6)


def test_empty_and_large_leaves():
    leaves = jnp.asarray([[0.0, 0.0], [0.0, 1e6], [5e5, 5e5]])
    for name, rule in rules_of(jnp.asarray(PRIOR)).items():
        assert np.isfinite(jax.jit(rule.answer)(leaves).probability).all(), name
    for name in ("evidence-certain", "evidence-reliable"):
        np.testing.assert_allclose(rules_of(jnp.asarray(PRIOR))[name].answer(leaves[:1]).probability, PRIOR, rtol=1e-5)


def test_rejection_is_by_what_it_says():
    y = np.array([0, 1, 0, 1])
    scores = np.array([[1.0, 0], [0, 2], [0, 3], [4, 0]])  # right, right, wrong, wrong
    doubts = np.stack([np.arange(4.0), -np.arange(4.0)], axis=-1)[None]
    answer = study.Answers(scores, np.full((4, 2), 0.5))
    found = dict(zip(MEASURES, study.measured(answer, doubts, y), strict=True))
    assert found["accuracy"] == 0.5
    assert found["epistemic"] == pytest.approx((1 + 1 + 2 / 3 + 1 / 2) / 4, abs=1e-6)
    assert found["aleatoric"] == found["score"] == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4, abs=1e-6)
    assert found["total"] == 0.5


def test_the_forests_are_those_of_the_study_of_rules():
    rows = json.loads((study.RESULTS.parent / "rules" / "rules.json").read_text(encoding="utf-8"))["rows"]
    known = {tuple(row[:1] + row[2:6]): row[6:9] for row in rows}
    frame = table(study.kept(study.RESULTS))
    for measure, at in (("accuracy", 0), ("auc", 1), ("brier", 2)):
        values = by_set(frame, measure, 4)
        for name in ("probability", "plausibility", "epistemic", "evidence", "dempster-p"):
            kinds = [[known[set_, "inbag", kind, 4, name][at] for set_ in values.index] for kind in study.KINDS["main"]]
            np.testing.assert_allclose(values[name], np.mean(kinds, axis=0), atol=2e-4)


def test_a_duel():
    values = by_set(table(study.kept(study.RESULTS)), "auc", 1)
    row = against(values, "evidence").loc["evidence-certain"]
    gains = (values["evidence-certain"] - values["evidence"]).round(6)
    assert (row["won"], row["lost"]) == ((gains > 0).sum(), (gains < 0).sum())
    assert row["gain"] == pytest.approx(gains.median(), abs=2e-6)


def test_what_the_page_says_of_leaves_of_sixteen():
    frame = table(study.kept(study.RESULTS))
    for other, measure, *told in (
        ("evidence", "accuracy", 18, 4, True),
        ("evidence", "brier", 21, 2, True),
        ("dempster-p", "accuracy", 14, 8, False),
        ("probability", "brier", 8, 15, True),
        ("probability", "auc", 11, 12, False),
    ):
        values = by_set(frame, measure, 16)
        row = against(values, other, larger=measure != "brier").loc["evidence-reliable"]
        assert len(values) == 23
        assert [row["won"], row["lost"], row["p"] < 0.05] == told, (other, measure)


def test_what_the_page_says_everywhere():
    frame = table(study.kept(study.RESULTS))
    for leaf_size in (1, 4, 16):
        own = by_set(frame, "score", leaf_size)
        for part in ("epistemic", "aleatoric", "total"):
            found = against(by_set(frame, part, leaf_size), own)
            assert (found["won"] < found["lost"]).all()
            assert (found["gain"] < 0).all()
        for added, multiplied in (("evidence-summed", "evidence"), ("plausibility", "preference-multiplied")):
            for measure, told in (("auc", False), ("accuracy", False), ("brier", True)):
                row = against(by_set(frame, measure, leaf_size), multiplied, larger=measure != "brier").loc[added]
                assert (row["p"] < 0.05) == told
                assert not told or row["gain"] > 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rules_of_more_classes_are_one_against_the_rest(rng, n_classes):
    counts = rng.integers(0, 6, (30, 12, n_classes))
    prior = np.array([0.2, 0.5, 0.3]) if n_classes == 3 else np.array([0.7, 0.3])
    answers, doubts = study.answered(counts, prior)
    pairs = [rules_of(jnp.asarray([1 - p, p])) for p in prior]
    for name in NAMES:
        rule = pairs[1][name] if n_classes == 2 else ju.OneVsRest([one[name] for one in pairs])
        expected = rule.answer(jnp.asarray(counts, float))
        np.testing.assert_allclose(answers[name].scores, expected.class_scores, rtol=2e-4, atol=2e-5, err_msg=name)
        np.testing.assert_allclose(answers[name].probability, expected.probability, atol=2e-5, err_msg=name)
    if n_classes == 3:
        expected = ju.EvidenceAccumulation(prior).answer(jnp.asarray(counts, float))
        np.testing.assert_allclose(answers["evidence-classes"].probability, expected.probability, atol=2e-5)
    own = counts[:, :, 1]
    split = ju.UncertaintyDecomposition("plausibility")(jnp.asarray(np.stack([counts.sum(-1) - own, own], -1), float))
    found = doubts[-1 if n_classes == 2 else 1]
    np.testing.assert_allclose(found, np.stack([split.epistemic, split.aleatoric], axis=1), atol=1e-5)


def test_measures_of_more_classes_are_the_library_s(rng):
    scores, y = rng.integers(0, 4, (60, 3)) / 2, rng.integers(0, 3, 60)  # with ties
    shares, doubts = rng.dirichlet(np.ones(3), 60), rng.random((3, 60, 2))
    found = dict(zip(MEASURES, study.measured(study.Answers(scores, shares), doubts, y), strict=True))
    right, ranked = np.argmax(scores, axis=1) == y, np.sort(scores, axis=1)
    kept = lambda certainty: 1 - float(ju.metrics.area_under_risk_coverage(certainty, right))
    expected = {"auc": float(ju.metrics.auc(scores, y)), "accuracy": right.mean()}
    expected |= {"brier": float(ju.metrics.brier_score(shares, y)), "score": kept(ranked[:, 2] - ranked[:, 1])}
    chosen = doubts[np.argmax(scores, axis=1), np.arange(60)]
    expected |= {"epistemic": kept(-chosen[:, 0]), "total": kept(-chosen.sum(axis=1))}
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=2e-6)


def test_counts_are_the_library_s():
    X, y = make_classification(200, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    model = RandomForestClassifier(10, min_samples_leaf=3, random_state=0).fit(X[:150], y[:150])
    forest = ju.from_sklearn(model)
    outside = ju.count_leaves(forest, X[:150], y[:150], tree_mask=ju.counting.oob_mask(model, 150))
    for is_oob, of in ((False, forest), (True, outside)):
        found = study.leaf_counts(model, X[:150], y[:150], X[150:], 3, is_oob=is_oob)
        np.testing.assert_array_equal(found, ju.leaf_counts(of, X[150:]))
