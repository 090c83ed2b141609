"""The rules on the reference ensembles, the papers' examples and a published run.

Class scores of evidence accumulation are the references' logarithms plus log C.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.combiners import combine_counts
from tests._forests import forest_of_leaves
from tests._golden import golden, sonar

ENSEMBLES = golden("ensembles")
IDS = [f"{i}-{len(e['counts'])}x{e['repeat']}" for i, e in enumerate(ENSEMBLES)]
SMOOTHINGS = (0.0, 0.1, 1.0)


def trees_of(entry: dict) -> np.ndarray:
    return np.tile(np.array(entry["counts"], np.int32), (entry["repeat"], 1))


def rules_of(prior) -> dict[str, ju.Combiner]:
    """The rules that a reference ensemble is answered by, under its prior of class 1."""
    rules = {"p_prob": ju.Mean(), "p_pls": ju.Mean(ju.scorers.plausibility), "vote": ju.Vote(), "pooling": ju.Pooling()}
    for s in SMOOTHINGS:
        rules[f"laplace={s:g}"] = ju.EvidenceAccumulation(prior, s)
        rules[f"published laplace={s:g}"] = ju.EvidenceAccumulation(prior, s, prior_term="published_code")
    for eps in (0.0, 1e-5):
        rules |= {f"eps={eps:g}": ju.DempsterRule(False, eps), f"normalised eps={eps:g}": ju.DempsterRule(True, eps)}
    return rules


@lru_cache
def answers(*, of_filled_leaves: bool = False) -> list[dict]:
    """What all rules answer each ensemble, or its leaves with instances; masked trees fill up the smaller ones."""
    most = max(entry["K"] for entry in ENSEMBLES)
    counts = np.full((len(ENSEMBLES), most, 2), 7, np.int32)
    mask = np.zeros((len(ENSEMBLES), most), bool)
    for i, entry in enumerate(ENSEMBLES):
        counts[i, : entry["K"]] = leaves = trees_of(entry)
        mask[i, : entry["K"]] = leaves.any(axis=1) | (not of_filled_leaves)
    together = _answers(np.array([entry["prior_pos"] for entry in ENSEMBLES], jnp.result_type(float)), counts, mask)
    return [jax.tree.map(lambda part, i=i: np.asarray(part)[i], together) for i in range(len(ENSEMBLES))]


@jax.jit
@jax.vmap
def _answers(prior, counts, mask):
    return {name: combine_counts(rule, counts, None, mask) for name, rule in rules_of(prior).items()}


@pytest.fixture(params=range(len(ENSEMBLES)), ids=IDS)
def ensemble(request):
    """An entry, and what the rules answer it."""
    return ENSEMBLES[request.param], answers()[request.param]


def test_means_vote_and_pooling(ensemble, tolerance):
    entry, found = ensemble
    for name, width, kind in (("p_prob", 1, "closed"), ("p_pls", 2, "pi")):
        expected, answer = entry["scores"][name]["aggregated"]["average"], found[name]
        tolerance.check(answer.score, expected, kind=kind, scale=1.0)
        shares = [0.5 - expected / width, 0.5 + expected / width]
        tolerance.check(answer.probability, shares, kind=kind, what="probability")
    expected, answer = entry["scores"]["p_prob"]["aggregated"]["vote"], found["vote"]
    tolerance.check(answer.score, expected, scale=1.0)
    tolerance.check(answer.class_scores, [(1 - expected) / 2, (1 + expected) / 2], scale=1.0)
    tolerance.check(found["pooling"].score, entry["pooling"])
    tolerance.check(found["pooling"].probability, [0.5 - entry["pooling"], 0.5 + entry["pooling"]])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_evidence(ensemble, smoothing, tolerance):
    entry, found = ensemble
    expected, answer = entry["eva"].get(f"laplace={smoothing:g}"), found[f"laplace={smoothing:g}"]
    prior = [1 - entry["prior_pos"], entry["prior_pos"]]
    if expected is None:
        assert smoothing == 0  # an empty leaf has no evidence then, which the references leave open
        if trees_of(entry).any():
            filled = answers(of_filled_leaves=True)[ENSEMBLES.index(entry)]["laplace=0"]
            tolerance.check(answer.class_scores, filled.class_scores, scale=1.0)
        else:
            tolerance.check(answer.probability, prior)
        return
    logs = [float(expected["log_score_neg"]), float(expected["log_score_pos"])]
    tolerance.check(answer.class_scores, np.array(logs) + np.log(2), scale=1.0)
    if "logit" not in expected:  # contradictory: all classes are vetoed
        assert answer.score == 0
        tolerance.check(answer.probability, prior)
        return
    logit = float(expected["logit"])
    tolerance.check(answer.score, logit, scale=1.0, what="logit")
    posterior = [expected["posterior_neg"], expected["posterior_pos"]]
    tolerance.check(answer.probability, posterior, scale=1.0, what="posterior")
    odds = np.array([-np.logaddexp(0, logit), -np.logaddexp(0, -logit)])
    tolerance.check(answer.log_probability, odds, scale=1.0, what="log posterior")
    if "published_code_logit" in expected:
        # The logit is a difference of two logarithms, to whose size the tolerance is relative.
        published = found[f"published laplace={smoothing:g}"]
        size = float(np.abs(published.class_scores).max())
        tolerance.check(published.score, expected["published_code_logit"], scale=max(1.0, size))


def test_evidence_as_products(ensemble, x64):
    """The paper's own difference of products is exp of the class scores, where it does not over- or underflow."""
    entry, found = ensemble
    if not x64:
        pytest.skip("products over trees leave the range of float32")
    for smoothing, expected in entry["eva"].items():
        scores = found[smoothing].class_scores - np.log(2)
        actual = np.exp(scores[1]) - np.exp(scores[0])
        if "g_eva_paper" in expected:
            size = np.abs(scores[np.isfinite(scores)]).max() + 1
            np.testing.assert_allclose(actual, float(expected["g_eva_paper"]), rtol=1e-12 * size, atol=1e-15)
        else:
            assert actual == 0


