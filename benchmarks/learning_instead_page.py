"""The section of the study of learning on what users would do instead, made of its cells."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from benchmarks.learning_instead import INSTEAD
from benchmarks.learning_tables import duel, how_many, largest, markdown, table

GROUPS = {
    "other-sets": "On sets that nothing here was developed on",
    "development": "On the sets of development",
}
"""Parts whose sets and folds these methods are run on."""
WHAT_INSTEAD = """\
## Against what users would do instead

First on the sets that nothing here was developed on, then on those of development: on the folds of the first two parts
of this page, whose methods stand beside. Each row: how the method of the column did against it, as in the tables
before: wins : losses over sets, the median relative gain, **bold** by the signed-rank test.

Forests are tuned out of bag: least leaf 1 to 32, columns per split the root of their number, a quarter, a half, all.
The 24 candidates (fewer where columns coincide) are first grown with 50 trees (25 of more than 50 000 cells of data).
The best two by the mean's log loss, the best two by that of the mean with a temperature, and scikit-learn's own
settings are then grown with 200. Temperature or isotonic regression is chosen by a cross-validation of the calibrator
over out-of-bag answers. Both take a probability below 1e-6 for 1e-6.

Venn-Abers predictors (Vovk, Petej and Fedorova 2015) take each class against the rest. Isotonic regression with the
new row as a negative gives p0, as a positive p1; the answer is p1 / (1 - p0 + p1), normalised. The cross ones average
p1 and 1 - p0 over parts, geometrically. CaliForest (Park and Ho 2020) weighs a row of n out-of-bag trees whose answers
have the variance v by (100 + n/2) / (25 + n v/2), as its authors' code does: it weighs rows, not trees. Isotonic
regressions are clipped to 1/(n + 2).

The means of this part are scikit-learn's own, in float64. The row `mean` is the library's in float32, of a version
that gave 7e-9 where scikit-learn has 0: compare these two by the loss that takes 1e-6.
"""


def beside_instead(found: Mapping[Any, dict], part: str) -> dict[Any, dict]:
    """What users would do instead, on the sets of a part, with that part's methods of the same folds."""
    joined = {}
    for cell, record in found.items():
        beside = found.get(cell._replace(part=part)) if cell.part == "instead" else None
        if beside is not None:
            joined[cell] = {**record, "methods": record["methods"] | beside["methods"]}
    return joined


def instead_section(found: Mapping[Any, dict]) -> list[str]:
    """Its section of the page."""
    lines = [WHAT_INSTEAD, *(f"* *{name}*: {meaning}." for name, meaning in INSTEAD.items())]
    for part, title in GROUPS.items():
        if joined := beside_instead(found, part):
            lines += ["", f"### {title}", "", how_many(joined), *_group(joined)]
    return lines


def _group(joined: Mapping[Any, dict]) -> list[str]:
    frame, lines = table(joined), []
    shown = ("log_loss_clipped", "log_loss", "brier")
    titles = ("log loss, below 1e-6 taken for 1e-6", "log loss, 1e-15", "Brier score")
    for ours, text, others in (
        ("pool", "The learned pool on the forest as it comes", ["mean", "P", "isotonic", "blend", *INSTEAD]),
        ("pool, tuned", "The learned pool on the forest tuned for its mean", ["mean", "P", "pool", *list(INSTEAD)[:4]]),
        ("tuned mean", "The tuned mean", ["mean", "P", "isotonic"]),
        ("tuned mean, P", "The tuned mean and the best of sixteen calibrators", ["P", "tuned mean, calibrated"]),
        ("isotonic", "Plain isotonic regression", list(INSTEAD)[5:]),
    ):
        lines += ["", f"{text} (`{ours}`):", ""]
        body = [[f"`{m}`", *(duel(frame, ours, m, measure) for measure in shown)] for m in others if m != ours]
        lines += markdown([f"`{ours}` against", *titles], body)
    worst = largest(frame, "pool", "tuned mean, P", "log_loss_clipped")
    lines += ["", f"Largest log loss of `pool` as a share of that of `tuned mean, P`: {worst}."]
    return [*lines, "", _choices(joined)]


def _choices(found: Mapping[Any, dict]) -> str:
    chosen = pd.DataFrame([record["chosen"] | record["seconds"] for record in found.values()])
    leaves = chosen["tuned"].str[0].value_counts().sort_index()
    said = ", ".join(f"{leaf} in {n}" for leaf, n in leaves.items())
    isotonic = int((chosen["tuned"].str[2] == "isotonic").sum())
    return (
        f"Least leaf that was tuned for the mean: {said} of {len(chosen)} forests. Isotonic regression was taken for\n"
        f"{isotonic} of them, a temperature for the others. Tuning took {chosen['tune'].median():.0f} seconds "
        "in the median, other jobs beside included."
    )
