"""The learned vote, for the study of sets: a cautious forest whose s and whose trees' masses are learned by utility.

`jaxunc.LearnedVote` compares classes as the cautious forest does and weighs a tree by the size N of its leaf,
N^α N/(N + κ). It learns s, α and κ from out-of-bag rows by the softened utility of its sets, u65 or u80, and answers
with exact comparisons (``hardened``), or with the slope that it was learned with. Beside it stands the cautious forest
with equal masses, whose whole s was chosen on the same rows for the same utility. Learning starts from this s.

Criteria, fixed before the first set was run:

* It helps if it is told better than the cautious forest with chosen s, by the utility that both are for, at the same
  counts: more sets won than lost, signed-rank test over the sets, Holm's correction over all comparisons.
* It is recommended if it is also told better than ``u65, learned`` by u65, or than ``u80, learned`` by u80.

Then the steps from the one to the other, of the same forests: ``slope`` is the rule with the chosen s, equal masses and
the slope, nothing learned; ``slope with learned s`` has its masses held equal while s is learned by the same call. The
learned vote with slope adds the masses. Fixed before these were run: a gain is a step's if with it the rule is told
better than without it, by the utility, Holm's correction over all steps.
"""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.studies.sets.likelihood import chosen
from benchmarks.studies.sets.methods import LEVEL, N_TREES, Sets, compared, digits, duel, measures, table, text_rows
from jaxunc import compare
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
            for name, rule in zip(named, rules, strict=True):
                found.sets[name] = _sets(forest, rule)
                found.numbers[name] = [float(s), 0.0, 0.0] if name == named[0] else numbers
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
                found.sets[name], found.learning[name] = _sets(forest, rule), taken
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


def _sets(forest: ju.Forest, rule: Any) -> Sets:
    bound: Any = ju.bind(forest, rule)
    return lambda X: np.asarray(ju.decisions.nondominated(bound(X)))


# The section of the study of sets that asks whether learned votes help a cautious forest.

MEANINGS = {
    "cautious, …": "the cautious forest with equal masses, its s chosen out of bag among 1, 2, 3, 4, 5, 7, 10, 15, 20",
    "learned vote, …": "`LearnedVote`: s and the trees' masses, N^α N/(N + κ) of leaves of size N, learned out of bag "
    "by `UtilityLoss` from the chosen s on; then exact comparisons (`hardened`)",
    "… with slope": "the same, with the slope of comparisons that it was learned with",
    "for u65, for u80": "the utility that s was chosen, or the vote learned, for",
}
LEARNED_VOTES = tuple(name for name in VOTE_NAMES if not name.startswith(KINDS[0] + ","))
BESIDE = ("u65, learned", "u80, learned")
COLUMNS = {
    "coverage": "coverage", "worst_class": "worst class", "u65": "u65", "u80": "u80", "size": "mean size",
    "single": "single", "ms": "ms",
}  # fmt: skip


def vote_section(found: Mapping[Any, dict]) -> list[str]:
    """Of all cells that have learned votes; nothing if none has."""
    cells = vote_cells(found)
    if not cells:
        return []
    frame = table(cells)
    n, n_all = frame["set"].nunique(), len({cell.data for cell in found})
    rows = [[name, *_row(frame, name)] for name in LEARNED_VOTES]
    head = ["", "utility", "told better", "worst class", "mean size", "highest expected utility", "told better"]
    lines = [
        "",
        "## Learned votes",
        "",
        f"{n} of the {n_all} sets, {len(cells)} forests and folds of those above; lines of `learned_vote/`.",
        "",
        *(f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items()),
        "",
        *_verdict(frame),
        "",
        "Wins:losses over sets and the median gain: against the cautious forest with chosen s at the same counts, by",
        "the utility that the vote was learned for, by the coverage of the worst class and by size (larger:smaller);",
        "then by utility against `u65, learned` or `u80, learned`. Bold as above; *told better* by Holm's correction",
        f"over all {len(LEARNED_VOTES)}.",
        "",
        *text_rows([head, ["---"] * len(head), *rows]),
        "",
        *_of_masses(cells),
    ]
    for title, part in (
        ("two classes", frame[frame["n_classes"] == 2]),
        ("three classes and more", frame[frame["n_classes"] > 2]),
    ):
        if not part.empty:
            own = {cell: record for cell, record in cells.items() if cell.data in set(part["set"])}
            lines += ["", f"### Learned votes, medians, {title}", "", *_medians(part, own)]
    return [
        *lines,
        "",
        "*s*, *α*, *κ*: medians over forests; equal masses are α = κ = 0. *ms* and these seconds are of a machine busy",
        f"with other work: {_seconds(cells)}.",
        *steps_section(cells),
    ]


