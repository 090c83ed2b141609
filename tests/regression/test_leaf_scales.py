"""Scales of the errors of boosted models, as values of their leaves, against float64 loops."""

import math
from itertools import product

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import jaxunc as ju
from jaxunc.regression import (
    LEVELS_OF_SCORES,
    Fold,
    LeafScales,
    learn_scale,
    scale_law,
    scale_steps,
    scale_table,
    trees_of,
)
from tests._refusal import refusals

RNG = np.random.default_rng(0)
N, N_TREES, N_NODES = 120, 20, 7
LEAVES = RNG.integers(3, N_NODES, (N_TREES, N)).astype(np.uint8)
WIDE = LEAVES[0] == 3
RESIDUAL = RNG.normal(size=N) * np.where(WIDE, 5.0, 0.5)
ONES = np.ones(N)


def steps_by_loops(leaves, residual, weight, shrinkage):
    """The base, and each leaf's step of log s², one row after another."""
    size = math.sqrt(sum(w * r * r for w, r in zip(weight, residual, strict=True)) / sum(weight))
    logs = [2 * math.log(abs(r) + 0.05 * size) for r in residual]
    base = sum(w * e for w, e in zip(weight, logs, strict=True)) / sum(weight)
    total, steps = [base] * len(residual), np.zeros((len(leaves), N_NODES))
    for t, row in enumerate(leaves):
        for leaf in set(row.tolist()):
            inside = [i for i in range(len(residual)) if row[i] == leaf]
            apart = sum(weight[i] * (logs[i] - total[i]) for i in inside)
            steps[t, leaf] = 0.1 * apart / (sum(weight[i] for i in inside) + shrinkage)
        total = [before + steps[t, row[i]] for i, before in enumerate(total)]
    return base, steps


@pytest.mark.parametrize("weight", [ONES, RNG.integers(0, 3, N).astype(float)], ids=["alike", "weights"])
def test_steps(weight):
    base, of_shrinkages = scale_steps(LEAVES, RESIDUAL, weight, (10.0, 50.0), N_NODES)
    for steps, shrinkage in zip(of_shrinkages, (10.0, 50.0), strict=True):
        expected_base, expected = steps_by_loops(LEAVES, RESIDUAL, weight, shrinkage)
        assert base == pytest.approx(expected_base, rel=1e-12)
        np.testing.assert_allclose(steps, expected, atol=1e-13)
        assert not steps[:, :3].any()  # no row came there
        assert steps[0, 3] > 0 > steps[0, 4:].max()


def test_weights_are_repeats():
    times = RNG.integers(0, 4, N)
    rows = np.repeat(np.arange(N), times)
    weighed = scale_steps(LEAVES, RESIDUAL, times.astype(float), (10.0,), N_NODES)
    repeated = scale_steps(LEAVES[:, rows], RESIDUAL[rows], np.ones(len(rows)), (10.0,), N_NODES)
    assert weighed[0] == pytest.approx(repeated[0], rel=1e-12)
    np.testing.assert_allclose(weighed[1], repeated[1], atol=1e-13)


def folds(residual=RESIDUAL, weight=ONES):
    for k in range(5):
        others, counted = np.arange(N) % 5 == k, np.arange(N) % 5 != k
        parts = [(LEAVES[:, part], residual[part], weight[part]) for part in (counted, others)]
        yield Fold(*parts[0], *parts[1], N_NODES)


def loss_by_loops(s, levels):
    z = np.quantile(RESIDUAL / s, levels)
    apart = RESIDUAL[:, None] - s[:, None] * z
    return np.mean(np.maximum(levels * apart, (levels - 1) * apart))


