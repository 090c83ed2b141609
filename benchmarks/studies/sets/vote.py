"""The learned vote, for the study of sets: a cautious forest whose s and whose trees' masses are learned by utility.

`jaxunc.LearnedVote` compares classes as the cautious forest does and weighs a tree by the size N of its leaf,
N^α N/(N + κ). It learns from out-of-bag rows, from the whole s of the cautious forest beside it on, which was chosen on
the same rows for the same utility. ``page.md`` has the criteria.

The steps from the one to the other are of the same forests: ``slope`` is the rule with the chosen s, equal masses and
the slope, nothing learned; ``slope with learned s`` has its masses held equal while s is learned by the same call. The
learned vote with slope adds the masses.
"""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.studies.sets.likelihood import chosen
from benchmarks.studies.sets.methods import N_TREES, Sets, nondominated_sets
from jaxunc.combiners import columns_of
from jaxunc.counting import oob_mask

STRENGTHS = (1, 2, 3, 4, 5, 7, 10, 15, 20)
"""The s of the cautious forest among which is chosen; of whole counts only whole ones differ."""
COUNTS = ("in-bag", "oob")
UTILITIES = (65, 80)
KINDS = ("cautious", "learned vote", "learned vote with slope")
VOTE_NAMES = tuple(f"{kind}, {counts}, for u{utility}" for counts in COUNTS for utility in UTILITIES for kind in KINDS)
"""The methods of the comparison that was planned."""
STEP_KINDS = ("slope", "slope with learned s")
STEP_NAMES = tuple(f"{kind}, {counts}, for u{u}" for counts in COUNTS for u in UTILITIES for kind in STEP_KINDS)
"""The steps between a cautious forest and its learned vote with slope."""
MASSES = ("size_power", "half_size")
"""The numbers of masses, held where they are equal."""


class Learned(NamedTuple):
    """What was fitted."""

    sets: dict[str, Sets]
    numbers: dict[str, list[float]]
    """[s, α, κ] of each method; α = κ = 0 are equal masses."""
    learning: dict[str, float]
    """Seconds that choosing or learning took, with compilation; of both forms of the learned vote together."""


def vote_methods(X: np.ndarray, y: np.ndarray, seed: int) -> Learned:
    """The methods of the comparison that was planned, fitted on the forest of `methods`."""
    found = Learned({}, {}, {})
    for counts, rows, forest in _counted(X, y, seed):
        for utility in UTILITIES:
            named = [f"{kind}, {counts}, for u{utility}" for kind in KINDS]
            start = time.perf_counter()
            s = chosen_s(rows, utility)
            found.learning[named[0]] = time.perf_counter() - start
            start = time.perf_counter()
            vote = learned(rows, s, utility)
            found.learning[named[1]] = found.learning[named[2]] = time.perf_counter() - start
            rules = (ju.GeneralizedVote(s), vote.hardened(), vote)
            numbers = [float(vote.s), float(vote.size_power), float(vote.half_size)]
            found.numbers.update(zip(named, ([float(s), 0.0, 0.0], numbers, numbers), strict=True))
            found.sets.update((name, nondominated_sets(forest, rule)) for name, rule in zip(named, rules, strict=True))
    return found


def step_methods(X: np.ndarray, y: np.ndarray, seed: int) -> Learned:
    """The steps, fitted on the same forest: the slope alone, and with it s learned while masses stay equal."""
    found = Learned({}, {}, {})
    for counts, rows, forest in _counted(X, y, seed):
        for utility in UTILITIES:
            start = time.perf_counter()
            s = chosen_s(rows, utility)
            chosen_at = time.perf_counter()
            rules = (sloped(s), learned(rows, s, utility, freeze=MASSES))
            seconds = (chosen_at - start, time.perf_counter() - chosen_at)
            for kind, rule, taken in zip(STEP_KINDS, rules, seconds, strict=True):
                name = f"{kind}, {counts}, for u{utility}"
                found.sets[name], found.learning[name] = nondominated_sets(forest, rule), taken
                found.numbers[name] = [float(rule.s), float(rule.size_power), float(rule.half_size)]
    return found


def _counted(X: np.ndarray, y: np.ndarray, seed: int) -> Iterator[tuple[str, Any, ju.Forest]]:
    """Of each kind of counts its name, the rows that votes learn from, and the forest that they answer from."""
    model = RandomForestClassifier(N_TREES, random_state=seed).fit(X, y)
    both = ju.learning.oob_dataset(model, X, y, source="oob", counts="both")
    inbag = ju.from_sklearn(model)
    forests = {"in-bag": inbag, "oob": ju.count_leaves(inbag, X, y, tree_mask=oob_mask(model, len(y), X=X, y=y))}
    for counts, place in zip(COUNTS, both.count_sets, strict=True):
        yield counts, reading(both, place), forests[counts]


def reading(rows: Any, name: str) -> Any:
    """The rows with one of their countings alone, as the forest's own: what votes read."""
    table = columns_of(rows.histograms.count_table, rows.count_sets, (name,))
    return dataclasses.replace(rows, histograms=rows.histograms._replace(count_table=table), count_sets=("own",))


def chosen_s(rows: Any, utility: int) -> int:
    """The s of a cautious forest that is best by the utility on these rows; the smallest of equals."""
    sets = [np.asarray(ju.decisions.nondominated(rows.answer(ju.GeneralizedVote(s)))) for s in STRENGTHS]
    return STRENGTHS[chosen(sets, np.asarray(rows.y)[: rows.n], f"by u{utility}")]


def sloped(s: float) -> ju.LearnedVote:
    """The cautious forest with whole s, its comparisons with a slope between s and the next smaller whole number."""
    return ju.LearnedVote(s - 0.5)


def learned(rows: Any, s: float, utility: Any, freeze: tuple[str, ...] = ()) -> ju.LearnedVote:
    """The vote that learns from `sloped` on, but for what ``freeze`` names."""
    loss = ju.learning.UtilityLoss.of(len(rows.class_labels), utility)
    return ju.learning.fit_combiner(sloped(s), rows, loss=loss, freeze=freeze).combiner
