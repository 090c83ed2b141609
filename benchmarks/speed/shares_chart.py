"""``python -m benchmarks.speed.shares_chart``: time of engines as a share of another's, drawn from files of results.

Of ``speed-cpu.json`` forests, as shares of scikit-learn's time; of ``imported-cpu.json`` models of other libraries, as
shares of the processor time of the library's own ``predict``. Each picture lies beside its file.
"""

import json
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from benchmarks.pages import save

from .rows_chart import JAXUNC, RESULTS

OTHERS = {
    "oneDAL": ("#c2571a", "s"),
    "ONNX Runtime": ("#8a5fb0", "D"),
    "YDF": ("#2e8b6f", "^"),
    "lleaves": ("#b08a00", "v"),
    "lignum": ("#b03a5b", "p"),
    "treelite's GTIL": ("#9a9a9a", "P"),
    "YDF's JAX export": ("#5c5c5c", "X"),
}
"""Colours and marks of the engines beside this library's."""


class Share(NamedTuple):
    """What an engine took, of the time that it is compared with."""

    middle: float
    low: float
    high: float


def of_forests(file: dict[str, Any]) -> dict[str, dict[str, Share]]:
    """Shares of scikit-learn's time, by forest and engine."""
    name = lambda work: f"{work['what']}\n{work['n_instances'] // 1000} 000 × {work['n_features']}"
    shares = lambda work: _shares(work["engines"], "ratio_to_scikit_learn", "scikit-learn")
    return {name(work): shares(work) for work in file["workloads"]}


def of_models(file: dict[str, Any]) -> dict[str, dict[str, Share]]:
    """Shares of the library's own processor time, by model and engine."""
    name = lambda model: f"{model['library']}\n{model['trees']} trees"
    return {name(model): _shares(model["engines"], "cpu_ratio_to_own", "own") for model in file["models"]}


def _shares(engines: list[dict[str, Any]], ratio: str, base: str) -> dict[str, Share]:
    named = {one["name"].replace("treelite GTIL", "treelite's GTIL"): one[ratio] for one in engines}
    parts = ("median", "first_quartile", "third_quartile")
    return {name: Share(*(of[part] for part in parts)) for name, of in named.items() if name != base}


def draw(shares: dict[str, dict[str, Share]], base: str, name: str) -> None:
    """Draw a line of marks for each forest or model, on a logarithmic axis; left of 1 is faster."""
    plt.rcParams.update({"svg.fonttype": "none", "font.size": 10})
    figure, ax = plt.subplots(figsize=(9, 1.3 + 0.55 * len(shares)), layout="constrained")
    places = np.arange(len(shares))[::-1]
    ax.hlines(places, 0.04, 40, color="#e4e4e4", linewidth=0.6, zorder=0)
    ax.axvline(1, color="#5c5c5c", linewidth=1)
    for engine, (colour, mark) in {**OTHERS, "jaxunc": (JAXUNC, "o")}.items():
        found = [(place, of[engine]) for place, of in zip(places, shares.values(), strict=True) if engine in of]
        if found:
            at, values = zip(*found, strict=True)
            middle, low, high = zip(*values, strict=True)
            ax.hlines(at, low, high, color=colour, linewidth=2, alpha=0.4)
            ax.plot(middle, at, mark, color=colour, label=engine, markersize=9 if engine == "jaxunc" else 6)
    least, most = _around(shares)
    ax.set(xscale="log", xlim=(least, most), ylim=(-0.6, len(shares) - 0.4), yticks=places)
    ax.set_xlabel(f"time, as a share of {base}: left of 1 is faster")
    ax.set_yticklabels(shares)
    ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if least <= tick <= most]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside lower center", ncols=4, frameon=False)
    save(figure, RESULTS / f"{name}.svg")
    plt.close(figure)


def _around(shares: dict[str, dict[str, Share]]) -> tuple[float, float]:
    values = [value for of in shares.values() for share in of.values() for value in share]
    return min(values) / 1.25, max(values) * 1.25


def main() -> None:
    """Read both files, write a picture beside each."""
    forests, models = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("speed-cpu", "imported-cpu"))
    draw(of_forests(forests), "scikit-learn's", "speed-cpu")
    draw(of_models(models), "that of the library's own predict (of processors)", "imported-cpu")


if __name__ == "__main__":
    main()