@pytest.mark.parametrize("score", sorted(LEVELS_OF_SCORES))
def test_the_setting_of_least_loss_is_taken(score):
    scale, levels, error = learn_scale(folds(), score), np.array(LEVELS_OF_SCORES[score]), np.mean(RESIDUAL**2)
    losses = {}
    for shrinkage, gain in product((10.0, 50.0), (1.0, 1.3, 1.6)):
        logs = np.zeros((11, N))
        for k, fold in enumerate(folds()):
            base, steps = steps_by_loops(fold.leaves, fold.residual, fold.weight, shrinkage)
            of_trees = steps[np.arange(N_TREES)[:, None], fold.other_leaves]
            logs[1:, np.arange(N) % 5 == k] = [base + gain * of_trees[: 2 * j].sum(axis=0) for j in range(1, 11)]
        for length, floor in [(0, 0.0), *product(range(1, 11), (3, 1, 0.3, 0.1, 0.03, 0.01, 0.001, 0))]:
            s = np.sqrt(np.exp(logs[length]) + floor * error)
            losses[shrinkage, gain, length / 10, floor] = loss_by_loops(s, levels), s
    least = min(loss for loss, _ in losses.values())
    alike = [key for key, (loss, _) in losses.items() if loss <= least * (1 + 1e-9)]
    taken = next(key for key in alike if key[:3] == (scale.shrinkage, scale.gain, scale.length))
    s = losses[taken][1]
    assert scale.factor == pytest.approx(np.mean((RESIDUAL / s) ** 2), rel=1e-9)
    assert scale.floor == pytest.approx(scale.factor * taken[3] * error, abs=1e-12)
    np.testing.assert_allclose(scale.residuals, np.sort(RESIDUAL / s / math.sqrt(scale.factor)), rtol=1e-9)
    assert np.mean(scale.residuals**2) == pytest.approx(1)


def test_one_width_for_all_and_residuals_that_are_zero():
    assert [trees_of(length, 25) for length in (0.0, 0.5, 1.0)] == [0, 12, 25]
    scale = learn_scale(folds(), "crps", constant=True)
    assert scale.length == 0
    np.testing.assert_allclose(scale.residuals, np.sort(RESIDUAL) / np.sqrt(np.mean(RESIDUAL**2)), rtol=1e-9)
    scale = learn_scale(folds(np.zeros(N)), "crps")
    assert scale.length == 0
    assert scale.factor == 1
    law = scale_law(scale, 0.0)
    assert not law.residuals.any()
    assert law.least == 1e-6


X = RNG.normal(size=(N, 3)).astype(np.float32)
MODEL = GradientBoostingRegressor(n_estimators=N_TREES, random_state=0).fit(X, 100 + X[:, 0] + RESIDUAL)
TREES = ju.from_any(MODEL)
STEPS = RNG.normal(size=(N_TREES, TREES.trees.n_nodes)) * 0.1
SCALES = LeafScales(scale_table(TREES, -1.0, STEPS, 0.25, 4.0))


def test_answers_are_sums_over_leaves():
    leaves, answer = np.asarray(ju.leaf_index(TREES.trees, X)), SCALES.answer(X)
    np.testing.assert_allclose(answer.mean, MODEL.predict(X), rtol=1e-6)
    square = 0.25 + np.exp(-1 + STEPS[np.arange(N_TREES), leaves].sum(axis=1))
    np.testing.assert_allclose(answer.aleatoric, square, rtol=1e-5)
    assert not answer.epistemic.any()
    one = LeafScales.of(SCALES.kept).answer(X[:1])
    assert (one.mean[0], one.aleatoric[0]) == (answer.mean[0], answer.aleatoric[0])


def test_a_base_in_a_tree_takes_no_digits():
    """LightGBM keeps the mean of the targets in the leaves of its first tree."""
    far = ju.additive.AdditiveTrees(TREES.trees, TREES.values, TREES.base + 1e6, "identity")
    moved = LeafScales(scale_table(far, -1.0, STEPS, 0.25, 4.0)).answer(X).mean - 1e6
    np.testing.assert_allclose(moved, SCALES.answer(X).mean, atol=0.1)  # the base is float32, as the model's


table = lambda **changes: lambda: LeafScales.of(SCALES.kept._replace(**changes))
test_refusals = refusals(
    ("link", table(link="softmax"), "link"),
    ("base", table(base=np.zeros(3)), "base"),
    ("floor", table(floor=-1.0), "below 0"),
    ("spread", table(spread=np.nan), "not finite"),
    ("values", table(table=SCALES.kept.table.at[0].set(np.inf)), "not finite"),
    ("shape", table(table=SCALES.kept.table[1:]), r"expected floats of shape \("),
)
