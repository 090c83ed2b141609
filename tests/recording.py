"""Every answer of every rule on a few forests, kept as bits: what a change that moves walls must not change.

    python -m tests.recording keep FILE.npz      # before the change
    python -m tests.recording compare FILE.npz   # after it; JAX_ENABLE_X64=1 for float64

Compilers of other machines round otherwise, so recordings are made anew where they are needed and not committed.
"""

import argparse
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._forests import toy_data
from tests._rules import RULES, make

N_TREES, N_INSTANCES = 9, 300


def forests(n_classes: int) -> dict[str, tuple[ju.Forest, np.ndarray, np.ndarray]]:
    """Forests by name, each with instances and their labels."""
    X, y = toy_data(n_classes)
    missing = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X).astype(np.float32)
    weight = np.random.default_rng(2).uniform(0.1, 3, len(y))
    model = RandomForestClassifier(N_TREES, min_samples_leaf=3, random_state=0)
    plain = ju.from_sklearn(model.fit(X, y))
    with_missing = ju.from_sklearn(model.fit(missing, y, sample_weight=weight))
    words = X.copy()
    words[:, 1:4] = np.floor(2.5 * np.abs(X[:, 1:4]))
    nominal = np.array([False, True, True, True, False, False])
    half = len(y) // 2
    grown = ju.grow_random_trees(jax.random.key(3), words[:half], y[:half], n_trees=N_TREES, nominal=nominal)
    found = {
        "plain": (plain, X[:N_INSTANCES], y[:N_INSTANCES]),
        "missing, weighted": (with_missing, missing[:N_INSTANCES], y[:N_INSTANCES]),
        "recounted": (ju.count_leaves(plain, X[half:], y[half:]), X[:N_INSTANCES], y[:N_INSTANCES]),
    }
    for mode in ("sum", "average", "parent", "zeros"):
        forest = grown.with_empty_leaves(mode)
        found[f"nominal, {mode}"] = (forest, words[half - 50 :], y[half - 50 :])
        recounted = ju.count_leaves(forest, words, y, sample_weight=weight)
        found[f"nominal, {mode}, recounted"] = (recounted, words[half - 50 :], y[half - 50 :])
    return found


def answers(n_classes: int) -> dict[str, np.ndarray]:
    """Every array that a rule answers, by forest, rule, way and read-out."""
    kept: dict[str, np.ndarray] = {}

    def keep(name: str, answer) -> None:
        for path, part in jax.tree_util.tree_leaves_with_path(answer):
            kept[f"{n_classes} {name} {jax.tree_util.keystr(path)}"] = np.asarray(part)

    rng = np.random.default_rng(4)
    for forest_name, (forest, X, _) in forests(n_classes).items():
        mask = rng.random((len(X), N_TREES)) < 0.7
        keep(f"{forest_name}: counts", forest.counts)
        if forest.empty_leaves != "average":
            counts = ju.leaf_counts(forest, X)
            keep(f"{forest_name}: leaf counts", counts)
        for name, rule in RULES.items():
            if n_classes > 2 and rule.binary_only:
                continue
            bound = ju.bind(forest, make(name, n_classes, N_TREES), threads=1)
            keep(f"{forest_name}: {name} bound", bound.answer(X))
            keep(f"{forest_name}: {name} masked", bound.answer(X, tree_mask=mask))
            if forest_name in ("plain", "nominal, parent"):
                keep(f"{forest_name}: {name} of counts", make(name, n_classes, N_TREES).answer(counts))
                keep(f"{forest_name}: {name} traced", jax.jit(bound.answer)(jnp.asarray(X)))
    plain, X, y = forests(n_classes)["plain"]
    counted = ju.count_leaves(plain, X, y)
    for name in ("mean", "vote", "evidence", "median", "weighted_mean"):
        rule = make(name, n_classes, N_TREES)
        keep(f"own: {name}", ju.counting.leave_one_out(counted, rule, X, y))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("keep", "compare"))
    parser.add_argument("file")
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {**answers(2), **answers(3)}
    if arguments.do == "keep":
        np.savez_compressed(arguments.file, **found)  # pyright: ignore[reportArgumentType]
        print(f"kept {len(found)} arrays in {arguments.file}")
        return
    before = np.load(arguments.file)
    different = 0
    for name in sorted({*before.files, *found}):
        if name not in before.files or name not in found:
            different += 1
            print(f"{'gone' if name in before.files else 'new'}: {name}")
        elif (a := before[name]).dtype != (b := found[name]).dtype or a.shape != b.shape:
            different += 1
            print(f"{name}: {a.dtype} {a.shape} before, {b.dtype} {b.shape} now")
        elif a.tobytes() != b.tobytes():
            differ = ~((a == b) | (np.isnan(a.astype(float)) & np.isnan(b.astype(float))))
            gap = np.max(np.abs(a[differ].astype(float) - b[differ]), initial=0)
            print(f"{name}: {differ.sum()} of {a.size} differ, by {gap:.3g} at most")
            different += bool(differ.any())
    print(f"{len(found)} arrays, {different} differ")
    raise SystemExit(different > 0)


if __name__ == "__main__":
    main()
