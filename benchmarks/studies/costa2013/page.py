"""The page of the study of Costa, Verwer and Blockeel 2013: its tables beside ours, and what fills its template."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from benchmarks.pages import fill, save, table, wrap
from benchmarks.studies.costa2013 import numbers
from benchmarks.studies.costa2013.methods import MEASURES
from benchmarks.studies.costa2013.sets import FOLDS_RUN, SETS, TOO_WIDE

TEMPLATE = Path(__file__).with_name("page.md")
RIVALS = {
    "brier": ("tree", "bag", "tree_laplace", "bag_laplace"),
    "auc": ("tree", "bag", "tree_laplace", "bag_laplace"),
    "reliability": ("tree", "bag", "kk", "tree_laplace", "bag_laplace"),
}
POOLED = {"ahead": "better by all three measures", "behind": "worse by all three measures"}


def study_page(finished: numbers.Finished, out: Path, further: Sequence[str] = ()) -> str:
    """The page, with further sections; its figures are written to ``out``."""
    draw_all(finished, out)
    own = {name: found for name, found in finished.items() if "own" in found}
    both = {name: found for name, found in finished.items() if "loo" in found}
    missing = [name for name in SETS if name not in finished]
    parts = [f"of {name} {run} of the ten" for name, run in FOLDS_RUN.items() if name in finished]
    wide = [name for name in TOO_WIDE if name in finished]
    ways = ((both, "loo"), (both, "folds"), (finished, "folds"))
    by_folds = lambda *pair: (numbers.duel(sets, protocol, *pair) for sets, protocol in ways)
    page = fill(
        TEMPLATE,
        n_sets=len(finished),
        n_loo=len(both),
        n_both=len(both),
        n_own=len(own),
        part="; ".join(parts) or "all of them",
        left_out=f" ({', '.join(missing)} of our list took too long)" if missing else "",
        but=f"; not {', '.join(wide)}, for its size" if wide else "",
        further="\n\n".join(further),
        row=lambda measure, rival: " | ".join(_beside_the_paper(finished, measure, rival)),
        by_folds=lambda *pair: " | ".join(f"{of.cell} | {of.mean:.4f}, {of.other:.4f}" for of in by_folds(*pair)),
        own_mean=lambda protocol, method, measure: numbers.average(own, protocol, method, measure),
        sets=lambda measure: _sets(finished, measure),
        **claims(finished, own, both),
    )
    return wrap(page)


def claims(finished: numbers.Finished, own: numbers.Finished, both: numbers.Finished) -> dict:
    """What the cells say of the paper's claims, for the slots of the template."""
    of_folds = lambda measure, rival, method="tpce": numbers.duel(finished, "folds", measure, rival, method)
    smoothed = [of_folds(m, rival).verdict for m in MEASURES[:3] for rival in ("tree_laplace", "bag_laplace")]
    pooled = {of_folds(m, "tpce", "tpce_pool").verdict for m in MEASURES[:3]}
    wins, upper = _by_size_of_score(finished)
    called = numbers.called_shares(finished)
    return {
        "paper": lambda measure, rival: numbers.duel(finished, "paper", measure, rival),
        "printed": lambda measure, rival: "{0.wins}/{0.ties}/{0.losses}".format(numbers.DUELS[measure, rival]),
        "folds": of_folds,
        "both": lambda measure, rival, protocol: numbers.duel(both, protocol, measure, rival),
        "own": lambda measure: own_duel(own, measure),
        "mean": lambda method, measure: numbers.average(finished, "folds", method, measure),
        "share": lambda measure: _share_of_smoothing(finished, measure),
        "half": lambda half, rival: int(wins[rival][upper == (half == "upper")].sum()),
        "n_upper": int(upper.sum()),
        "n_lower": int((~upper).sum()),
        "tendency": "holds" if wins["bag"][upper].mean() > wins["bag"][~upper].mean() else "does not hold",
        "n_ahead": smoothed.count("ahead"),
        "n_behind": smoothed.count("behind"),
        "agreeing": lambda protocol: np.mean([found[protocol]["agreeing"] for found in own.values()]),
        "best": lambda measure: _best_reading(finished, measure),
        "pool_verdict": POOLED.get(*pooled, "not told apart") if len(pooled) == 1 else "not better throughout",
        "called": lambda method, which: called[method][("called", "right", "others", "all").index(which)],
        "by_class": lambda method: numbers.brier_by_class(finished, "paper", method),
        "average": lambda method: numbers.AVERAGES["brier"][method],
    }


