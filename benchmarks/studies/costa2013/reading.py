"""What the cells of the study of Costa, Verwer and Blockeel 2013 say of its claims."""

import re
import textwrap

import numpy as np

from benchmarks.studies.costa2013.methods import MEASURES
from benchmarks.studies.costa2013.numbers import (
    DUELS,
    Duel,
    Finished,
    against,
    average,
    called_shares,
    duel,
    p_in_words,
    values,
)

READING = """
Wins/ties/losses are those of TPCE; *told apart* means p < .05.

* **"Better probability estimates than standard trees": {brier_tree}.** Brier score {brier_tree_said} (the paper
  {brier_tree_paper}). **"Comparable to ensembles": {brier_bag}**, {brier_bag_said} (the paper {brier_bag_paper}). Where
  both have a large score, in the upper half of the sets, TPCE wins {upper} of {n_upper} against bagging, in the lower
  half {lower} of {n_lower}; the paper's "always" is more than we see, its tendency {tendency}. It is the same against
  the smoothed tree: {upper_tl} of {n_upper}, {lower_tl} of {n_lower}. Doubt pays where there is much to doubt.
* **"Better ranking": {auc_tree} against trees**, {auc_tree_said} (the paper {auc_tree_paper}), **{auc_bag} against
  bagging**, {auc_bag_said} (the paper {auc_bag_paper}).
* **"Better reliability": {reliability_tree} against trees**, {reliability_tree_said} (the paper
  {reliability_tree_paper}), **{reliability_kk} against K&K**, {reliability_kk_said} (the paper {reliability_kk_paper}),
  **{reliability_bag} against bagging**, {reliability_bag_said} (the paper {reliability_bag_paper}).
* **Smoothing accounts for most of it.** TPCE adds one instance of each class to its leaves, the baselines of the paper
  do not. Of its mean lead over the single tree, smoothing that tree's leaves gives {share_brier} by Brier score,
  {share_auc} by AUC, {share_reliability} by AUC reliability. Against the smoothed tree TPCE then has {brier_tl} by
  Brier score, {auc_tl} by AUC and {reliability_tl} by AUC reliability; against smoothed bagging of as many trees
  {brier_bl}, {auc_bl} and {reliability_bl}.
* **Ten folds are less kind to it, in reliability above all.** On the same {n_both} sets TPCE's mean lead over the
  smoothed tree goes from {lead_auc_loo} to {lead_auc_folds} by AUC, and from {lead_reliability_loo} to
  {lead_reliability_folds} by AUC reliability; over smoothed bagging from {bag_auc_loo} to {bag_auc_folds}, and from
  {bag_reliability_loo} to {bag_reliability_folds}.
* **By ten folds on all {n} sets**, TPCE against the Laplace-smoothed tree: Brier score {folds_brier_tl}, AUC
  {folds_auc_tl}, AUC reliability {folds_reliability_tl}; against smoothed bagging: {folds_brier_bl}, {folds_auc_bl},
  {folds_reliability_bl}. So beside smoothed baselines the method {summary}.
* **It predicts classes as well as trees do, or better**: accuracy {accuracy_loo} against the tree as in the paper's
  tables, {accuracy_folds} by ten folds ({accuracy_own} and {accuracy_tree} in the mean); against bagging by ten folds
  {accuracy_bag}.
* **More trees do more.** A bag of 20, whatever the number of classes, unsmoothed and under leave-one-out: TPCE against
  it {brier_many} by Brier score, {auc_many} by AUC, {reliability_many} by AUC reliability.
* **Own thresholds do the harm that the paper draws.** They win {agreeing_own} of the instances over to every label, in
  place of {agreeing}, and cost {own_brier} of Brier score ({own_brier_said}). The order of instances hardly suffers:
  AUC {own_auc}, AUC reliability {own_reliability} (own thresholds' wins first).
* **Other readings.** Of the six, {best_brier} has the lowest mean Brier score, {best_auc} the highest AUC and
  {best_reliability} the highest AUC reliability; Laplace has {laplace_brier}, {laplace_auc} and {laplace_reliability}.
  **Pooled leaves instead of the paper's mean are {pool_verdict}**: {pool_brier_tpce} by Brier score, {pool_auc_tpce} by
  AUC, {pool_reliability_tpce} by AUC reliability (pooling's wins first). Pooling against the smoothed tree:
  {pool_brier_tl}, {pool_auc_tl}, {pool_reliability_tl}; against smoothed bagging: {pool_brier_bl}, {pool_auc_bl},
  {pool_reliability_bl}. Read by an m-estimate towards the prior, TPCE and the single tree are {m_brier} by Brier score,
  {m_auc} by AUC, {m_reliability} by AUC reliability.
* **The batch: "better than a standard tree learner" in ranking {batch_tree}**, {batch_tree_said}; **"slightly worse
  than standard bagging" {batch_bag}**, {batch_bag_said}. By Brier score it is the worst of all, {batch_brier} in the
  mean: the labels of all other test instances are noise in its leaves.
* **A threshold on K&K's reliability** calls {kk_called} of the predictions reliable, of which {kk_right} are right, and
  {kk_others} of the others; on TPCE's probability {own_called}, {own_right} and {own_others}; on the probability of the
  Laplace-smoothed tree {tree_called}, {tree_right} and {tree_others}.
"""
WIDTH = 120
HOLDS = {"ahead": "holds", "not apart": "not told apart", "behind": "the reverse"}
COMPARABLE = {"ahead": "it is ahead", "not apart": "holds", "behind": "it is behind"}


