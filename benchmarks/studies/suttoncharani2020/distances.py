"""The section of the page of Sutton-Charani 2020 about distances between metrics that are intervals, from its cells.

Where predictions are intervals, so is a metric: [lower, upper] in each fold. Of F folds that makes a random set, mass
1/F on each interval. Distances are Minkowski's, a family of the paper's reference 11 (Jousselme and Maupin 2012), here
between the ends of two intervals a and b:

    d_p(a, b) = ((|a1 - b1|^p + |a2 - b2|^p) / 2)^(1/p),   d_∞(a, b) = max(|a1 - b1|, |a2 - b2|).

The last is Hausdorff's distance between the intervals. A distance has no sign, so that it orders models only by a point
to measure from: the perfect loss, [0, 0]. That point is one sure interval, so the least cost of moving all mass there
(Wasserstein's distance of the two random sets) is the mean of d_p over the folds. It is the midpoint for p = 1, and the
upper end for p = ∞; p = 2 is the root of the midpoint's square and the half-width's.
"""

import numpy as np

from benchmarks.pages import fill, table
from benchmarks.studies.suttoncharani2020.page import TEMPLATE, Records

ORDERS = {"p = 1, midpoints": 1.0, "p = 2": 2.0, "p = ∞, upper ends": np.inf}
LOSSES = {"log_loss": "log loss", "brier": "Brier score"}


def to_perfect(ends: np.ndarray, p: float) -> np.ndarray:
    """``[...]`` the mean over the folds of d_p of losses ``[... folds 2]`` to [0, 0]."""
    ends = np.abs(ends)
    d = ends.max(axis=-1) if np.isinf(p) else np.mean(ends**p, axis=-1) ** (1 / p)
    return d.mean(axis=-1)


def of_smoothing(studied: Records, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of CART's trees ``[cases folds 2]``: the range after correction; the points before it and after smoothing."""
    place = list(LOSSES).index(loss)
    cases = [
        [record["trees"][tree] for record in records] for records in studied.values() for tree in records[0]["trees"]
    ]
    ranges = [[tree["intervals"][loss] for tree in case] for case in cases]
    points = ([[[tree[way][place]] * 2 for tree in case] for case in cases] for way in ("raw", "eb"))
    return np.array(ranges), *map(np.array, points)


def of_beliefs(opened: Records, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """The ranges ``[cases folds 2]`` of the likelihood's belief and of the paper's, CART's trees."""
    cart = [[record["growths"]["raw"] for record in records] for records in opened.values()]
    ranges = lambda belief: [[trees[name][belief][loss] for trees in folds] for folds in cart for name in folds[0]]
    return np.array(ranges("likelihood")), np.array(ranges("correction"))


def wins(one: np.ndarray, other: np.ndarray) -> dict[str, int]:
    """How often the first is better: by mean intervals that are apart, and by each distance; and how often apart."""
    a, b = one.mean(axis=1), other.mean(axis=1)
    below, above = a[:, 1] < b[:, 0], b[:, 1] < a[:, 0]
    found = {"apart": int((below | above).sum()), "overlap": int(below.sum())}
    for name, p in ORDERS.items():
        found[name] = int((to_perfect(one, p) < to_perfect(other, p)).sum())
    return found


def section(studied: Records, opened: Records) -> str:
    """The section."""
    lines, differ, points, n, n_compared = [], np.zeros(2, int), {}, 0, 0
    for loss, title in LOSSES.items():
        after, before, smoothed = of_smoothing(studied, loss)
        n, points[loss] = len(after), wins(smoothed, before)["p = 1, midpoints"]
        pairs = {
            "range after correction over frequencies": (after, before),
            "likelihood's belief over the paper's": of_beliefs(opened, loss),
        }
        for name, pair in pairs.items():
            found, n_compared = wins(*pair), n_compared + len(pair[0])
            by_distance = [f"{found[order]}/{len(pair[0])}" for order in ORDERS]
            lines.append([name, title, f"{found['overlap']}, of {found['apart']} apart", *by_distance])
            midpoints, *others = (to_perfect(pair[0], p) < to_perfect(pair[1], p) for p in ORDERS.values())
            differ += [int((of != midpoints).sum()) for of in others]
    counts = {"differ": differ, "points": points, "n": n, "n_compared": n_compared}
    head = ["comparison", "loss", "better where apart", *ORDERS]
    return fill(TEMPLATE, "distances", **counts, table=table(head, lines))
