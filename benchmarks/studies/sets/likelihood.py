"""Sets from relative likelihood, for the study of sets: of leaves, of decalibrated probabilities, of plausible forests.

Every kind has one number, alpha or, for leaves' imprecise Dirichlet intervals beside them, s. It is .15, as 95 %
intervals of one number have it, or chosen on the training rows, each by trees that were grown without it: for the
highest u65, the highest u80, or the smallest sets that hold 90 % of every class.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.studies.sets.intervals import decalibrate, dirichlet_lower, dominating, profile_lower
from benchmarks.studies.sets.methods import N_TREES, PROMISE, WORTH, Sets, answer_of
from jaxunc.counting import oob_mask

ALPHAS = (0.99, 0.95, 0.8, 0.6, 0.4, 0.15, 0.05, 0.01, 0.001)
"""Of a leaf's interval, from narrow to wide."""
STRENGTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
FALLS = (0.0, 0.5, -float(np.log(0.15)), 5.0, 12.5, 30.0, 80.0, 200.0, 500.0, 2000.0)
"""How many nats below the greatest log likelihood of all rows: log alpha, with the sign turned."""
FIXED = {"likelihood": ALPHAS.index(0.15), "decalibrated": 2, "plausible forests": 2}
N_GROUPS = 10
CHOICES = ("alpha = .15", "by u65", "by u80", "by class")
KINDS = (
    "intervals, in-bag", "intervals, oob", "likelihood, in-bag", "likelihood, oob", "decalibrated, mean",
    "decalibrated, learned", "plausible forests",
)  # fmt: skip
NAMES = tuple(f"{kind}, {how}" for kind in KINDS for how in CHOICES if "intervals" not in kind or how in CHOICES[1:])


class Kind(NamedTuple):
    """A way to sets, for each of its numbers."""

    own: list[np.ndarray]
    """``[rows classes]`` for each number, narrow to wide: sets of training rows that do not know their labels."""
    sets: Callable[[int], Sets]
    """The number's place to the sets of new rows."""


class Grown(NamedTuple):
    """A random forest as arrays, and its training rows that some tree was grown without."""

    model: RandomForestClassifier
    start: np.ndarray
    """``[trees]``: the first node of each."""
    counts: dict[str, np.ndarray]
    """``[nodes classes]``, in-bag and out-of-bag, of all trees one behind the other."""
    y: np.ndarray
    own: dict[str, np.ndarray]
    """``[rows trees classes]``: the counts that each of these rows meets, its own label taken away."""
    unseen: np.ndarray
    """``[rows trees]``: whether the tree was grown without the row."""

    def at(self, X: np.ndarray) -> np.ndarray:
        """``[rows trees]``: the nodes that new rows reach."""
        return self.model.apply(X) + self.start


