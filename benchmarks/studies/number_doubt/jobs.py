"""The jobs of the study: rows to be told from the rest, rows to label next, and coverage that is no longer kept."""

from typing import Any

import numpy as np
from scipy.special import betaln
from scipy.stats import beta, betabinom, binom, ks_2samp, mannwhitneyu
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

import jaxunc as ju
from benchmarks.studies.doubt import doubts, jobs
from benchmarks.studies.regression.problems import Rows
from jaxunc.estimators import UncertainForestRegressor

N_TREES, LEAF, MOST, UNLIKE, LARGE = 100, 5, 1000, 0.2, 0.2
DISTANCES, N_GROUPS = (1, 2, 4, 8), 5
"""Standard deviations that rows are moved by; groups of rows, of which one is left out."""
SIZES, N_COMMITTEE, LABELLED_LEAF = (30, 75, 150, 300), 50, 3
"""Labelled rows at which a forest is grown, its trees, and the least rows of its leaves."""
COVERAGE, ALPHA, LOOKS, WORST, SLACK, N_SIMULATED = 0.9, 0.05, (50, 100, 200, 400, 800), 0.5, 0.25, 400
"""Coverage, error, rows at which tests look, the largest share of misses that the e-process bets on, CUSUM's slack."""
SHIFT, SCALE = 0.5, 1.5
"""Of targets, in standard deviations of the residuals; of residuals."""
STRATEGIES = ("random", "epistemic", "std", "distance")
DRIFTS = ("none", "mix", "mean", "noise")
TESTS = (
    "e-process", "beta-binomial", "binomial, each look alone", "KS of residuals", "CUSUM of residuals", "classifier",
)  # fmt: skip


def doubts_of(model: Any, known: np.ndarray, X: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """All doubts of rows, by a model and the rows that it knows."""
    moments, ends = model.predict_uncertainty(X), model.predict_interval(X, COVERAGE)
    found = {"epistemic": moments.epistemic, "aleatoric": moments.aleatoric, "std": moments.std}
    found["interval width"] = ends[:, 1] - ends[:, 0]
    found["outside share"] = ju.outside_share(model.estimator_, X, rows=known)
    beside = doubts.beside(known, X, np.zeros(X.shape[1], bool), seed)
    return {name.rstrip("/"): np.asarray(values, float) for name, values in (found | beside).items()}


def run_rows(data: Rows, repeat: int) -> dict[str, Any]:
    """AUROC of each doubt at each problem, and how much the median doubt grows with the distance of rows."""
    rng = np.random.default_rng(repeat)
    known, new = np.array_split(rng.permutation(len(data.y))[:MOST], 2)
    X, asked, found = data.X[known], data.X[new], {}
    model = fitted(X, data.y[known], repeat)
    every = jobs.Rows(asked, data.y[new], np.zeros(X.shape[1], bool))
    rows, problems = jobs.with_unlike(every, X, model.estimator_.feature_importances_, rng)
    moved = [asked + far * X.std(axis=0) * rng.choice([-1, 1], asked.shape) for far in DISTANCES]
    values = doubts_of(model, X, np.concatenate([rows, *moved]).astype(np.float32), repeat)
    error = np.abs(data.y[new] - model.predict(asked))
    problems |= {"large errors": jobs.Problem(np.arange(len(new)), error > np.quantile(error, 1 - LARGE))}
    for name, (positions, positive) in problems.items():
        found[name] = {doubt: area(each[positions], positive) for doubt, each in values.items()}
    found["a group"] = _without_group(data, known, new, repeat)
    n, parts = len(new), {doubt: np.split(each[len(rows) :], len(DISTANCES)) for doubt, each in values.items()}
    # What is 0 of half of the usual rows has no ratio to it.
    ratios = {doubt: [ratio(part, values[doubt][:n]) for part in of] for doubt, of in parts.items()}
    return {"AUROC": found, "growth": ratios}


def fitted(X: np.ndarray, y: np.ndarray, seed: int, **settings: Any) -> UncertainForestRegressor:
    forest = RandomForestRegressor(N_TREES, min_samples_leaf=LEAF, random_state=seed)
    return UncertainForestRegressor(forest, random_state=seed, **settings).fit(X, y)


def area(doubt: np.ndarray, positive: np.ndarray) -> float:
    return round(float(roc_auc_score(positive, doubt)), 4)


def ratio(part: np.ndarray, usual: np.ndarray) -> float:
    """The median as a multiple of that of usual rows."""
    return round(float(np.median(part) / (np.median(usual) or np.nan)), 4)


def _without_group(data: Rows, known: np.ndarray, new: np.ndarray, repeat: int) -> dict[str, float]:
    """AUROC of telling rows of a group that no training row is of: the second largest of five by k-means."""
    numbers = doubts.as_numbers(data.X[known], data.X, np.zeros(data.X.shape[1], bool))
    group = KMeans(N_GROUPS, n_init=1, random_state=repeat).fit(numbers[known]).predict(numbers)
    absent = np.argsort(-np.bincount(group[known]), kind="stable")[1]
    left = known[group[known] != absent]
    model = fitted(data.X[left], data.y[left], repeat)
    values = doubts_of(model, data.X[left], data.X[new], repeat)
    return {doubt: area(each, group[new] == absent) for doubt, each in values.items()}


class Committee:
    """A small forest of labelled rows, with the moments of its trees and intervals by residuals out of bag.

    They are those of `UncertainForestRegressor`, in NumPy: each size would compile its own programs.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, seed: int):
        self.model = RandomForestRegressor(N_COMMITTEE, min_samples_leaf=LABELLED_LEAF, random_state=seed).fit(X, y)
        is_out = np.ones((len(y), N_COMMITTEE), bool)
        for tree, rows in enumerate(self.model.estimators_samples_):
            is_out[rows, tree] = False
        mean, epistemic, aleatoric = self.moments(X, is_out)
        self.least = 1e-3 * float(np.std(y)) + 1e-12
        kept = is_out.any(axis=1)
        z = ((y - mean) / np.maximum(np.sqrt(epistemic + aleatoric), self.least))[kept]
        self.ends = np.quantile(z, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])

    def moments(self, X: np.ndarray, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, epistemic and aleatoric variance of rows, by the trees in a mask."""
        leaves = self.model.apply(X)
        reached = [(one.tree_, leaves[:, t]) for t, one in enumerate(self.model.estimators_)]
        means = np.stack([tree.value[at, 0, 0] for tree, at in reached], axis=1)
        variances = np.stack([np.maximum(tree.impurity[at], 0) for tree, at in reached], axis=1)  # of rounding
        weight = np.ones(leaves.shape) if mask is None else mask.astype(float)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1)
        mean = (weight * means).sum(axis=1)
        return mean, (weight * (means - mean[:, None]) ** 2).sum(axis=1), (weight * variances).sum(axis=1)

    def scores(self, X: np.ndarray, y: np.ndarray) -> list[float]:
        """RMSE and the mean interval score of 90 % intervals, in standard deviations of the target."""
        mean, epistemic, aleatoric = self.moments(X)
        s = np.maximum(np.sqrt(epistemic + aleatoric), self.least)
        ends = mean[:, None] + s[:, None] * self.ends
        below, above = np.maximum(ends[:, 0] - y, 0), np.maximum(y - ends[:, 1], 0)
        score = np.mean(ends[:, 1] - ends[:, 0] + 2 / (1 - COVERAGE) * (below + above))
        return [round(float(value / np.std(y)), 4) for value in (np.sqrt(np.mean((y - mean) ** 2)), score)]


