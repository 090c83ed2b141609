"""The section of the study of sets that sets relative likelihood beside the other ways to a set."""

import numpy as np
import pandas as pd

from benchmarks.sets_likelihood import CHOICES, KINDS, NAMES
from benchmarks.sets_measures import COLUMNS, LEVEL, WORTH, compared, digits, duel, text_rows
from jaxunc import compare

MEANINGS = {
    "likelihood, …": "a leaf's interval of a class holds the probabilities whose likelihood by its counts is alpha "
    "times the greatest or more (profile likelihood: any number of classes); means of the bounds over trees, dominance",
    "intervals, …": "the same with imprecise Dirichlet intervals, s chosen in the same way",
    "decalibrated, …": "probabilities of the mean or the learned pool, first recalibrated out of bag (a scale, a bias "
    "for each class); the logit of one class is moved for all rows, up and down, as far as the likelihood of the "
    "out-of-bag rows stays alpha times the greatest; the intervals of its probability, dominance (Hofman et al. 2026)",
    "plausible forests": "the forest and ten parts of ten trees; those whose out-of-bag likelihood is alpha times the "
    "best one's or more are kept; the classes that one of them finds the most probable (after Löhr et al. 2025, whose "
    "models are networks trained up to that likelihood)",
    "alpha = .15": "as in 95 % intervals of one number",
    "by u65; by u80; by class": "alpha, or s, chosen on out-of-bag training rows: the highest u65, the highest u80, "
    "the narrowest sets that hold 90 % of every class",
}
BESIDE = (
    "one class, learned", "u65, learned", "u80, learned", "cautious, oob, s = 2", "intervals, oob, s = 1",
    "by class, learned, oob",
)  # fmt: skip
NEEDS = {"u65": "u65, learned", "u80": "u80, learned"}
COVERS = "by class, learned, oob"
"""What is recommended where a class must not be missed."""


def likelihood_section(everything: pd.DataFrame) -> list[str]:
    """Of all sets that have these methods; nothing if none has."""
    frame = everything[everything["set"].isin(_sets_with_all(everything))]
    if frame.empty:
        return []
    n, n_all = frame["set"].nunique(), everything["set"].nunique()
    lines = [
        "",
        "## Relative likelihood and decalibration",
        "",
        f"{n} of the {n_all} sets, the same forests and folds; lines of `likelihood/`. Times (*ms*) of these methods",
        "are of the study's own code, on a machine busy with other work: not to be compared with those above.",
        "",
        *(f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items()),
        "",
        *_verdict(frame),
    ]
    for title, part in (
        ("two classes", frame[frame["n_classes"] == 2]),
        ("three classes and more", frame[frame["n_classes"] > 2]),
    ):
        if not part.empty:
            lines += ["", f"### Medians, {title}", "", *_medians(part)]
    return [*lines, "", "### Against others", "", *_against(frame)]