def vote_cells(found: Mapping[Any, dict]) -> dict[Any, dict]:
    """The cells that have learned votes, these among their methods."""
    cells = {}
    for cell, record in found.items():
        if "learned_vote" in record:
            own = record["learned_vote"]
            both = {key: {**record[key], **own[key]} for key in ("sets", "seconds")}
            cells[cell] = {**record, **both, "numbers": own["numbers"], "learning": own["learning"]}
    return cells


def rivals(name: str) -> tuple[str, str, str]:
    """The cautious forest with chosen s, the sets of highest expected utility, and the utility they are compared by."""
    counts, utility = next((c, f"u{u}") for c in COUNTS for u in UTILITIES if name.endswith(f"{c}, for u{u}"))
    return f"{KINDS[0]}, {counts}, for {utility}", f"{utility}, learned", utility


def helping(frame: pd.DataFrame, against: int) -> list[str]:
    """Learned votes that are told better than their first (0) or second (1) rival, after Holm's correction."""
    found = [compared(frame, name, rivals(name)[against], rivals(name)[2]) for name in LEARNED_VOTES]
    p_values = compare.holm(np.array([one[3] for one in found]))
    better = [p < LEVEL and won > lost for (won, lost, _, _), p in zip(found, p_values, strict=True)]
    return [name for name, is_better in zip(LEARNED_VOTES, better, strict=True) if is_better]


def _row(frame: pd.DataFrame, name: str) -> list[str]:
    chosen, best, utility = rivals(name)
    told = ["yes" if name in helping(frame, against) else "no" for against in (0, 1)]
    beside = [duel(frame, name, chosen, measure) for measure in ("worst_class", "size")]
    return [duel(frame, name, chosen, utility), told[0], *beside, duel(frame, name, best, utility), told[1]]