@pytest.mark.parametrize("eps", ["eps=0", "eps=1e-05"])
def test_dempster(ensemble, eps, tolerance):
    """The conjunctive rule, and Dempster's rule beside it."""
    entry, found = ensemble
    expected, answer, normalized = entry["dempster"][eps], found[eps], found[f"normalised {eps}"]
    logs = [expected["log_q_neg"], expected["log_q_pos"]]
    tolerance.check(answer.class_scores, logs, kind="pi", scale=1.0, what="log Q")
    margin, size = np.diff(answer.class_scores)[0], max(1.0, *(abs(log) for log in logs))
    tolerance.check(margin, expected["logit_q"], kind="pi", scale=size, what="logit")
    # exp of a logarithm: its relative error grows with the logarithm's size
    tolerance.check(answer.score, expected["score"], kind="pi", scale=1e-10, what="score")
    masses = expected["normalised"]
    pignistic = [masses["neg"] + masses["omega"] / 2, masses["pos"] + masses["omega"] / 2]
    tolerance.check(answer.probability, pignistic, kind="pi", scale=1e-10, what="pignistic probability")
    tolerance.check(normalized.score, expected["score_normalised"], kind="pi", scale=1e-10, what="normalised score")
    tolerance.check(normalized.probability, answer.probability)
    np.testing.assert_array_equal(normalized.class_scores, answer.class_scores)


@pytest.fixture(scope="module")
def streamed():
    """One forest with the leaves of all small ensembles; trees that an ensemble lacks are masked."""
    entries = [entry for entry in ENSEMBLES if entry["K"] <= 100]
    counts = np.full((len(entries), 100, 2), 7)
    mask = np.zeros((len(entries), 100), bool)
    for i, entry in enumerate(entries):
        counts[i, : entry["K"]] = trees_of(entry)
        mask[i, : entry["K"]] = True
    return entries, *forest_of_leaves(counts), mask


def scores_of(streamed, rules_for) -> list[dict]:
    """The scores of each ensemble by the rules that it needs; one program for all."""
    entries, forest, X, mask = streamed
    return [
        {name: float(values[i]) for name, values in ju.bind(forest, rules_for(entry)).score(X, tree_mask=mask).items()}
        for i, entry in enumerate(entries)
    ]


