"""The page of the study of learning, made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from benchmarks.cells import method_rows
from benchmarks.pages import fill, save
from benchmarks.studies.learning.further import NOISE, NOISE_SETS, STRENGTHS
from benchmarks.studies.learning.methods import MEASURES, duel, how_many, largest, markdown, paired, table

TEMPLATE = Path(__file__).with_name("page.md")
PICTURE = "gain.svg"
DRAWN = {
    "P": ("the best of sixteen calibrators", {"marker": "o", "color": "none", "edgecolor": "#c2571a", "s": 30}),
    "pool": ("the learned pool", {"marker": "o", "color": "#0b5fa5", "s": 38}),
}
"""What the picture shows, with its words and marks."""
TITLES = {
    "other-sets": "Random forests, grown out, on sets that nothing here was developed on",
    "development": "Random forests, grown out, on the sets of development, by both clips",
    "grown-out": "Random forests, grown out, on the sets of development",
    "leaves-of-four": "Random forests, four instances in a leaf",
    "extra-trees": "Extremely randomised trees, bootstrapped, grown out",
    "whole-sample": "Extremely randomised trees without bootstrap, cross-fitted",
    "random-trees": "Random decision trees, own labels left out",
}
NAMES = (
    "pool", "blend", "selected", "pool, in-bag", "mean", "P", "isotonic", "fixed", "temperature", "m alone",
    "m, scale, bias", "evidence, scale, bias", "tree weights", "leaf counts", "CalibratedClassifierCV, sigmoid",
    "CalibratedClassifierCV, isotonic", "HistGradientBoosting",
)  # fmt: skip
"""The methods; ``page.md`` says what they are."""
SHOWN = ("pool", "blend", "selected", "P", "isotonic", "fixed", "HistGradientBoosting")
"""Those that other measures are shown of."""
AGAINST_BY = ("log_loss_clipped", "log_loss", "brier", "auc", "accuracy")
GROUPS = {"other-sets": "On sets that nothing here was developed on", "development": "On the sets of development"}
"""Parts whose sets and folds further methods are run on."""


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    sections = [_part(part, cells) for part in TITLES if (cells := _cells_of(found, part))]
    further = {"instead": _instead, "shrinkage": _shrinkage, "noise": _noise}
    sections += [make(found) for part, make in further.items() if _cells_of(found, part)]
    return fill(TEMPLATE, sections="\n\n".join(sections))


def _cells_of(found: Mapping[Any, dict], part: str) -> dict[Any, dict]:
    return {cell: record for cell, record in found.items() if cell.part == part}


def draw_gain(found: Mapping[Any, dict], path: Path) -> None:
    """Draw log losses of the first part as shares of the mean's, set by set, in the order of the pool's."""
    frame = table(_cells_of(found, "other-sets"))
    plt.rcParams.update({"svg.fonttype": "none", "font.size": 10})
    figure, ax = plt.subplots(figsize=(10, 3.4), layout="constrained")
    pool, mean, names = paired(frame, "pool", "mean", "log_loss_clipped")
    order, places = np.argsort(pool / mean), np.arange(len(names))
    ax.axhline(1, color="#5c5c5c", linewidth=1)
    ax.vlines(places, (pool / mean)[order], 1, color="#0b5fa5", alpha=0.3, linewidth=2.5)
    for method, (label, marks) in DRAWN.items():
        own, mean, _ = paired(frame, method, "mean", "log_loss_clipped")
        ax.scatter(places, (own / mean)[order], label=label, zorder=3, **marks)
    ax.set_xticks(places, [names[i] for i in order], rotation=90)
    ax.set(ylabel="log loss, of the mean's", ylim=(0, None))
    ax.annotate("the mean, as scikit-learn answers", (0, 1), (0, 4), textcoords="offset points", color="#5c5c5c")
    ax.legend(loc="lower right", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.02)
    save(figure, path)
    plt.close(figure)


def _part(part: str, found: Mapping[Any, dict]) -> str:
    frame = table(found)
    methods = [name for name in NAMES if name in set(frame["method"])]
    references, losses = ("mean", "P", "isotonic"), []
    for measure, title in (("log_loss", "log loss"), ("log_loss_clipped", "log loss, clipped,")):
        if measure in frame:
            rows = [[f"`{m}`", *(duel(frame, m, r, measure) if m != r else "" for r in references)] for m in methods]
            losses.append(markdown([f"{title} of", *(f"against {name}" for name in references)], rows))
    others = [m for m in MEASURES if not m.startswith("log_loss")]
    shown = [[f"`{m}`", *(duel(frame, m, "mean", k) for k in others)] for m in SHOWN if m in methods]
    worst = {name: largest(frame, name, "P", "log_loss") for name in ("pool", "blend", "selected")}
    seconds = pd.DataFrame([record["seconds"] for record in found.values()])
    taken = [name for name in ("grow", "rows", "rows, both", "pool", "blend", "selected") if name in seconds]
    return fill(
        TEMPLATE,
        "part",
        title=TITLES[part],
        how_many=how_many(found),
        losses="\n\n".join(losses),
        others=markdown(["", *others], shown),
        worst="; ".join(f"`{name}`: {text}" for name, text in worst.items() if text),
        sets=_sets_table(found),
        seconds=", ".join(f"{name} {seconds[name].median():.2f}" for name in taken),
    )


def _sets_table(found: Mapping[Any, dict]) -> str:
    frame, body = method_rows(found, ("u65", "u80"), "sets"), []
    for method in dict.fromkeys(frame["method"]):
        cells = [f"`{method}`"]
        for kind in ("u65", "u80"):
            mean = frame[frame["method"] == method].groupby("set")[kind].mean().mean()
            cells += [f"{mean:.4f}", duel(frame, method, "pool", kind) if method != "pool" else ""]
        body.append(cells)
    return markdown(["sets of", "u65", "against pool", "u80", "against pool"], body)


def beside(found: Mapping[Any, dict], further: str, part: str) -> dict[Any, dict]:
    """The cells of a further part on the sets of another, with that part's methods of the same folds.

    Of a method that both have, those of `instead` are the other part's.
    """
    joined = {}
    for cell, record in _cells_of(found, further).items():
        if other := found.get(cell._replace(part=part)):
            first, second = (record, other) if further == "instead" else (other, record)
            joined[cell] = {**record, "methods": first["methods"] | second["methods"]}
    return joined


def _instead(found: Mapping[Any, dict]) -> str:
    groups = [_instead_group(title, of) for part, title in GROUPS.items() if (of := beside(found, "instead", part))]
    return fill(TEMPLATE, "instead", groups="\n\n".join(groups))


def _instead_group(title: str, joined: Mapping[Any, dict]) -> str:
    frame = table(joined)
    chosen = pd.DataFrame([record["chosen"] | record["seconds"] for record in joined.values()])
    leaves = chosen["tuned"].str[0].value_counts().sort_index()
    return fill(
        TEMPLATE,
        "instead group",
        title=title,
        how_many=how_many(joined),
        against=lambda *pair: " | ".join(duel(frame, *pair, measure) for measure in AGAINST_BY[:3]),
        worst=largest(frame, "pool", "tuned mean, P", "log_loss_clipped"),
        leaves=", ".join(f"{leaf} in {n}" for leaf, n in leaves.items()),
        n=len(chosen),
        isotonic=int((chosen["tuned"].str[2] == "isotonic").sum()),
        seconds=chosen["tune"].median(),
    )


def _shrinkage(found: Mapping[Any, dict]) -> str:
    titles = {"other-sets": "sets that nothing here was developed on", "development": "sets of development"}
    joined = {title: beside(found, "shrinkage", part) for part, title in titles.items()}
    groups = [_shrinkage_group(title, cells) for title, cells in joined.items() if cells]
    strengths = ", ".join(f"{one:g}" for one in STRENGTHS)
    return fill(TEMPLATE, "shrinkage", strengths=strengths, groups="\n\n".join(groups))


def _shrinkage_group(title: str, joined: Mapping[Any, dict]) -> str:
    frame = table(joined)
    chosen = [record["chosen"] for record in joined.values()]
    return fill(
        TEMPLATE,
        "shrinkage group",
        title=title,
        how_many=how_many(joined),
        against=lambda *pair: " | ".join(duel(frame, *pair, measure) for measure in AGAINST_BY),
        chosen=", ".join(f"{one:g} in {chosen.count(one)}" for one in STRENGTHS if one in chosen),
        worst=largest(frame, "pool", "shrinkage", "log_loss_clipped"),
    )


def _noise(found: Mapping[Any, dict]) -> str:
    found = _cells_of(found, "noise")
    means = table(found).groupby(["set", "method"])["log_loss"].mean().unstack()[list(NOISE)]
    noise = pd.DataFrame([{"set": cell.data, **record["noise"]} for cell, record in found.items()])
    shares = noise.groupby("set")["pool"].mean()
    body = [
        [name, *(f"{value:.5f}" for value in means.loc[name]), f"{100 * shares[name]:.3f} %", f"{shares[name] / 2:.5f}"]
        for name in NOISE_SETS
        if name in means.index
    ]
    gain = 100 * (1 - means["pool"] / means["no noise"])
    helped, hurt = gain[gain > 0].sort_values(ascending=False), gain[gain <= 0].drop("mushroom", errors="ignore")
    wins = {other: [int((s * (means["pool"] - means[other]) > 0).sum()) for s in (-1, 1)] for other in list(NOISE)[1:]}
    return fill(
        TEMPLATE,
        "noise",
        saved=", ".join(f"{share:.1f} % on {name}" for name, share in helped.items()),
        cost={"median": -hurt.median(), "most": -hurt.min()},
        n_sets=len(means),
        against=", ".join(f"{won}:{lost} against *{other}*" for other, (won, lost) in wins.items()),
        table=markdown(["set", *(f"*{name}*" for name in NOISE), "ε", "ε/2"], body),
    )
