"""Every rule and cautious report against the mean, and settled votes against the full vote."""

import jax
import numpy as np

import jaxunc as ju

from ..measure import on_device
from ..rule_costs import folds
from .forests import make_forest, make_rows
from .timing import WALK, Case, Cases, repeats, timed_against

QUICK_RULES = ("vote", "dempster")
MASSES = ("certainty", "leaf_size", "equal")
CONFIDENCE = 0.99


def size(quick: bool) -> tuple[int, int, int]:
    """Return depth, trees and rows; the rows fill calls of 32 768. Parts of one size share compiled programs."""
    return (4, 8, 2048) if quick else (8, 100, 2**19)


def rules_of(forest: ju.Forest, quick: bool) -> dict[str, ju.Combiner]:
    """Return the rules by name, all or a few."""
    return {name: rule for name, rule in folds(forest.prior).items() if not quick or name in QUICK_RULES}


def rules(quick: bool) -> Cases:
    """Each rule, then the mean with missing values, with a mask of trees, and of ten classes."""
    depth, n_trees, n = size(quick)
    forest, _ = make_forest(depth, n_trees)
    X = make_rows(n)
    mean = ju.bind(forest, ju.Mean(), walk=WALK)
    for name, rule in rules_of(forest, quick).items():
        yield _against(mean, name, lambda rule=rule: ju.bind(forest, rule, walk=WALK), X, quick)
    yield _against(mean, "mean, missing values", lambda: mean, make_rows(n, missing=0.1), quick, X)
    mask = np.random.default_rng(0).random((n, n_trees)) < 0.5
    yield _against(mean, "mean, mask of trees", lambda: lambda X: mean(X, tree_mask=mask), X, quick)
    ten, _ = make_forest(depth, n_trees, n_classes=10)
    yield _against(mean, "mean, ten classes", lambda: ju.bind(ten, ju.Mean(), walk=WALK), X, quick)


def reports(quick: bool) -> Cases:
    """Cautious reports: a class, a set, an interval and the masses."""
    depth, n_trees, n = size(quick)
    forest, _ = make_forest(depth, n_trees)
    X, mean = make_rows(n), ju.bind(forest, ju.Mean(), walk=WALK)
    for mass in MASSES[:1] if quick else MASSES:
        make = lambda mass=mass: ju.bind(forest, ju.decisions.CautiousReport(2.0, mass=mass), walk=WALK).answer
        yield _against(mean, mass, make, X, quick)


def _against(mean: ju.BoundForest, name: str, make, X: jax.Array, quick: bool, plain: jax.Array | None = None) -> Case:
    """Against the mean of the same rows, or of others without missing values."""

    def measure() -> dict:
        reference = on_device(mean, X if plain is None else plain)
        return timed_against(on_device(make(), X), reference, repeats(quick), "mean")

    return {"rule": name, "rows": len(X)}, measure


def votes(quick: bool) -> Cases:
    """Votes that stop once they are settled, in rounds that the host drives, against the vote of all trees."""
    depth, n_trees, sizes = (4, 32, (256,)) if quick else (8, 500, (100_000, 1_000, 1_000_000))
    for share in (0.65,) if quick else (0.8, 0.65):
        forest, _ = make_forest(depth, n_trees, share=share)
        whole = ju.bind(forest, ju.Vote(ties="literal"), walk=WALK)
        kinds = {"settled": {"confidence": CONFIDENCE}, "certain": {"criterion": "certain"}}
        for n in sizes:
            for name, settings in kinds.items():
                stopped = ju.voting.bind_vote(forest, **settings, walk=WALK)
                labels = {"votes": name, "share": share, "trees": n_trees, "rows": n}
                yield labels, lambda n=n, whole=whole, stopped=stopped: _polled(whole, stopped, n, quick)


def _polled(whole: ju.BoundForest, stopped, n: int, quick: bool) -> dict:
    X = np.asarray(make_rows(n))
    found = timed_against(lambda: stopped(X), lambda: np.asarray(whole(X)), repeats(quick), "full_vote")
    heard = stopped(X)
    full = np.argmax(np.asarray(whole(X)), axis=1)
    return {
        "mean_polled": float(heard.n_trees_used.mean()),
        "same_class": float((heard.predicted == full).mean()),
        **found,
    }