@pytest.mark.exhaustive
def test_streamed_ensembles(streamed, tolerance, x64):
    def rules(entry):
        return ju.combiners.Together(
            average=ju.Mean(),
            vote=ju.Vote(),
            literal=ju.Vote("literal"),
            pooling=ju.Pooling(),
            evidence=ju.EvidenceAccumulation(entry["prior_pos"]),
            dempster=ju.DempsterRule(),
            cautious=ju.CautiousRule(),
            cautious_normalised=ju.CautiousRule(normalized=True),
            certain=ju.CautiousRule(eps=0),
            epistemic=ju.EpistemicWeighting(),
            beta_sum=ju.BetaAggregation(),
            beta_exact=ju.BetaAggregation("exact"),
            beta_max=ju.BetaAggregation("max"),
        )

    for entry, score in zip(streamed[0], scores_of(streamed, rules), strict=True):
        aggregated = entry["scores"]["p_prob"]["aggregated"]
        for name in ("average", "vote"):
            tolerance.check(score[name], aggregated[name], scale=1.0, what=name)
        tolerance.check(score["literal"] + 0.5, aggregated["vote_fraction_positive"], scale=1.0)
        tolerance.check(score["pooling"], entry["pooling"])
        tolerance.check(score["evidence"], entry["eva"]["laplace=0.1"]["logit"], scale=1.0)
        tolerance.check(score["dempster"], entry["dempster"]["eps=1e-05"]["score"], kind="pi", scale=1e-10)
        expected = entry["cautious"]
        tolerance.check(score["cautious"], expected["eps=1e-05"]["score"], kind="pi", scale=1e-5)
        tolerance.check(score["cautious_normalised"], expected["eps=1e-05"]["score_normalised"], kind="pi", scale=1e-5)
        if expected["eps=0"] is not None:
            tolerance.check(score["certain"], expected["eps=0"]["score"], kind="pi", scale=1e-5)
        tolerance.check(score["epistemic"], entry["epistemic_weight"], kind="pi", scale=1e-5)
        beta = entry["beta_aggregation"]
        tolerance.check(score["beta_sum"] + 0.5, beta["beta_agg_sum_grid101"], kind="pi", scale=1.0)
        tolerance.check(score["beta_exact"] + 0.5, beta["beta_agg_sum_exact"], kind="pi", scale=1.0)
        if beta["beta_agg_max_gap"] > (1e-9 if x64 else 1e-5):
            tolerance.check(score["beta_max"] + 0.5, beta["beta_agg_max_grid101"], scale=1.0)


SCORERS = {
    "p_prob": lambda entry: ju.scorers.probability,
    "p_lap": lambda entry: ju.scorers.laplace,
    "p_pls": lambda entry: ju.scorers.plausibility,
    "p_cb": lambda entry: ju.scorers.confidence_bounds,
    "linear": lambda entry: ju.scorers.linear,
    "ucb": lambda entry: Partial(ju.scorers.ucb, n_samples=float(entry["N_all"])),
}


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.exhaustive
def test_aggregations_of_every_score(scorer, streamed, tolerance, x64):
    def rules(entry):
        score = SCORERS[scorer](entry)
        return ju.combiners.Together(
            average=ju.Mean(score),
            median=ju.Median(score),
            maximum=ju.Maximum(score),
            gm_average=ju.GeneralizedMixture(score),
            gm_median=ju.GeneralizedMixture(score, "median"),
            gm_maximum=ju.GeneralizedMixture(score, "maximum"),
        )

    for entry, score in zip(streamed[0], scores_of(streamed, rules), strict=True):
        expected = entry["scores"][scorer]["aggregated"]
        for name, value in score.items():
            leaves = entry["scores"][scorer]["per_leaf"]
            ambiguous = expected["maximum_is_ambiguous"] or abs(max(leaves) + min(leaves)) < (1e-12 if x64 else 1e-6)
            # Where opposite scores are as extreme, rounding decides.
            if "maximum" in name and ambiguous and min(leaves) < 0 < max(leaves):
                continue
            size = max(1.0, *map(abs, leaves))
            tolerance.check(value, expected[name], kind="pi", scale=size, what=f"{scorer} {name} {entry['counts'][:3]}")


@pytest.mark.exhaustive
def test_ten_thousand_leaves(tolerance):
    """The largest ensemble, by the rules that do not grow with it."""
    entry = max(ENSEMBLES, key=lambda entry: entry["K"])
    rules = ju.combiners.Together(cautious=ju.CautiousRule(), median=ju.Median(), gm=ju.GeneralizedMixture())
    score = rules.score(jnp.asarray(trees_of(entry)))
    aggregated = entry["scores"]["p_prob"]["aggregated"]
    tolerance.check(score["cautious"], entry["cautious"]["eps=1e-05"]["score"], kind="pi", scale=1e-5)
    tolerance.check(score["median"], aggregated["median"], scale=1.0)
    tolerance.check(score["gm"], aggregated["gm_average"], kind="pi", scale=1.0)


