"""Draw `gain.svg` of the front page from the cells of the study of learning: ``python docs/figures/gain.py``."""

import gzip
import json
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "benchmarks" / "studies" / "learning" / "cells.jsonl.gz"
CLIPPED = 6  # the place of the log loss of probabilities that are at least 1e-6
LEFT, WIDTH, ROW, TOP = 130, 430, 15, 58


def quotients() -> dict[str, float]:
    """The learned pool's log loss as a share of the mean's, by data set, least first."""
    losses = defaultdict(lambda: [0.0, 0.0])
    with gzip.open(CELLS, "rt", encoding="utf-8") as lines:
        for cell in map(json.loads, lines):
            if cell["cell"][0] == "other-sets":
                for i, method in enumerate(("pool", "mean")):
                    losses[cell["cell"][1]][i] += cell["methods"][method][CLIPPED]
    found = {name: pool / mean for name, (pool, mean) in losses.items()}
    return dict(sorted(found.items(), key=lambda entry: entry[1]))


def drawing() -> str:
    """The picture: a bar for each set, and a line where the two are equal."""
    found, bars = quotients(), []
    for row, (name, share) in enumerate(found.items()):
        y, colour = TOP + row * ROW, "#0a7d91" if share < 1 else "#d55e00"
        bars += [
            f'<text x="{LEFT - 6}" y="{y + 10}" text-anchor="end">{name}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{share * WIDTH:.1f}" height="{ROW - 4}" fill="{colour}"/>',
            f'<text x="652" y="{y + 10}" text-anchor="end">{share:.2f}</text>',
        ]
    less = sum(share < 1 for share in found.values())
    high, equal = TOP + len(found) * ROW, LEFT + WIDTH
    key = [
        f'<rect x="{LEFT}" y="8" width="11" height="11" fill="#0a7d91"/>',
        f'<text x="{LEFT + 16}" y="18">less loss than the mean of probabilities: {less} data sets</text>',
        f'<rect x="{LEFT}" y="26" width="11" height="11" fill="#d55e00"/>',
        f'<text x="{LEFT + 16}" y="36">more: {len(found) - less}</text>',
        f'<text x="{equal}" y="50" text-anchor="middle">1 = the mean</text>',
        f'<line x1="{equal}" y1="{TOP - 4}" x2="{equal}" y2="{high}" stroke="#1c1c1c" stroke-dasharray="3 3"/>',
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {high + 6}" width="660" height="{high + 6}"'
    style = 'font-family="system-ui, \'DejaVu Sans\', sans-serif" font-size="12" fill="#1c1c1c"'
    return "\n".join(
        [f"{head} {style}>", f'<rect width="660" height="{high + 6}" fill="#fff"/>', *key, *bars, "</svg>\n"]
    )


if __name__ == "__main__":
    Path(__file__).with_name("gain.svg").write_text(drawing(), encoding="utf-8")