def reading(finished: Finished) -> str:
    """The claims, with the numbers of the cells."""
    said = {"n": len(finished), **_tables(finished), **_smoothed(finished), **_folds(finished), **_classes(finished)}
    said |= {**_own(finished), **_read(finished), **_batch(finished), **_called(finished)}
    return filled(READING.format(**said))


def filled(text: str) -> str:
    """Paragraphs and points broken into lines anew, once their numbers are in."""
    lines = []
    for part in map(str.strip, text.strip().replace("\n* ", "\n\n* ").split("\n\n")):
        point = part.startswith("* ")
        lines += [""] * (bool(lines) and not (point and lines[-1].startswith(("* ", "  "))))
        words = re.sub(" ([<=]) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", " ".join(part.split()))
        broken = textwrap.wrap(words, WIDTH, subsequent_indent="  " * point, break_on_hyphens=False)
        lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in broken]
    return "\n".join(lines)


def in_words(of: Duel) -> str:
    """Wins/ties/losses with the p-value."""
    p = p_in_words(of.p)
    return f"{of.score} (p {p if p.startswith('<') else '= ' + p})"


def _tables(finished: Finished) -> dict:
    said: dict = {}
    for (measure, rival), printed in DUELS.items():
        of, key = duel(finished, "paper", measure, rival), f"{measure}_{rival}"
        said[key] = (COMPARABLE if key == "brier_bag" else HOLDS)[of.verdict]
        said[f"{key}_said"] = in_words(of)
        said[f"{key}_paper"] = f"{printed.wins}/{printed.ties}/{printed.losses}"
    own, bag = (values(finished, "paper", name, "brier") for name in ("tpce", "bag"))
    upper = np.minimum(own, bag) > np.median(np.minimum(own, bag))
    said |= {"upper": int((own < bag)[upper].sum()), "n_upper": int(upper.sum())}
    said |= {"lower": int((own < bag)[~upper].sum()), "n_lower": int((~upper).sum())}
    smoothed = values(finished, "paper", "tree_laplace", "brier")
    said |= {"upper_tl": int((own < smoothed)[upper].sum()), "lower_tl": int((own < smoothed)[~upper].sum())}
    said["tendency"] = "holds" if (own < bag)[upper].mean() > (own < bag)[~upper].mean() else "does not hold"
    return said


def _smoothed(finished: Finished) -> dict:
    said: dict = {}
    for measure in MEASURES[:3]:
        tree, smoothed = (duel(finished, "paper", measure, rival) for rival in ("tree", "tree_laplace"))
        said[f"share_{measure}"] = f"{(smoothed.other - tree.other) / (tree.mean - tree.other):.0%}"
        said[f"{measure}_tl"] = in_words(smoothed)
        said[f"{measure}_bl"] = in_words(duel(finished, "paper", measure, "bag_laplace"))
        said[f"{measure}_many"] = in_words(duel(finished, "paper", measure, "many"))
    return said