@pytest.mark.parametrize("entry", golden("eva_multiclass"), ids=lambda e: f"{np.shape(e['counts'])}-{e['laplace']}")
@pytest.mark.exhaustive(keep=1)
def test_evidence_multiclass(entry, tolerance):
    prior = np.array([a / b for a, b in entry["prior_num_den"]])
    answer = ju.EvidenceAccumulation(prior, entry["laplace"]).answer(jnp.asarray(entry["counts"]))
    logs = np.array(entry["log_scores"], dtype=float)
    tolerance.check(answer.class_scores, logs + np.log(len(logs)), scale=1.0)
    tolerance.check(answer.probability, entry["posterior"], scale=1.0)
    assert answer.score is None


def test_examples_of_the_paper(tolerance):
    """Two witnesses, five suspects: only the one whom neither excludes remains. And the first example: averaging and
    pooling disagree; A is class 0."""
    crime, example = (golden("paper_examples")[name] for name in ("crime", "introduction_leaves"))
    counts = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    answer = ju.EvidenceAccumulation(np.array(crime["prior"]), smoothing=0.0).answer(counts)
    tolerance.check(np.exp(answer.class_scores) / 5, crime["scores"])
    tolerance.check(answer.probability, crime["posterior"])
    np.testing.assert_array_equal(np.isneginf(answer.class_scores), [True, True, False, True, True])
    rules = ju.combiners.Together(average=ju.Mean(), pooled=ju.Pooling())
    for name, probability in rules.probability(np.array(example["counts_A_B"])).items():
        tolerance.check(np.asarray(probability)[0], example[f"{name}_probability_of_A"])


SONAR = {
    "probability_average": (ju.Mean(), 0.5),
    "probability_voting": (ju.Vote(), None),
    "instances_pooling": (ju.Pooling(), 0.5),
    "instances_evidence": ("published_code", 0.0),
    "instances_evidence_paper": ("log", 0.0),
    "plaus_values_4_average": (ju.Mean(ju.scorers.plausibility), 0.0),
    "plaus_values_4_dempster": (ju.DempsterRule(), 0.0),
}


@pytest.fixture(scope="module")
def sonar_scores():
    """The rules' scores on the published leaves, from the counts and through a forest."""
    data = sonar()
    counts = np.moveaxis(data["counts"], 0, 1).astype(np.int32)
    prior = data["train_class_counts"] / data["train_class_counts"].sum()
    np.testing.assert_allclose(prior[1], data["prior"])
    rules = {
        name: ju.EvidenceAccumulation(prior, prior_term=rule) if isinstance(rule, str) else rule
        for name, (rule, _) in SONAR.items()
    }
    together = ju.combiners.Together(**rules)
    forest, X = forest_of_leaves(counts, prior)
    return together.score(jnp.asarray(counts)), ju.bind(forest, together).score(X)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SONAR)
def test_published_sonar_scores(name, sonar_scores, x64):
    """Hundred trees, 104 instances; the published scores are probabilities or centred, as the offset says."""
    published, offset = sonar()[f"score_{name}"], SONAR[name][1]
    for scores in sonar_scores:
        actual = np.asarray(scores[name], np.float64)
        actual = (1 + actual) / 2 if offset is None else actual + offset
        # Logits near 100; the unnormalised masses of hundred trees are tiny, and compared relatively.
        rtol, atol = (1e-11, 1e-12) if x64 else (2e-5, 1e-5)
        if name == "plaus_values_4_dempster":
            rtol, atol = (1e-8, 1e-25) if x64 else (2e-3, 1e-25)
        np.testing.assert_allclose(actual, published, rtol=rtol, atol=atol)


@pytest.mark.exhaustive
def test_published_decisions():
    """The sign of every score is the published decision, wherever the published score is clear of rounding."""
    data = sonar()
    counts = jnp.asarray(np.moveaxis(data["counts"], 0, 1).astype(np.int32))
    scores = ju.DempsterRule()(counts)
    published = data["score_plaus_values_4_dempster"]
    clear = np.abs(published) > 1e-30
    np.testing.assert_array_equal(np.sign(ju.margin(scores))[clear], np.sign(published)[clear])