def verdict(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Methods that pass the rules of the page: {"intervals": …, "u65": …, "u80": …, "class": …}."""
    beside = [name for name in NAMES if name.startswith("likelihood") and CHOICES[0] not in name]
    pairs = {name: (name.replace("likelihood", "intervals"), _utility(name)) for name in beside}
    found = {"intervals": _better(frame, pairs)}
    for kind, rival in NEEDS.items():
        found[kind] = _better(frame, dict.fromkeys(_new(), (rival, kind)))
    found["class"] = _better(frame, {name: (COVERS, "u80") for name in _new() if keeps(frame, name)})
    return found


def keeps(frame: pd.DataFrame, name: str) -> bool:
    """Whether 90 % of a class are kept for at least 95 % of the classes, which is all that chance leaves."""
    sums = frame[frame["method"] == name][["n_classes_kept", "n_classes_told"]].sum()
    return bool(sums["n_classes_kept"] >= (1 - LEVEL) * sums["n_classes_told"])


def _better(frame: pd.DataFrame, pairs: dict[str, tuple[str, str]]) -> list[str]:
    """Those that win on more sets than they lose, told apart by signed-rank tests after Holm's correction."""
    found = {name: compared(frame, name, *pair) for name, pair in pairs.items()}
    if not found:
        return []
    p_values = compare.holm(np.array([one[3] for one in found.values()]))
    return [name for (name, one), p in zip(found.items(), p_values, strict=True) if p < LEVEL and one[0] > one[1]]


def _new() -> list[str]:
    return [name for name in NAMES if not name.startswith("intervals")]


def _utility(name: str) -> str:
    return "u65" if name.endswith("u65") else "u80"


def _verdict(frame: pd.DataFrame) -> list[str]:
    passed = verdict(frame)
    said = lambda names: ", ".join(f"`{name}`" for name in names) if names else "none"  # noqa: E731
    ranks = frame.groupby("method")[[*WORTH]].mean()
    best = {kind: str(ranks.loc[_new(), kind].idxmax()) for kind in WORTH}
    keeping = [name for name in _new() if keeps(frame, name)]
    most = str(ranks.loc[keeping, "u80"].idxmax()) if keeping else ""
    lines = [
        "Rules that were fixed when two of the sets had been looked at, with signed-rank tests over the sets,",
        "corrected by Holm for all methods of a rule:",
        "",
        "* A leaf's likelihood intervals are better than imprecise Dirichlet ones if they are worth more at the same",
        f"  counts and choice (u65 for *by u65*, else u80): {said(passed['intervals'])}.",
        "* One is to be taken to decide as often as it pays if it is worth more than `u65, learned` by u65:"
        f" {said(passed['u65'])}. Or than `u80, learned` by u80: {said(passed['u80'])}. The best by mean u65,",
        f"  `{best['u65']}`: {duel(frame, best['u65'], NEEDS['u65'], 'u65')}; by mean u80, `{best['u80']}`:"
        f" {duel(frame, best['u80'], NEEDS['u80'], 'u80')}.",
        f"* One is to be taken where a class must not be missed if 90 % are kept of 95 % of the classes, which"
        f" {len(keeping)} do, and it is worth more than `{COVERS}` by u80: {said(passed['class'])}."
        + (f" The best of these by mean u80, `{most}`: {duel(frame, most, COVERS, 'u80')}." if most else ""),
    ]
    if not any(passed[key] for key in ("u65", "u80", "class")):
        lines += ["", "So no recommendation changes, and nothing of this is in the library."]
    return lines


def _medians(part: pd.DataFrame) -> list[str]:
    middle = part.groupby("method", sort=False)[[*COLUMNS]].median()
    body = [
        [name, *(digits(float(middle.loc[name, key]), key) for key in COLUMNS)]
        for name in (*BESIDE, *(name for kind in KINDS for name in NAMES if name.startswith(kind)))
    ]
    return text_rows([["", *COLUMNS.values()], ["---"] * (1 + len(COLUMNS)), *body])


def _against(frame: pd.DataFrame) -> list[str]:
    head = ["", *(f"{NEEDS[kind]}, by {kind}" for kind in NEEDS), f"{COVERS}, by u80", "sets kept", "classes kept"]
    sums = frame.groupby("method")[["kept", "n_classes_kept", "n_classes_told"]].sum()
    n_sets = frame["set"].nunique()
    body = [
        [
            name,
            *(duel(frame, name, rival, kind) for kind, rival in NEEDS.items()),
            duel(frame, name, COVERS, "u80"),
            f"{sums.loc[name, 'kept']:.0f} of {n_sets}",
            f"{sums.loc[name, 'n_classes_kept']:.0f} of {sums.loc[name, 'n_classes_told']:.0f}",
        ]
        for name in NAMES
    ]
    return [
        "Wins:losses over sets and the median gain, as above; on how many sets, and for how many classes, coverage is",
        "not told apart from 90 %. None of these has a proof.",
        "",
        *text_rows([head, ["---"] * len(head), *body]),
    ]


def _sets_with_all(everything: pd.DataFrame) -> list[str]:
    own = everything[everything["method"].isin(NAMES)].groupby("set")["method"].nunique()
    return [str(name) for name in own.index[own == len(NAMES)]]