def masses_alone(cells: Mapping[Any, dict], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Gains of a forest's exact learned vote where its s compares whole counts as the chosen s does; their classes.

    Nothing but the masses then differs.
    """
    chosen, _, utility = rivals(name)
    same = [one for one in cells.values() if ceil(one["numbers"][name][0]) == one["numbers"][chosen][0]]
    worth = lambda one, method: measures([one["sets"][method]])[utility]
    gains = [round(worth(one, name) - worth(one, chosen), 9) for one in same]
    return np.array(gains), np.array([one["rows"][2] for one in same])


def _of_masses(cells: Mapping[Any, dict]) -> list[str]:
    body = []
    for name in LEARNED_VOTES:
        if name.startswith(KINDS[1] + ","):
            gains, n_classes = masses_alone(cells, name)
            parts = (gains[n_classes == 2], gains[n_classes > 2])
            body.append([name, *(f"{np.sum(p > 0)}:{np.sum(p < 0)} of {len(p)}" for p in parts)])
    return [
        "What the masses do alone, looked at afterwards: in these forests the learned s, rounded up, is the chosen",
        "one, so that exact comparisons are the same. Forests won and lost, by the utility, without a test. An empty",
        "leaf, which occurs out of bag, has no mass in a learned vote; in the cautious forest it abstains with the",
        "mass of the others.",
        "",
        *text_rows([["", "two classes", "three and more"], ["---"] * 3, *body]),
    ]


def _verdict(frame: pd.DataFrame) -> list[str]:
    helps = helping(frame, 0)
    recommended = [name for name in helps if name in helping(frame, 1)]
    said = lambda names: ", ".join(f"`{name}`" for name in names) if names else "none"
    return [
        "Criteria that were fixed before the first set was run:",
        "",
        "* A learned vote helps if it is told better than the cautious forest with chosen s, by the utility that it was"
        f" learned for: {said(helps)}.",
        "* It is recommended if it is also told better than sets of highest expected utility from learned"
        f" probabilities: {said(recommended)}.",
    ]


def _seconds(cells: Mapping[Any, dict]) -> str:
    """What learning takes: of the four votes of a forest the last finds its program compiled."""
    name = LEARNED_VOTES[-1]
    compiled = np.median([record["learning"][name] for record in cells.values()])
    slowest = max(seconds for record in cells.values() for seconds in record["learning"].values())
    return f"learning takes {compiled:.2f} s in the median once compiled, {slowest:.1f} s at most with compilation"


def _medians(part: pd.DataFrame, cells: Mapping[Any, dict]) -> list[str]:
    middle = part.groupby("method", sort=False)[[*COLUMNS]].median()
    head = ["", *COLUMNS.values(), "s", "α", "κ"]
    body = []
    for name in (*BESIDE, *VOTE_NAMES):
        own = ["", "", ""]
        if name in VOTE_NAMES:
            numbers = np.median([record["numbers"][name] for record in cells.values()], axis=0)
            own = [f"{number:.2f}" for number in numbers]
        body.append([name, *(digits(float(middle.loc[name, key]), key) for key in COLUMNS), *own])
    return text_rows([head, ["---"] * len(head), *body])


# The part of the section on learned votes that asks which step brings the gain: the slope, a learned s, or masses.

LADDER = (KINDS[0], *STEP_KINDS, KINDS[2])
"""Kinds of methods, each with one thing more than the one before."""
STEPS = ("the slope", "s learned", "masses learned")
WHERE = tuple((counts, utility) for counts in COUNTS for utility in UTILITIES)
STEP_COLUMNS = {"coverage": "coverage", "worst_class": "worst class", "u65": "u65", "u80": "u80", "size": "mean size"}


def steps_section(cells: Mapping[Any, dict]) -> list[str]:
    """Of cells with learned votes, those that have the steps too; nothing if none has."""
    cells = with_steps(cells)
    if not cells:
        return []
    frame = table(cells)
    told, whole = told_better(frame), ladder_ends(frame)
    head = ["", *(part for step in STEPS for part in (step, "told better")), "slope and s against cautious"]
    rows = [
        [f"{counts}, for u{utility}"]
        + [part for at in range(3) for part in (_duel(frame, at, at + 1, counts, utility), told[counts, utility][at])]
        + [whole[counts, utility]]
        for counts, utility in WHERE
    ]
    lines = [
        "",
        "### Slope, caution or masses",
        "",
        f"{frame['set'].nunique()} sets; lines of `vote_steps/`. From the cautious forest to its learned vote with",
        "slope in three steps, each with one thing more: the slope at the chosen s (*slope*: nothing is learned); s",
        "learned by the same call while masses are held equal (*slope with learned s*); the masses learned as well",
        "(*learned vote with slope*). Run after the figures above were known, by a criterion fixed before: a gain is a",
        f"step's if it is told better than the step before, by Holm's correction over all {len(WHERE) * len(STEPS)}.",
        "",
        *_said(told),
        "",
        "Wins:losses over sets against the step before and the median gain, by the utility; bold as above, without the",
        "correction. The last column, the first two steps together, was in no plan and is not corrected.",
        "",
        *text_rows([head, ["---"] * len(head), *rows]),
    ]
    for title, part in (
        ("two classes", frame[frame["n_classes"] == 2]),
        ("three classes and more", frame[frame["n_classes"] > 2]),
    ):
        if not part.empty:
            lines += ["", f"Medians, {title}:", "", *_step_medians(part, cells)]
    return lines


def with_steps(cells: Mapping[Any, dict]) -> dict[Any, dict]:
    """The cells that have the steps, these among their methods."""
    return {
        cell: {
            **record,
            **{key: {**record[key], **record["vote_steps"][key]} for key in ("sets", "seconds", "numbers")},
        }
        for cell, record in cells.items()
        if "vote_steps" in record
    }


def told_better(frame: pd.DataFrame) -> dict[tuple[str, int], list[str]]:
    """Of each step whether it is told better (yes) or worse (worse) than the one before, after Holm's correction."""
    found = [
        compared(frame, _name(at + 1, *where), _name(at, *where), f"u{where[1]}") for where in WHERE for at in range(3)
    ]
    p_values = compare.holm(np.array([one[3] for one in found]))
    said = [
        "no" if p >= LEVEL or won == lost else "yes" if won > lost else "worse"
        for (won, lost, _, _), p in zip(found, p_values, strict=True)
    ]
    return {where: said[3 * at : 3 * at + 3] for at, where in enumerate(WHERE)}


def ladder_ends(frame: pd.DataFrame) -> dict[tuple[str, int], str]:
    """The slope with learned s and equal masses against the cautious forest."""
    return {where: _duel(frame, 0, 2, *where) for where in WHERE}


def _name(at: int, counts: str, utility: int) -> str:
    return f"{LADDER[at]}, {counts}, for u{utility}"


def _duel(frame: pd.DataFrame, before: int, after: int, counts: str, utility: int) -> str:
    return duel(frame, _name(after, counts, utility), _name(before, counts, utility), f"u{utility}")


def _said(told: Mapping[tuple[str, int], list[str]]) -> list[str]:
    lines = []
    for at, step in enumerate(STEPS):
        of = {
            how: ", ".join(
                f"{counts} for u{utility}" for (counts, utility), all_steps in told.items() if all_steps[at] == how
            )
            for how in ("yes", "worse")
        }
        lines.append(
            f"* *{step}*: told better {of['yes'] or 'nowhere'}"
            + (f"; told worse {of['worse']}." if of["worse"] else ".")
        )
    return lines


def _step_medians(part: pd.DataFrame, cells: Mapping[Any, dict]) -> list[str]:
    middle = part.groupby("method", sort=False)[[*STEP_COLUMNS]].median()
    inside, body = set(part["set"]), []
    for where in WHERE:
        for at in range(4):
            name = _name(at, *where)
            s = np.median([one["numbers"][name][0] for cell, one in cells.items() if cell.data in inside])
            body.append([name, *(digits(float(middle.loc[name, key])) for key in STEP_COLUMNS), f"{s:.2f}"])
    head = ["", *STEP_COLUMNS.values(), "s"]
    return text_rows([head, ["---"] * len(head), *body])
