"""What the pool's share of noisy labels costs and saves: learned, nearly nothing, and none at all.

A part of `benchmarks.studies.learning`, on its folds. `LearnedPool` learns a share ε of labels that say nothing.
Learning starts at 1 %, and the weak prior of its numbers lies around that. So the pool's least loss is about ε/2 of two
classes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import jaxunc as ju
from benchmarks.studies.learning.methods import markdown, measures, table

NOISE_SETS = (
    "mushroom", "wine", "iris", "breast-w", "banknote", "wdbc", "kr-vs-kp", "seeds", "dermatology", "ionosphere",
    "diabetes", "tic-tac-toe",
)  # fmt: skip
"""Sets on which forests make few errors, and two on which they make many."""
NOISE = {
    "pool": (None, "as it comes: learning starts at 1 %, and the prior lies around it"),
    "noise around .1 %": (1e-3, "`LearnedPool(prior, noise=1e-3)`"),
    "noise around .01 %": (1e-4, "`LearnedPool(prior, noise=1e-4)`"),
    "no noise": (0.0, '`fit_combiner(…, freeze=("noise",))`'),
}
"""Where the share of noisy labels starts (None: where it does by itself; 0: it is none), and what one writes."""


def run_noise(rows_of: Callable[[str], ju.learning.OobDataset], X_test, y_test) -> dict:
    """{"methods": {method: measures}, "noise": {method: ε}, "rows"} of a fold's out-of-bag rows."""
    rows = rows_of("both")
    found, learned = {}, {}
    for name, (start, _) in NOISE.items():
        told = {"noise": start} if start else {}
        rule = ju.LearnedPool(rows.prior, reads=rows.count_sets, **told)
        fitted = ju.learning.fit_combiner(rule, rows, freeze=() if start != 0 else ("noise",)).combiner
        found[name] = measures(np.asarray(rows.bind(fitted).probability(X_test), float), y_test)
        learned[name] = float(f"{float(fitted.noise):.4g}")
    return {"methods": found, "noise": learned, "rows": [rows.n, len(rows.prior)]}


def noise_section(found: dict[Any, dict]) -> list[str]:
    """Its section of the page, of the cells of this part."""
    frame = table(found)
    means = frame.groupby(["set", "method"])["log_loss"].mean().unstack()[list(NOISE)]
    noise = pd.DataFrame([{"set": cell.data, **record["noise"]} for cell, record in found.items()])
    shares = noise.groupby("set")["pool"].mean()
    body = [
        [name, *(f"{value:.5f}" for value in means.loc[name]), f"{100 * shares[name]:.3f} %", f"{shares[name] / 2:.5f}"]
        for name in [one for one in NOISE_SETS if one in means.index]
    ]
    gain = 1 - means["pool"] / means["no noise"]
    helped, hurt = gain[gain > 0].sort_values(ascending=False), gain[gain <= 0].drop("mushroom", errors="ignore")
    saved = ", ".join(f"{share:.1%} on {name}".replace("%", " %") for name, share in helped.items())
    against = [f"{_wins(means['pool'], means[other])} against *{other}*" for other in list(NOISE)[1:]]
    return [
        "## Why mushroom is the pool's worst set",
        "",
        "A forest makes no error there, so that all of the pool's log loss is what it keeps back. It learns a share ε",
        "of labels that say nothing: of two classes, a loss of about ε/2 in each row, whatever the leaves say. The",
        "prior of ε lies around 1 % and is worth one row. A few thousand rows without an error leave of it what they",
        "cannot exclude. A calibrator keeps nothing back.",
        "",
        f"Against no noise at all, it saves {saved}: where rows of",
        "the test are wrong for certain. On the others but mushroom it costs",
        f"{-hurt.median():.1%} in the median and {-hurt.min():.1%} at most.".replace("%", " %"),
        "So it is no defect. Who knows that all labels are clean leaves the noise out.",
        "",
        *(f"* *{name}*: {meaning}." for name, (_, meaning) in NOISE.items()),
        "",
        "Log loss (below 1e-15 taken for 1e-15), means over folds; ε is that of `pool`. Wins : losses of `pool` over",
        f"these {len(means)} sets: {', '.join(against)}.",
        "",
        *markdown(["set", *(f"*{name}*" for name in NOISE), "ε", "ε/2"], body),
    ]


def _wins(first: pd.Series, second: pd.Series) -> str:
    return f"{int((first < second).sum())}:{int((first > second).sum())}"
