"""``python -m benchmarks.speed.rows_chart``: time against the number of rows, drawn from a file of ``batch-sizes``."""

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from benchmarks.pages import save

RESULTS = Path(__file__).parent.parent / "results"
JAXUNC, OTHERS = "#0b5fa5", {"oneDAL": "#c2571a", "scikit-learn": "#5c5c5c", "treelite GTIL": "#9a9a9a"}
"""Colours; the engines that people use today in the order of their lines' importance."""


def draw(measured: list[dict[str, Any]], path: Path) -> None:
    """Draw the microseconds a row takes, a panel for each depth of 100 trees on 30 columns."""
    measured = [one for one in measured if (one["trees"], one["columns"]) == (100, 30)]
    plt.rcParams.update({"svg.fonttype": "none", "font.size": 10})
    shapes = list(dict.fromkeys(one["shape"] for one in measured))
    figure, axes = plt.subplots(1, len(shapes), figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
    for shape, ax in zip(shapes, axes, strict=True):
        for engine, colour in {**OTHERS, "jaxunc": JAXUNC}.items():
            found = [one for one in measured if (one["shape"], one["engine"]) == (shape, engine)]
            rows = [one["rows"] for one in found]
            middle, low, high = (
                [1e6 * one["steady_s"][part] / one["rows"] for one in found]
                for part in ("median", "first_quartile", "third_quartile")
            )
            width, size = (2.4, 5) if engine == "jaxunc" else (1.4, 3.5)
            ax.plot(rows, middle, "o-", color=colour, label=engine, linewidth=width, markersize=size)
            ax.fill_between(rows, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.set(title=f"100 trees, {shape}", xscale="log", yscale="log", xlabel="rows in a call")
        ax.grid(axis="y", color="#e4e4e4", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.04)
    axes[0].set_ylabel("microseconds a row")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside lower center", ncols=len(names), frameon=False)
    save(figure, path)
    plt.close(figure)


def main() -> None:
    """Read the file, write the picture beside it."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.rows_chart", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=RESULTS / "rows-cpu.json")
    path = parser.parse_args().file
    draw(json.loads(path.read_text())["sections"]["batch-sizes"], path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
