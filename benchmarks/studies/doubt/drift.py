"""Drift: windows of new rows whose mix or whose relation changed, and what tells them from windows as ever."""

import numpy as np
from scipy import stats

from benchmarks.studies.doubt.doubts import as_numbers, distance, kinds, less
from benchmarks.studies.doubt.jobs import Found, Rows, measures
from benchmarks.studies.doubt.labelling import Grown, grow

SHARES = (0.4, 0.2)
"""Of the rows: those that train, and those that windows are compared with; windows are drawn from the rest."""
N_WINDOWS, WINDOW = 3, 100
WEIGHT = 3
"""How much more often a row of the upper half of a column, or of every second class, is drawn."""
FLIPPED = 0.3
"""The share of the labels of the upper half of a column that are changed."""
LEVEL, COVERED = 0.05, 0.9
DOMAIN_TREES, DOMAIN_LEAF = 50, 5
WATCHED = ("AUROC", "alarms", "false alarms")
DRIFTS = ("mix, a column", "mix, a class", "relation, a region")


def run_drift(data: Rows, repeat: int) -> Found:
    """{drift: {detector: `WATCHED`}}: a window's p value is what it is told by."""
    rng = np.random.default_rng(repeat)
    order, n_classes = rng.permutation(len(data.y)), int(data.y.max()) + 1
    ends = np.cumsum([round(share * len(order)) for share in SHARES])
    train, reference, rest = np.split(order, ends)
    grown = grow(data.X[train], data.y[train], repeat)
    importances = np.mean([tree.feature_importances_ for tree in grown.trees], axis=0)
    column = data.X[:, int(np.argmax(importances))]
    upper = np.zeros(len(order), bool)
    upper[rest[np.argsort(column[rest], kind="stable")[len(rest) // 2 :]]] = True
    known, p = doubts_of(data, grown, train, n_classes)
    frequent = np.argsort(-np.bincount(data.y[train], minlength=n_classes), kind="stable")
    often = {"as ever": np.zeros(len(rest), bool), DRIFTS[0]: upper[rest]}
    often[DRIFTS[1]] = np.isin(data.y[rest], frequent[1::2])
    windows = {name: [] for name in ("as ever", *DRIFTS)}
    for _ in range(N_WINDOWS):
        for name, is_often in often.items():
            weights = np.where(is_often, WEIGHT, 1.0)
            rows = rng.choice(rest, WINDOW, replace=False, p=weights / weights.sum())
            windows[name].append((rows, data.y[rows]))
            if name == "as ever":
                changed = upper[rows] & (rng.random(WINDOW) < FLIPPED)
                labels = (data.y[rows] + changed * rng.integers(1, n_classes, WINDOW)) % n_classes
                windows[DRIFTS[2]].append((rows, labels))
    told = lambda name, window: detect(data, known, p, reference, *window, repeat, name)
    values = {name: [told(name, window) for window in each] for name, each in windows.items()}
    found = {}
    for name in DRIFTS:
        found[name] = {}
        for detector in values[name][0]:
            usual, altered = (np.array([each[detector] for each in values[of]]) for of in ("as ever", name))
            area = measures(-np.log(np.maximum(np.r_[usual, altered], 1e-300)), np.repeat([False, True], N_WINDOWS))[0]
            found[name][detector] = [area, *(round(float((each <= LEVEL).mean()), 4) for each in (altered, usual))]
    return found


def doubts_of(data: Rows, grown: Grown, train: np.ndarray, n_classes: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """All doubts of all rows that know no label, and the forest's probabilities ``[rows classes]``."""
    leaves, y = grown.apply(data.X), data.y[train]
    p, inside = kinds(grown.reached(y, n_classes, leaves, grown.times), support=False)
    known = {"1 - p//": 1 - p.max(axis=1), "credal width/in-bag/": inside["credal width"]}
    whole = kinds(grown.reached(y, n_classes, leaves, np.ones_like(grown.times)), support=False)[1]
    known["epistemic/train/"] = whole["epistemic"]
    known["outside share//"] = grown.outside_share(data.X, data.X[train])
    near, all_rows = (as_numbers(data.X[train], rows, data.nominal) for rows in (data.X[train], data.X))
    return known | {"distance//": distance(near, all_rows)}, p


def detect(
    data: Rows, known: dict[str, np.ndarray], p: np.ndarray, reference: np.ndarray, rows: np.ndarray,
    labels: np.ndarray, seed: int, kind: str,
) -> dict[str, float]:  # fmt: skip
    """The p value of each detector for a window; where only labels changed, of those alone that see them."""
    before, now = data.X[reference], data.X[rows]
    found = {}
    if kind != DRIFTS[2]:
        by_column = np.atleast_1d(stats.ks_2samp(before, now, method="asymp", axis=0).pvalue)
        found["KS with Holm//"] = min(1.0, len(by_column) * float(by_column.min()))
        found["domain classifier//"] = domain(before, now, seed)
        for name, doubt in known.items():
            found[f"mean {name}"] = welch(doubt[reference], doubt[rows])
    old = data.y[reference]
    if kind in ("as ever", DRIFTS[2]):
        found["domain classifier, with labels//"] = domain(np.c_[before, old], np.c_[now, labels], seed)
    answers = p.argmax(axis=1)
    wrong = [answers[reference] != old, answers[rows] != labels]
    found["error rate//"] = stats.fisher_exact([[each.sum(), len(each) - each.sum()] for each in wrong])[1]
    doubt, new = less(p[reference], old), less(p[rows], labels)
    found["mean 1 - p of the label//"] = welch(doubt, new)
    limit = np.quantile(doubt, min(1, COVERED * (1 + 1 / len(doubt))), method="higher")
    found["coverage//"] = stats.binomtest(int((new <= limit).sum()), len(new), COVERED).pvalue
    return {name: float(value) for name, value in found.items()}


def welch(before: np.ndarray, now: np.ndarray) -> float:
    """The p value of equal means; 1 where nothing varies."""
    if np.ptp(np.r_[before, now]) == 0:
        return 1.0
    return float(stats.ttest_ind(before, now, equal_var=False).pvalue)


def domain(before: np.ndarray, now: np.ndarray, seed: int) -> float:
    """Whether trees tell out of bag which rows are new: the p value of Mann and Whitney's test."""
    X = np.concatenate([before, now]).astype(np.float32)
    y = np.repeat([0, 1], [len(before), len(now)])
    grown = grow(X, y, seed, DOMAIN_TREES, DOMAIN_LEAF)
    counts = grown.reached(y, 2, grown.leaves, grown.times)
    p = np.average(counts[:, :, 1] / counts.sum(axis=2), axis=1, weights=grown.times == 0)
    return float(stats.mannwhitneyu(p[y == 1], p[y == 0], alternative="greater").pvalue)