def _folds(finished: Finished) -> dict:
    said: dict = {}
    both = {name: found for name, found in finished.items() if "loo" in found}
    for measure in ("auc", "reliability"):
        for protocol in ("loo", "folds"):
            for short, rival in (("lead", "tree_laplace"), ("bag", "bag_laplace")):
                of = duel(both, protocol, measure, rival)
                said[f"{short}_{measure}_{protocol}"] = f"{of.mean - of.other:+.3f}"
    verdicts = []
    for measure in MEASURES[:3]:
        for short, rival in (("tl", "tree_laplace"), ("bl", "bag_laplace")):
            of = duel(finished, "folds", measure, rival)
            verdicts.append(of.verdict)
            said[f"folds_{measure}_{short}"] = in_words(of)
    counts = {verdict: verdicts.count(verdict) for verdict in HOLDS}
    said["summary"] = (
        f"is told apart as the better one in {counts['ahead']} of the six comparisons, as the worse one in "
        f"{counts['behind']}"
    )
    return said | {"n_both": len(both)}


def _classes(finished: Finished) -> dict:
    of = duel(finished, "folds", "accuracy", "tree_laplace")
    return {
        "accuracy_loo": in_words(duel(finished, "paper", "accuracy", "tree_laplace")),
        "accuracy_folds": in_words(of),
        "accuracy_own": f"{of.mean:.4f}",
        "accuracy_tree": f"{of.other:.4f}",
        "accuracy_bag": in_words(duel(finished, "folds", "accuracy", "bag")),
    }


def _own(finished: Finished) -> dict:
    there = {name: found for name, found in finished.items() if "own" in found}
    of = {m: against(values(there, "own", "tpce_own", m), values(there, "loo", "tpce", m), m) for m in MEASURES}
    agreeing = {p: np.mean([found[p]["agreeing"] for found in there.values()]) for p in ("loo", "own")}
    return {
        "agreeing_own": f"{agreeing['own']:.0%}",
        "agreeing": f"{agreeing['loo']:.0%}",
        "own_brier": f"{of['brier'].mean - of['brier'].other:.3f}",
        "own_brier_said": in_words(of["brier"]),
        "own_auc": in_words(of["auc"]),
        "own_reliability": in_words(of["reliability"]),
    }


def _read(finished: Finished) -> dict:
    said: dict = {}
    rules = {
        "tpce_frequencies": "relative frequencies",
        "tpce": "Laplace",
        "tpce_m": "the m-estimate",
        "tpce_eb": "empirical Bayes",
        "tpce_pool": "pooling",
        "tpce_eva": "evidence accumulation",
    }
    for measure in MEASURES[:3]:
        means = {rule: average(finished, "folds", rule, measure) for rule in rules}
        best = (min if measure == "brier" else max)(means, key=lambda rule: means[rule])
        said[f"best_{measure}"] = f"{rules[best]} ({means[best]:.3f})"
        said[f"laplace_{measure}"] = f"{means['tpce']:.3f}"
        said[f"m_{measure}"] = in_words(duel(finished, "folds", measure, "tree_m", "tpce_m"))
    return said | _pooled(finished)


def _pooled(finished: Finished) -> dict:
    said, verdicts = {}, []
    for measure in MEASURES[:3]:
        for short, rival in (("tpce", "tpce"), ("tl", "tree_laplace"), ("bl", "bag_laplace")):
            of = duel(finished, "folds", measure, rival, "tpce_pool")
            said[f"pool_{measure}_{short}"] = in_words(of)
            verdicts += [of.verdict] * (rival == "tpce")
    same = len(set(verdicts)) == 1
    words = {"ahead": "better by all three measures", "behind": "worse by all three measures"}
    return said | {"pool_verdict": words.get(verdicts[0], "not told apart") if same else "not better throughout"}


def _batch(finished: Finished) -> dict:
    tree, bag = (duel(finished, "folds", "auc", rival, "batch") for rival in ("tree", "bag"))
    worse = {"ahead": "does not hold", "not apart": "is not told apart", "behind": "holds"}
    return {
        "batch_tree": HOLDS[tree.verdict],
        "batch_tree_said": in_words(tree),
        "batch_bag": worse[bag.verdict],
        "batch_bag_said": in_words(bag),
        "batch_brier": f"{average(finished, 'folds', 'batch', 'brier'):.3f}",
    }


def _called(finished: Finished) -> dict:
    said = {}
    for method, short in (("kk", "kk"), ("tpce", "own"), ("tree_laplace", "tree")):
        called, right, others, _ = called_shares(finished)[method]
        said |= {
            f"{short}_called": f"{called:.0%}",
            f"{short}_right": f"{right:.0%}",
            f"{short}_others": f"{others:.0%}",
        }
    return said
