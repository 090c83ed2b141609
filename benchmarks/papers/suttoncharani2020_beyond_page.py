"""The section of the page of Sutton-Charani 2020 about more classes, ensembles and other counts, made of its cells."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

FOLDS = {"classes": 10, "ensembles": 2, "counting": 10}
"""The parts, and the folds of each set."""
N_SETS = {"classes": 12, "ensembles": 12, "counting": 8}
LEVEL = 0.05
TREES = ("0", "pruned")
WAYS = {"eb": "empirical Bayes", "marginal": "beta-binomial", "laplace": "Laplace"}
COUNTERS = {"neighbours": "ten nearest neighbours", "naive Bayes": "naive Bayes", "table": "decision table"}
FORESTS = {
    "laplace": ("Laplace in each leaf", "mean"),
    "tree": ("prior of each tree (`smooth_forest`)", "mean"),
    "members": ("`MemberSmoothing`", "mean"),
    "whole, trees": ("whole: mean frequency, as often as there are trees", "mean"),
    "whole, pooled": ("whole: pooled counts", "pooling"),
    "whole, mean leaf": ("whole: counts of a mean leaf", "pooling"),
    "laplace, all rows": ("Laplace in each leaf, all rows", "mean, all rows"),
    "tree, all rows": ("prior of each tree, all rows", "mean, all rows"),
    "members, all rows": ("`MemberSmoothing`, all rows", "mean, all rows"),
}
"""What corrects a forest: its name, and the forest uncorrected."""
Records = Mapping[str, Sequence[Mapping]]


def kept(out: Path) -> dict[str, Records]:
    """{part: {set: its cells}}, of the parts that are finished."""
    found: dict[str, Records] = {}
    for part, n_folds in FOLDS.items():
        lines = {p.stem: p.read_text(encoding="utf-8").splitlines() for p in sorted((out / "beyond" / part).glob("*"))}
        sets = {name: [json.loads(line) for line in of] for name, of in lines.items() if len(of) == n_folds}
        if len(sets) == N_SETS[part]:
            found[part] = sets
    return found


def losses(records: Records, model: str, way: str) -> np.ndarray:
    """``[losses sets]`` mean log loss and Brier score over the folds."""
    pairs = [[record["found"][model][way] for record in of_set] for of_set in records.values()]
    return np.array([np.mean(of_set, axis=0) for of_set in pairs]).T


def gains(records: Records, model: str, way: str, other: str) -> np.ndarray:
    """``[losses sets]`` by how much a way is better than another."""
    return losses(records, model, other) - losses(records, model, way)


def verdict(gain: np.ndarray) -> str:
    """Whether a two-sided sign test over the sets agrees by both losses."""
    sides = {_side(of) for of in gain}
    if sides == {1}:
        return "helps"
    return "harms" if sides == {-1} else "does not help reliably"


def _side(gain: np.ndarray) -> int:
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    if better + worse == 0 or binomtest(better, better + worse).pvalue >= LEVEL:
        return 0
    return 1 if better > worse else -1


def section(found: Mapping[str, Records]) -> str:
    """The section, of the parts that are there."""
    parts = [
        "## What the paper names and does not study",
        "Made by `python -m benchmarks.papers.suttoncharani2020_beyond`. The Brier score is summed over the classes, "
        "probabilities below 1e-6 count as 1e-6 in the log loss. *Helps* and *harms* are said where a two-sided sign "
        f"test over the sets rejects chance at {LEVEL} by log loss and by Brier score alike: all of eight sets, ten of "
        "twelve. That was fixed when single folds of six sets had been seen. What is smoothed how: "
        "`benchmarks/papers/suttoncharani2020_beyond_methods.py`.",
    ]
    sections = {"classes": _classes, "ensembles": _ensembles, "counting": _counting}
    return "\n\n".join([*parts, *(sections[part](records) for part, records in found.items())])


def _classes(records: Records) -> str:
    said = []
    for tree in TREES:
        name = "Pruned trees" if tree == "pruned" else f"Trees of cp = {tree}"
        said.append(f"* {name}: {_both(records, tree)}")
    lines = [
        [WAYS[way], tree, _against(records, tree, way, "raw"), _against(records, tree, way, "laplace")]
        for way in WAYS
        for tree in TREES
    ]
    return _part(
        f"### More than two classes: {_sets(records)}",
        "Trees like the study's, one ten-fold cross-validation, leaves smoothed by `fit_dirichlet_prior`. Nominal "
        "features have a column per level, so that splits are one level against the others.",
        "\n".join(said),
        ["smoothing", "trees", *_heads("frequencies"), *_heads("Laplace")],
        lines,
    )


def _ensembles(records: Records) -> str:
    said = [
        f"* {name[0].upper() + name[1:] if name[0] != '`' else name}: {_told(gains(records, 'forest', way, raw))}."
        for way, (name, raw) in FORESTS.items()
    ]
    lines = [
        [name, raw, _against(records, "forest", way, raw), _against(records, "forest", way, "mean")]
        for way, (name, raw) in FORESTS.items()
    ]
    lines += [
        [f"({way}, uncorrected)", "", [""] * 2, _against(records, "forest", way, "mean")]
        for way in ("pooling", "mean, all rows")
    ]
    return _part(
        f"### Ensembles: {_sets(records)}",
        "Random forests of 100 trees, grown out, two folds. Leaves count the bag of their tree, or all training rows. "
        "*Whole* is a correction of the aggregate: one prior, fitted to what the out-of-bag trees say together of each "
        "training row, added to what all trees say of a new one. Against the same forest uncorrected:",
        "\n".join(said),
        ["correction", "of", *_heads("it"), *_heads("mean")],
        lines,
    )


def _counting(records: Records) -> str:
    said = []
    for model, name in COUNTERS.items():
        said.append(f"* {name[0].upper() + name[1:]}: {_both(records, model)}")
    lines = [
        [name, WAYS[way], _against(records, model, way, "raw"), _against(records, model, way, "laplace")]
        for model, name in COUNTERS.items()
        for way in WAYS
    ]
    return _part(
        f"### Other classifiers that count: {_sets(records)}",
        "One ten-fold cross-validation. The artificial sample is what training rows meet: the classes among their ten "
        "nearest others, the bins of each feature, the cells of a table of three features.",
        "\n".join(said),
        ["classifier", "smoothing", *_heads("frequencies"), *_heads("Laplace")],
        lines,
    )


def _sets(records: Records) -> str:
    return f"{len(records)} sets"


def _heads(other: str) -> list[str]:
    return [f"log loss, over {other}", f"Brier, over {other}"]


def _told(gain: np.ndarray) -> str:
    better, n = (gain > 0).sum(axis=1), gain.shape[1]
    mean = gain.mean(axis=1)
    return (
        f"it {verdict(gain)} (log loss better on {better[0]} of {n} sets, {mean[0]:+.4f} in the mean; Brier score on "
        f"{better[1]}, {mean[1]:+.4f})"
    )


def _both(records: Records, model: str) -> str:
    raw, laplace, other = (
        gains(records, model, way, over) for way, over in (("eb", "raw"), ("eb", "laplace"), ("marginal", "laplace"))
    )
    return (
        f"against frequencies {_told(raw)}; against Laplace {_told(laplace)}. The beta-binomial prior against Laplace: "
        f"{_told(other)}."
    )


def _against(records: Records, model: str, way: str, other: str) -> list[str]:
    if way == other:
        return [""] * 2
    return [f"{of.mean():+.4f} ({(of > 0).sum()}/{len(of)})" for of in gains(records, model, way, other)]


def _part(title: str, about: str, said: str, head: Sequence[str], lines: Sequence[Sequence]) -> str:
    flat = [[*line[:2], *(cell for pair in line[2:] for cell in pair)] for line in lines]
    rows = [list(head), ["---"] * len(head), *flat]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return "\n\n".join([title, about, said, "Mean gain over the sets, and on how many of them:", table])
