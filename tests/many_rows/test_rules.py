"""Rules on many rows: values, read-outs and gradients of optimised programs, against float64 loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._forests import forest_of_leaves
from tests._rules import CASES, RULES, by_rule, check_same, expected_scores, make
from tests.many_rows._drawn import DISTINCT, SIZES, TREES, distinct_leaves, distinct_scores, drawn

pytestmark = pytest.mark.exhaustive

MANY, MILLION = SIZES
# Each kind of statistic: floats, integers, logarithms, roots, several rules. Those of a grid would need gigabytes.
_KINDS = ("mean", "vote", "pooling", "evidence", "dempster", "cautious", "median", "learned_pool", "together")
IN_A_MILLION = [case for case in CASES if case.values[0] in _KINDS and case.values[1] == 2]
_SMOOTH = (
    "mean", "mean_plausibility", "pooling", "evidence", "evidence_veto", "dempster", "dempster_prior", "beta_exact",
)  # fmt: skip
DIFFERENTIATED = [
    case for case in CASES if case.values[0] in (*_SMOOTH, "learned_pool", "weighted_mean", "calibrated_one_vs_rest")
]


def check_rows(name, n_classes, answer, n_rows, tolerance):
    """Class scores are those of the loops, row by row."""
    for key, one in by_rule(answer).items():
        expected = distinct_scores(name, n_classes)[key][drawn(n_rows)]
        tolerance.check(one.class_scores, expected, kind=RULES[name].kind, scale=1.0, what=key)


@pytest.mark.parametrize(
    ("name", "n_classes", "n_rows"),
    [
        pytest.param(*case.values, n_rows, id=f"{case.id}-{n_rows}")
        for n_rows, cases in ((MANY, CASES), (MILLION, IN_A_MILLION))
        for case in cases
    ],
)
def test_answers(name, n_classes, n_rows, tolerance):
    rule, leaves = make(name, n_classes, TREES), distinct_leaves(n_classes)
    answer = jax.tree.map(np.asarray, rule.answer(jnp.asarray(leaves[drawn(n_rows)])))
    check_rows(name, n_classes, answer, n_rows, tolerance)
    few = rule.answer(jnp.asarray(leaves))
    check_same(tolerance, name, answer, jax.tree.map(lambda part: np.asarray(part)[drawn(n_rows)], few))


@pytest.mark.parametrize(("name", "n_classes"), [("evidence", 2), ("dempster", 2), ("together", 3)])
@pytest.mark.parametrize("n_rows", SIZES)
def test_answers_through_a_forest(name, n_classes, n_rows, tolerance):
    forest, X = forest_of_leaves(distinct_leaves(n_classes))
    bound = ju.bind(forest, make(name, n_classes, TREES))
    check_rows(name, n_classes, bound.answer(X[drawn(n_rows)]), n_rows, tolerance)


def slopes_of(name: str, counts: np.ndarray, step: float) -> np.ndarray:
    """Slopes of class scores by counts, ``[instances scores trees classes]``: central differences of the loops."""
    slopes = np.empty((*counts.shape[:1], counts.shape[2], *counts.shape[1:]))
    for place in np.ndindex(*counts.shape[1:]):
        moved = np.zeros(counts.shape[1:])
        moved[place] = step
        above, below = (expected_scores(name, counts + way)[""] for way in (moved, -moved))
        slopes[(..., *place)] = (above - below) / (2 * step)
    return slopes


@pytest.mark.parametrize(("name", "n_classes"), DIFFERENTIATED)
def test_gradients(name, n_classes, rng):
    rule, few = make(name, n_classes, TREES), distinct_leaves(n_classes, positive=True)[: DISTINCT // 4]
    rows = drawn(MANY) % len(few)
    # Scores that are logarithms up to a common constant have slopes up to one.
    direction = rng.normal(size=(MANY, n_classes))
    direction -= direction.mean(axis=1, keepdims=True)

    def total(counts):
        return jnp.sum(rule.answer(counts).class_scores * jnp.asarray(direction, counts.dtype))

    gradient = jax.jit(jax.grad(total))(jnp.asarray(few[rows], float))
    expected = np.einsum("rs,rskc->rkc", direction, slopes_of(name, few, 1e-5)[rows])
    np.testing.assert_allclose(gradient, expected, atol=2e-5 * np.abs(expected).max(), rtol=2e-4)
