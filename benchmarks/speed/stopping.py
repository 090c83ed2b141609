"""``python -m benchmarks.speed.stopping``: what is saved by votes that stop when they are settled.

Against the library's own full vote with all cores; and what the size of blocks does for `bind` on wide data.
"""

import dataclasses
from unittest import mock

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import jaxunc as ju
from jaxunc.inference import _walk
from jaxunc.voting import BoundVote, bind_vote

from .machine import about, command, publish
from .measure import interleaved, say, speedup, summary

CONFIDENCE = 0.99
N_FEATURES, N_GROWN = 30, 20_000
SIZES = (1000, 10_000, 100_000)
FORESTS = {
    "random forest, leaf 8": (2, RandomForestClassifier, {"n_estimators": 500, "min_samples_leaf": 8}),
    "random forest, leaf 1": (2, RandomForestClassifier, {"n_estimators": 500}),
    "extra-trees, leaf 1": (2, ExtraTreesClassifier, {"n_estimators": 500}),
    "200 trees": (2, RandomForestClassifier, {"n_estimators": 200, "min_samples_leaf": 8}),
    "3 classes": (3, RandomForestClassifier, {"n_estimators": 500, "min_samples_leaf": 8}),
    "10 classes": (10, RandomForestClassifier, {"n_estimators": 500, "min_samples_leaf": 2}),
}
APART = {2: 0.45, 3: 0.7, 10: 1.6}
"""How far classes lie apart, by their number: so that an instance takes some 40 trees on average."""

WIDE = (30, 60, 200)


def data(n: int, n_classes: int, n_features: int = N_FEATURES) -> tuple[np.ndarray, np.ndarray]:
    """Classes around a few centres, some instances doubtful."""
    rng = np.random.default_rng(n_classes)
    centres = rng.normal(size=(n_classes, n_features)) * (np.arange(n_features) < 8) * APART[n_classes]
    y = rng.integers(0, n_classes, n)
    return (centres[y] + rng.normal(size=(n, n_features))).astype(np.float32), y


def polled(name: str, rows: int, repeats: int) -> list[dict]:
    """A forest's votes stopped, not stopped, certain, and never settled, at three sizes."""
    n_classes, kind, settings = FORESTS[name]
    X, y = data(N_GROWN + rows, n_classes)
    forest = ju.from_sklearn(kind(**settings, random_state=0, n_jobs=-1).fit(X[:N_GROWN], y[:N_GROWN]))
    X, whole = X[N_GROWN:], ju.bind(forest, ju.Vote(ties="literal"))
    votes = {
        "settled": bind_vote(forest, confidence=CONFIDENCE),
        "certain": bind_vote(forest, criterion="certain"),
        "nothing settles": _never(bind_vote(forest, confidence=CONFIDENCE)),
    }
    found = []
    for n in (size for size in SIZES if size <= rows):
        calls = {"full vote": lambda n=n: np.asarray(whole(X[:n]))}
        calls |= {label: lambda vote=vote, n=n: vote(X[:n]) for label, vote in votes.items()}
        times = interleaved(calls, repeats)
        heard = votes["settled"](X[:n])
        same = heard.predicted == np.argmax(np.asarray(whole(X[:n])), axis=1)
        row = {
            "forest": name,
            "instances": n,
            "mean_polled": float(heard.n_trees_used.mean()),
            "settled": float(heard.settled.mean()),
            "same_class": float(same.mean()),
            "certain_polled": float(votes["certain"](X[:n]).n_trees_used.mean()),
            "full_vote": summary(times["full vote"]),
            "speedup": {label: speedup(times[label], times["full vote"]) for label in votes},
        }
        found.append(row)
        by = row["speedup"].items()
        fast = [f"{label} {one['wall']['median']:.2f} (CPU {one['cpu']['median']:.2f})" for label, one in by]
        say(f"{name}, {n}: mean polled {row['mean_polled']:.1f}, times as fast: {', '.join(fast)}")
    return found


def _never(vote: BoundVote) -> BoundVote:
    """The same with a table that no vote reaches."""
    if vote.forest.n_classes == 2:
        vote.rule = dataclasses.replace(vote.rule, least=np.full_like(vote.rule.least, 2**30))
    else:
        vote.rule = dataclasses.replace(vote.rule, budget=np.array(-(2**30), np.int32))
    return vote


def wide(n_features: int, rows: int, repeats: int) -> dict:
    """`bind` with blocks that follow the number of columns, against blocks of 2048 instances."""
    X, y = data(8000 + rows, 2, n_features)
    model = RandomForestClassifier(100, min_samples_leaf=4, max_features=5, random_state=0, n_jobs=-1)
    bound, X = ju.bind(ju.from_sklearn(model.fit(X[:8000], y[:8000])), ju.Mean()), X[8000:]

    def fixed():
        with mock.patch.object(_walk, "BLOCKS", (2048,)):
            return np.asarray(bound(X))

    times = interleaved({"by columns": lambda: np.asarray(bound(X)), "blocks of 2048": fixed}, repeats)
    fast = speedup(times["by columns"], times["blocks of 2048"])
    say(f"{n_features} features: {fast['wall']['median']:.2f} times as fast as blocks of 2048")
    return {"features": n_features, "instances": rows, "speedup": fast}


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    parser = command("stopping", main.__doc__, 7)
    parser.add_argument("--forests", nargs="+", default=list(FORESTS), choices=FORESTS, metavar="NAME")
    options = parser.parse_args(arguments)
    rows = SIZES[0] if options.quick else SIZES[-1]
    result = about() | {"confidence": CONFIDENCE}
    result["votes"] = [row for name in options.forests for row in polled(name, rows, options.repeats)]
    result["wide"] = [wide(n, rows // 2, options.repeats) for n in WIDE]
    publish(result, options.output)


if __name__ == "__main__":
    main()