def _by_size_of_score(finished: numbers.Finished) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Whether TPCE wins by Brier score, for each rival; and which sets have large scores of both TPCE and bagging."""
    scores = {name: numbers.values(finished, "paper", name, "brier") for name in ("tpce", "bag", "tree_laplace")}
    least = np.minimum(scores["tpce"], scores["bag"])
    return {name: scores["tpce"] < other for name, other in scores.items()}, least > np.median(least)


def _share_of_smoothing(finished: numbers.Finished, measure: str) -> float:
    """The part of the lead over the single tree that smoothing its leaves gives."""
    tree, smoothed = (numbers.duel(finished, "paper", measure, rival) for rival in ("tree", "tree_laplace"))
    return (smoothed.other - tree.other) / (tree.mean - tree.other)


def _best_reading(finished: numbers.Finished, measure: str) -> str:
    rules = {
        "tpce_frequencies": "relative frequencies", "tpce": "Laplace", "tpce_m": "the m-estimate",
        "tpce_eb": "empirical Bayes", "tpce_pool": "pooling", "tpce_eva": "evidence accumulation",
    }  # fmt: skip
    means = {rule: numbers.average(finished, "folds", rule, measure) for rule in rules}
    best = (min if measure == "brier" else max)(means, key=lambda rule: means[rule])
    return f"{rules[best]} ({means[best]:.3f})"


def _beside_the_paper(finished: numbers.Finished, measure: str, rival: str) -> list[str]:
    """TPCE against a rival: the duel and both means, and what the paper has of it where it compares by the measure."""
    of, printed = numbers.duel(finished, "paper", measure, rival), numbers.DUELS.get((measure, rival))
    row = [of.score, numbers.p_in_words(of.p), f"{of.mean:.4f}", f"{of.other:.4f}"]
    if printed is None:
        return row + [""] * 4 * (measure in numbers.AVERAGES)
    means = [f"{numbers.AVERAGES[measure][name]:g}" for name in ("tpce", rival)]
    return [*row, f"{printed.wins}/{printed.ties}/{printed.losses}", printed.p, *means]


def own_duel(there: numbers.Finished, measure: str) -> numbers.Duel:
    """Own thresholds against those of the training set."""
    return numbers.against(
        numbers.values(there, "own", "tpce_own", measure), numbers.values(there, "loo", "tpce", measure), measure
    )


def _sets(finished: numbers.Finished, measure: str) -> str:
    methods = ("tpce", *RIVALS[measure], "many", "many_laplace")
    found = {method: numbers.values(finished, "paper", method, measure) for method in methods}
    lines, number = [], lambda value: f"{value:.4f}" if np.isfinite(value) else "–"
    for place, (name, record) in enumerate(numbers.records(finished, "paper").items()):
        size = [str(record[key]) for key in ("n", "features", "classes")]
        lines.append([name, *size, *(number(of[place]) for of in found.values())])
    return table(["set", "n", "features", "classes", *(numbers.METHODS[method] for method in methods)], lines)


# Figures of the study of Costa, Verwer and Blockeel 2013: a point for each set.

FIGURES = {
    "figure-4": ("brier", "Brier score"),
    "figure-5": ("auc", "AUC"),
    "figure-6": ("reliability", "AUC reliability"),
}
BETTER, WORSE = "#0072B2", "#D55E00"


def draw_all(finished: numbers.Finished, out: Path) -> None:
    """Figures 4 to 6, and what own thresholds do."""
    with matplotlib.rc_context({"font.size": 9}):
        for name, (measure, title) in FIGURES.items():
            draw_duels(finished, measure, title, out / f"{name}.svg")
        draw_own(finished, out / "figure-3.svg")


def draw_duels(finished: numbers.Finished, measure: str, title: str, path: Path) -> None:
    """TPCE against each rival."""
    rivals = RIVALS[measure]
    own = numbers.values(finished, "paper", "tpce", measure)
    others = [numbers.values(finished, "paper", rival, measure) for rival in rivals]
    ends = np.nanmin([own, *others]), np.nanmax([own, *others])
    figure = Figure(figsize=(2.6 * len(rivals), 2.9), layout="constrained")
    for ax, rival, other in zip(figure.subplots(1, len(rivals)), rivals, others, strict=True):
        _scatter(ax, other, own, own < other if measure == "brier" else own > other, ends)
        ax.set(xlabel=numbers.METHODS[rival])
    figure.axes[0].set(ylabel="TPCE", title=title)
    save(figure, path)


def draw_own(finished: numbers.Finished, path: Path) -> None:
    """Brier score, and how many instances every label wins over, with own thresholds against without."""
    there = {name: found for name, found in finished.items() if "own" in found}
    agreeing = lambda protocol: np.array([found[protocol]["agreeing"] for found in there.values()])
    pairs = {
        "Brier score": [numbers.values(there, *of, "brier") for of in (("loo", "tpce"), ("own", "tpce_own"))],
        "share won over by every label": [agreeing("loo"), agreeing("own")],
    }
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    for ax, (title, (without, own)) in zip(figure.subplots(1, len(pairs)), pairs.items(), strict=True):
        _scatter(ax, without, own, own < without, (np.min([without, own]), np.max([without, own])))
        ax.set(xlabel="thresholds of the training set", title=title)
    figure.axes[0].set_ylabel("own thresholds")
    save(figure, path)


def _scatter(ax, x: np.ndarray, y: np.ndarray, better: np.ndarray, ends: tuple[float, float]) -> None:
    """Points around the diagonal; those where the method on the y axis is better filled, the others open."""
    there = np.isfinite(x) & np.isfinite(y)
    margin = 0.04 * (ends[1] - ends[0])
    ends = ends[0] - margin, ends[1] + margin
    ax.plot(ends, ends, color="#999999", linewidth=0.8, zorder=1)
    ax.scatter(x[there & better], y[there & better], s=14, color=BETTER, zorder=2)
    ax.scatter(x[there & ~better], y[there & ~better], s=14, facecolors="none", edgecolors=WORSE, zorder=2)
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    ax.title.set_fontsize(9)
    ax.spines[["top", "right"]].set_visible(False)