def likelihood_methods(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[dict[str, Sets], dict[str, float]]:
    """All methods, fitted on the forest of `methods`; and the number of each."""
    model = RandomForestClassifier(N_TREES, random_state=seed).fit(X, y)
    grown = as_arrays(model, X, y)
    rows = ju.learning.oob_dataset(model, X, y, source="oob", counts="both")
    prior = np.asarray(rows.forest.prior)
    pool = ju.learning.fit_combiner(ju.LearnedPool(prior, reads=rows.count_sets), rows).combiner
    kinds: dict[str, Kind] = {}
    for counts in grown.counts:
        kinds[f"intervals, {counts}"] = _of_leaves(grown, counts, dirichlet_lower, STRENGTHS)
        kinds[f"likelihood, {counts}"] = _of_leaves(grown, counts, profile_lower, ALPHAS)
    shares = _shares(grown.counts["in-bag"])
    answers = {
        "mean": (_mean(_shares(grown.own["in-bag"]), grown.unseen), lambda X: shares[grown.at(X)].mean(axis=1)),
        "learned": (np.asarray(rows.answer(pool).probability, float)[: rows.n], answer_of(rows.forest, pool)),
    }
    for name, (own, answer) in answers.items():
        kinds[f"decalibrated, {name}"] = _decalibrated(own, grown.y, answer)
    kinds["plausible forests"] = _plausible(grown)
    methods, numbers = {}, {}
    for name in NAMES:
        kind, how = name.rsplit(", ", 1)
        place = FIXED[kind.split(",")[0]] if how == CHOICES[0] else chosen(kinds[kind].own, grown.y, how)
        methods[name] = kinds[kind].sets(place)
        numbers[name] = {"intervals": STRENGTHS, "likelihood": ALPHAS}.get(kind.split(",")[0], FALLS)[place]
    return methods, numbers


def chosen(own: list[np.ndarray], y: np.ndarray, how: str) -> int:
    """The place of the number that is best on the rows; the first, which is the narrowest, of equals."""
    if how == "by class":
        covered = [min(sets[y == c, c].mean() for c in np.unique(y)) >= PROMISE for sets in own]
        return int(np.argmax(covered)) if any(covered) else len(own) - 1
    linear, square = WORTH[how.removeprefix("by ")]
    sizes = [sets.sum(axis=1) for sets in own]
    right = [sets[np.arange(len(y)), y] for sets in own]
    worth = [np.mean(r * (linear / k - square / k**2)) for r, k in zip(right, sizes, strict=True)]
    return int(np.argmax(np.round(worth, 9)))


def as_arrays(model: RandomForestClassifier, X: np.ndarray, y: np.ndarray) -> Grown:
    """The forest, and what its training rows meet in trees that were grown without them."""
    n_classes, mask = len(model.classes_), oob_mask(model, len(y), X=X, y=y)
    start = np.cumsum([0, *(tree.tree_.node_count for tree in model.estimators_)])
    bags = [tree.tree_.value[:, 0, :] * tree.tree_.weighted_n_node_samples[:, None] for tree in model.estimators_]
    at = model.apply(X) + start[:-1]
    outside = np.bincount((at * n_classes + y[:, None])[mask], minlength=start[-1] * n_classes)
    counts = {"in-bag": np.rint(np.concatenate(bags)), "oob": outside.reshape(-1, n_classes).astype(float)}
    kept = mask.any(axis=1)
    at, y, mask = at[kept], y[kept], mask[kept]
    own = {name: of[at] for name, of in counts.items()}
    own["oob"] -= mask[..., None] * np.eye(n_classes)[y][:, None]
    return Grown(model, start[:-1], counts, y, own, mask)


def bounds(counts: np.ndarray, lower_of: Callable[..., np.ndarray], number: float) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of every class; an empty leaf has 0 and 1. Each distinct pair of counts is computed once."""
    total = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    most = total.max() + 1
    both = np.stack([total * most + counts, total * most + total - counts])
    pairs, at = np.unique(both.ravel(), return_inverse=True)
    size, own = np.divmod(pairs, most)
    below = lower_of(own, size - own, number)[at].reshape(both.shape)
    return below[0], 1 - below[1]


def _mean(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.einsum("rtc,rt->rc", values, weight.astype(float)) / np.maximum(weight.sum(axis=1), 1)[:, None]


def _of_leaves(grown: Grown, counts: str, lower_of: Callable[..., np.ndarray], numbers: tuple[float, ...]) -> Kind:
    """Dominance of the means of the leaves' bounds over the trees."""

    def sets(place: int) -> Sets:
        lower, upper = bounds(grown.counts[counts], lower_of, numbers[place])

        def of(X: np.ndarray) -> np.ndarray:
            at = grown.at(X)
            return dominating(lower[at].mean(axis=1), upper[at].mean(axis=1))

        return of

    own = []
    for number in numbers:
        lower, upper = bounds(grown.own[counts], lower_of, number)
        own.append(dominating(_mean(lower, grown.unseen), _mean(upper, grown.unseen)))
    return Kind(own, sets)


def _decalibrated(own: np.ndarray, y: np.ndarray, answer: Callable[[np.ndarray], np.ndarray]) -> Kind:
    fitted = decalibrate(own, y, FALLS)
    sets = lambda place: lambda X: dominating(*fitted(answer(X), place))
    return Kind([dominating(*fitted(own, place)) for place in range(len(FALLS))], sets)


def _plausible(grown: Grown) -> Kind:
    """After Löhr et al. 2025: models whose likelihood is at least alpha times the best one's, and what each predicts.

    The models are the forest and ten parts of it, of ten trees each. A class is in the set if it is the most probable
    one of a model that is kept.
    """
    own, mask, y = members_of(_shares(grown.own["in-bag"], 1), grown.unseen), grown.unseen, grown.y
    # Models are compared on the same rows: those that all of them have not seen.
    seen_by_none = np.all([part.any(axis=1) for part in np.array_split(mask, N_GROUPS, axis=1)], axis=0)
    logs = np.log(own[:, np.arange(len(y)), y][:, seen_by_none]).sum(axis=1)
    kept = [logs.max() - logs <= fall for fall in FALLS]
    shares = _shares(grown.counts["in-bag"], 1)

    def sets(place: int) -> Sets:
        return lambda X: most_probable_of(members_of(shares[grown.at(X)])[kept[place]])

    return Kind([most_probable_of(own[which]) for which in kept], sets)


def _shares(counts: np.ndarray, more: float = 0) -> np.ndarray:
    """Shares of classes, with so many instances more, spread over the classes."""
    return (counts + more / counts.shape[-1]) / np.maximum(counts.sum(axis=-1, keepdims=True) + more, 1)


def members_of(shares: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """``[members rows classes]``: the means over ten parts of the trees, then over all; where a part has none, all."""
    weight = np.ones(shares.shape[:2]) if mask is None else mask.astype(float)
    whole = _mean(shares, weight)
    parts = zip(np.array_split(shares, N_GROUPS, axis=1), np.array_split(weight, N_GROUPS, axis=1), strict=True)
    return np.stack([*(np.where(w.any(axis=1)[:, None], _mean(part, w), whole) for part, w in parts), whole])


def most_probable_of(members: np.ndarray) -> np.ndarray:
    """``[rows classes]``: whether some member finds the class the most probable one."""
    return np.eye(members.shape[-1], dtype=bool)[np.argmax(members, axis=-1)].any(axis=0)
