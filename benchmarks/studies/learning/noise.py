"""What the pool's share of noisy labels costs and saves: learned, nearly nothing, and none at all.

A part of `benchmarks.studies.learning`, on its folds. `LearnedPool` learns a share ε of labels that say nothing.
Learning starts at 1 %, and the weak prior of its numbers lies around that. So the pool's least loss is about ε/2 of two
classes.
"""

from collections.abc import Callable

import numpy as np

import jaxunc as ju
from benchmarks.studies.learning.methods import measures

NOISE_SETS = (
    "mushroom", "wine", "iris", "breast-w", "banknote", "wdbc", "kr-vs-kp", "seeds", "dermatology", "ionosphere",
    "diabetes", "tic-tac-toe",
)  # fmt: skip
"""Sets on which forests make few errors, and two on which they make many."""
NOISE = {"pool": None, "noise around .1 %": 1e-3, "noise around .01 %": 1e-4, "no noise": 0.0}
"""Where the share of noisy labels starts (None: where it does by itself; 0: it is none)."""


def run_noise(rows_of: Callable[[str], ju.learning.OobDataset], X_test, y_test) -> dict:
    """{"methods": {method: measures}, "noise": {method: ε}, "rows"} of a fold's out-of-bag rows."""
    rows = rows_of("both")
    found, learned = {}, {}
    for name, start in NOISE.items():
        told = {"noise": start} if start else {}
        rule = ju.LearnedPool(rows.prior, reads=rows.count_sets, **told)
        fitted = ju.learning.fit_combiner(rule, rows, freeze=() if start != 0 else ("noise",)).combiner
        found[name] = measures(np.asarray(rows.bind(fitted).probability(X_test), float), y_test)
        learned[name] = float(f"{float(fitted.noise):.4g}")
    return {"methods": found, "noise": learned, "rows": [rows.n, len(rows.prior)]}