def run_labels(data: Rows, repeat: int) -> dict[str, Any]:
    """{strategy: [[RMSE, interval score] at each size]}: half of the rows can be labelled, half are asked."""
    rng = np.random.default_rng(100 + repeat)
    pool, new = np.array_split(rng.permutation(len(data.y))[:MOST], 2)
    X, y = data.X[pool], data.y[pool]
    numbers = doubts.as_numbers(X, X, np.zeros(X.shape[1], bool))
    first = Committee(X[: SIZES[0]], y[: SIZES[0]], repeat)
    found = {}
    for strategy in STRATEGIES:
        labelled, committee = np.arange(SIZES[0]), first
        found[strategy] = [first.scores(data.X[new], data.y[new])]
        for size in (min(size, len(pool)) for size in SIZES[1:]):
            left = np.setdiff1d(np.arange(len(pool)), labelled)
            doubt = _wanted(strategy, committee, X[left], numbers[left], numbers[labelled], rng)
            labelled = np.concatenate([labelled, left[np.argsort(-doubt, kind="stable")[: size - len(labelled)]]])
            committee = Committee(X[labelled], y[labelled], repeat)
            found[strategy].append(committee.scores(data.X[new], data.y[new]))
    return {"curves": found}


def _wanted(
    strategy: str, committee: Committee, X: np.ndarray, numbers: np.ndarray, labelled: np.ndarray, rng: Any
) -> np.ndarray:
    """What a strategy makes of rows without labels: more is labelled first."""
    if strategy == "random":
        return rng.random(len(X))
    if strategy == "distance":
        return NearestNeighbors(n_neighbors=1).fit(labelled).kneighbors(numbers)[0][:, 0]
    _, epistemic, aleatoric = committee.moments(X)
    return epistemic if strategy == "epistemic" else epistemic + aleatoric


