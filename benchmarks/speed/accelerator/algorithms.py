"""What runs on devices beside scoring: growing random trees, learning."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

from ..learning import loss_of_weights
from .forests import make_forest, make_rows
from .timing import WALK, Cases, repeats, timed


def problem(n: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes, numeric features."""
    X, y = make_classification(n, n_features, n_informative=10, flip_y=0.1, random_state=0)
    return X.astype(np.float32), y


def growing(quick: bool) -> Cases:
    """100 random decision trees."""
    n_trees = 4 if quick else 100
    for n, least in ((300, 1),) if quick else ((20_000, 1), (20_000, 8), (100_000, 8)):
        X, y = problem(n, 30)
        grow = partial(ju.grow_random_trees, jax.random.key(0), X, y, n_trees=n_trees, min_samples_leaf=least)
        labels = {"rows": n, "columns": 30, "trees": n_trees, "min_samples_leaf": least}
        yield labels, lambda grow=grow: timed(lambda: jax.block_until_ready(grow()), repeats(quick))


def learning(quick: bool) -> Cases:
    """A step of the pure fold's gradient, and a learned pool."""
    for depth, n_trees, n in ((4, 4, 256),) if quick else ((8, 100, 8192), (8, 100, 2**19), (12, 100, 8192)):
        forest, _ = make_forest(depth, n_trees)
        labels = {"what": "gradient of the fold", "depth": depth, "trees": n_trees, "rows": n}
        yield labels, lambda forest=forest, n=n: _gradient(forest, n, quick)
    n, n_trees = (300, 50) if quick else (10_000, 100)
    yield {"what": "fit a learned pool", "trees": n_trees, "rows": n}, lambda: _fit(n, n_trees, quick)


def _gradient(forest: ju.Forest, n: int, quick: bool) -> dict:
    X, y = make_rows(n), jnp.asarray(np.random.default_rng(0).integers(0, 2, n))
    step = jax.jit(jax.value_and_grad(loss_of_weights(forest, walk=WALK)))
    step = step.lower(jnp.zeros(forest.n_trees), X, y).compile()
    found = timed(lambda: jax.block_until_ready(step(jnp.zeros(forest.n_trees), X, y)), repeats(quick))
    return found | {"temporary_bytes": step.memory_analysis().temp_size_in_bytes}


def _fit(n: int, n_trees: int, quick: bool) -> dict:
    X, y = problem(n, 30)
    model = RandomForestClassifier(n_trees, n_jobs=-1, random_state=0).fit(X, y)
    rows = ju.learning.oob_dataset(model, X, y)
    rule = ju.LearnedPool(rows.prior, reads=rows.count_sets)
    fit = partial(ju.learning.fit_combiner, rule, rows)
    return timed(lambda: jax.block_until_ready(fit().combiner.scale), repeats(quick)) | {"steps": int(fit().n_steps)}
