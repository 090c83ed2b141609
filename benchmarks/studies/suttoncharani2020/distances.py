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

from collections.abc import Mapping, Sequence

import numpy as np

ORDERS = {"p = 1, midpoints": 1.0, "p = 2": 2.0, "p = ∞, upper ends": np.inf}
LOSSES = {"log_loss": "log loss", "brier": "Brier score"}
Records = Mapping[str, Sequence[Mapping]]


def to_perfect(ends: np.ndarray, p: float) -> np.ndarray:
    """``[...]`` the mean over the folds of d_p of losses ``[... folds 2]`` to [0, 0]."""
    ends = np.abs(ends)
    d = ends.max(axis=-1) if np.isinf(p) else np.mean(ends**p, axis=-1) ** (1 / p)
    return d.mean(axis=-1)


def of_smoothing(studied: Records, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of CART's trees ``[cases folds 2]``: the range after correction; the points before it and after smoothing."""
    place = list(LOSSES).index(loss)
    found: tuple[list, list, list] = ([], [], [])
    for records in studied.values():
        for tree in records[0]["trees"]:
            of_tree = [record["trees"][tree] for record in records]
            found[0].append([one["intervals"][loss] for one in of_tree])
            for kept, way in zip(found[1:], ("raw", "eb"), strict=True):
                kept.append([[one[way][place]] * 2 for one in of_tree])
    return np.array(found[0]), np.array(found[1]), np.array(found[2])


def of_beliefs(opened: Records, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """The ranges ``[cases folds 2]`` of the likelihood's belief and of the paper's, CART's trees."""
    found: tuple[list, list] = ([], [])
    for records in opened.values():
        for tree in records[0]["growths"]["raw"]:
            for kept, belief in zip(found, ("likelihood", "correction"), strict=True):
                kept.append([record["growths"]["raw"][tree][belief][loss] for record in records])
    return np.array(found[0]), np.array(found[1])


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
    lines, differ = [], np.zeros(2, int)
    n, points = 0, {}
    for loss, title in LOSSES.items():
        after, before, smoothed = of_smoothing(studied, loss)
        n = len(after)
        points[loss] = wins(smoothed, before)["p = 1, midpoints"]
        pairs = {"range after correction over frequencies": (after, before), "likelihood's belief over the paper's": ()}
        pairs["likelihood's belief over the paper's"] = of_beliefs(opened, loss)
        for name, pair in pairs.items():
            found = wins(*pair)
            by_distance = [f"{found[order]}/{len(pair[0])}" for order in ORDERS]
            lines.append([name, title, f"{found['overlap']}, of {found['apart']} apart", *by_distance])
            order = {of: to_perfect(pair[0], p) < to_perfect(pair[1], p) for of, p in ORDERS.items()}
            midpoints, *others = order.values()
            differ += [int((of != midpoints).sum()) for of in others]
    of_all = sum(int(line[-1].split("/")[1]) for line in lines)
    parts = [
        "## Distances between metrics that are ranges",
        "Its reference 11, beyond simple intervals: the folds' ranges of a loss as a random set, and its distance to "
        "the perfect loss, the mean of ((lower^p + upper^p)/2)^(1/p). p = 1 is the midpoint, p = ∞ the upper end "
        "(Hausdorff's distance); see `benchmarks/studies/suttoncharani2020/distances.py`. Cases are the six sets times "
        "the six trees.",
        f"* **It decides nothing that the ends do not say.** Over {of_all} comparisons p = 2 orders otherwise than the "
        f"midpoints {differ[0]} times, p = ∞ {differ[1]} times: the larger p, the more a wide range costs, whatever "
        "it holds. Between points all of them are the plain difference.",
        "* **About smoothing ranges decide by construction.** A leaf's interval is centred at its frequency, so by "
        "convexity its best and its worst loss have a mean no better than the frequency's. Only clipping, at 0 and 1 "
        "and of the log loss, undoes that. As points, smoothed trees are better than raw ones in "
        f"{points['log_loss']} of {n} cases by log loss and in {points['brier']} by Brier score.",
        "* **Jousselme's own distance is of no use between ranges.** It weighs pairs of intervals by the share that "
        "they have in common. A point has no share in any range, so every raw tree is as far from every range as "
        "can be.",
        _table(["comparison", "loss", "better where apart", *ORDERS], lines),
    ]
    return "\n\n".join(parts)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *lines])