def run_drift(data: Rows, repeat: int) -> dict[str, Any]:
    """{drift: {test: rows until it tells, or None}}, and of each drift the rows of its stream and their coverage."""
    rng = np.random.default_rng(200 + repeat)
    known, new = np.array_split(rng.permutation(len(data.y)), 2)
    X, asked, target = data.X[known], data.X[new], data.y[new]
    model = fitted(X, data.y[known], repeat, law="conformal", counts="held_out", held_out_size=0.5)
    ends, law, mean = model.predict_interval(asked, COVERAGE), model.law_, model.predict(asked)
    deviation = law.deviation(model.moments_.answer(asked))
    column = asked[:, int(np.argmax(model.estimator_.feature_importances_))]
    drifted = {"mean": target + SHIFT * np.std(target - mean), "noise": mean + SCALE * (target - mean)}
    every, mix = np.arange(len(new)), np.flatnonzero(column >= np.median(column))
    usual, altered = (_by_classifier(X, asked[rows], repeat) for rows in (every, mix))
    found: dict[str, Any] = {"told": {}, "rows": {}, "coverage": {}}
    for drift in DRIFTS:
        y = drifted.get(drift, target)
        rows, looks = (mix, altered) if drift == "mix" else (every, usual)
        inside = ((ends[:, 0] <= y) & (y <= ends[:, 1]))[rows]
        found["told"][drift] = told(~inside, ((y - mean) / deviation)[rows], law.residuals, looks, rng)
        found["rows"][drift], found["coverage"][drift] = len(rows), round(float(inside.mean()), 4)
    return found


def ranks_held(n: int) -> int:
    """How many of the n + 1 places between ranked residuals a conformal interval holds."""
    return int(np.ceil(round((1 + COVERAGE) / 2 * (n + 1), 9)) - np.floor(round((1 - COVERAGE) / 2 * (n + 1), 9)))


def log_evidence(misses: np.ndarray, n_ranked: int) -> np.ndarray:
    """Log of the e-process after each row, against coverage that ranks of so many residuals promise."""
    n, k, held = np.arange(1, len(misses) + 1), np.cumsum(misses), ranks_held(n_ranked)
    least = 1 - COVERAGE
    bet = betaln(k + 1, n - k + 1) - np.log(WORST - least)
    with np.errstate(divide="ignore"):
        bet += np.log(beta.cdf(WORST, k + 1, n - k + 1) - beta.cdf(least, k + 1, n - k + 1))
    missed = n_ranked + 1 - held
    return bet - betaln(missed + k, held + n - k) + betaln(missed, held)


def told(
    misses: np.ndarray, z: np.ndarray, ranked: np.ndarray, by_classifier: dict[int, float], rng: np.random.Generator
) -> dict[str, int | None]:
    """{test: rows until it tells}; z are standardised residuals, those of the calibration ranked."""
    held, looks = ranks_held(len(ranked)), [n for n in LOOKS if n <= len(misses)]
    inside = {n: n - int(misses[:n].sum()) for n in looks}
    limit = ALPHA / len(LOOKS)
    p_values = {
        "beta-binomial": lambda n: betabinom.cdf(inside[n], n, held, len(ranked) + 1 - held),
        "binomial, each look alone": lambda n: binom.cdf(inside[n], n, COVERAGE) * limit / ALPHA,
        "KS of residuals": lambda n: ks_2samp(z[:n], ranked).pvalue,
        "classifier": by_classifier.__getitem__,
    }
    found = {name: next((n for n in looks if p(n) <= limit), None) for name, p in p_values.items()}
    found["e-process"] = _first(log_evidence(misses, len(ranked)) >= np.log(1 / ALPHA))
    standard = lambda values: (values - ranked.mean()) / ranked.std()
    simulated = cusum(rng.choice(standard(ranked), (N_SIMULATED, LOOKS[-1])))
    found["CUSUM of residuals"] = _first(cusum(standard(z)[None])[0] > np.quantile(simulated.max(axis=1), 1 - ALPHA))
    return {name: found[name] for name in TESTS}


def cusum(z: np.ndarray) -> np.ndarray:
    """The larger of the two sums, upwards and downwards, after each row of streams ``[streams rows]``."""
    up, down, found = np.zeros(len(z)), np.zeros(len(z)), np.empty(z.shape)
    for row in range(z.shape[1]):
        up, down = np.maximum(up + z[:, row] - SLACK, 0), np.maximum(down - z[:, row] - SLACK, 0)
        found[:, row] = np.maximum(up, down)
    return found


def _first(alarm: np.ndarray) -> int | None:
    return int(np.argmax(alarm)) + 1 if alarm.any() else None


def _by_classifier(X: np.ndarray, asked: np.ndarray, seed: int) -> dict[int, float]:
    """The p-value at each look of rows that a forest tells, out of bag, from those of the fit."""
    found = {}
    for n in (n for n in LOOKS if n <= len(asked)):
        rows, is_new = np.concatenate([X, asked[:n]]), np.arange(len(X) + n) >= len(X)
        forest = RandomForestClassifier(
            N_COMMITTEE, min_samples_leaf=LEAF, oob_score=True, class_weight="balanced", random_state=seed
        )
        score = forest.fit(rows, is_new).oob_decision_function_[:, 1]
        found[n] = float(mannwhitneyu(score[is_new], score[~is_new], alternative="greater").pvalue)
    return found
