"""The conjunctive rule: reference values, the definition set by set, the closed form of Dempster's rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxunc as ju
from tests import _reference as reference
from tests._forests import random_counts
from tests._golden import golden
from tests._refusal import refuses

GENERAL = golden("belief_general")


@pytest.mark.parametrize("entry", GENERAL, ids=lambda e: f"{e['C']} classes, {e['K']} masses")
@pytest.mark.exhaustive(keep=2)
def test_golden(entry, tolerance):
    masses = np.array(entry["masses_singletons_then_omega"])
    masses = jnp.asarray(np.concatenate([np.zeros((len(masses), 1)), masses], axis=1))
    combined, expected = ju.belief.conjunctive_fold(masses), entry["dempster"]
    # m(∅) is one minus what is left
    tolerance.check(combined[0], expected["empty"], scale=1.0)
    tolerance.check(combined[1:-1], expected["singletons"])
    tolerance.check(combined[-1], expected["omega"])
    normalized, expected = ju.belief.conjunctive_fold(masses, normalized=True), entry["dempster_normalised"]
    assert normalized[0] == 0
    tolerance.check(normalized[1:-1], expected["singletons"])
    tolerance.check(normalized[-1], expected["omega"])


@pytest.mark.parametrize("name", ["three_masses_04", "conflict_08_08_098"])
def test_paper_examples(name, tolerance):
    example, sets = golden("paper_examples")[name], ("empty", "neg", "pos", "omega")
    masses = jnp.asarray(np.array([[mass[s] for s in sets] for mass in example["inputs"]]))
    combined = ju.belief.conjunctive_fold(masses)
    expected = example["dempster"]
    tolerance.check(combined, [expected["unnormalised"][s] for s in sets])
    tolerance.check(combined[2] - combined[1], expected["score"])
    normalized = ju.belief.conjunctive_fold(masses, normalized=True)
    tolerance.check(normalized, [expected["normalised"][s] for s in sets])


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_definition(n_classes, rng, tolerance):
    """Every pair of sets intersected, one mass function after the other, unnormalised inputs' ∅ included."""
    sets = [frozenset(), *(frozenset({c}) for c in range(n_classes)), frozenset(range(n_classes))]
    masses = rng.dirichlet(np.ones(len(sets)), size=(6, 4))
    combined = ju.belief.conjunctive_fold(jnp.asarray(masses))
    for row, actual in zip(masses, combined, strict=True):
        total = dict(zip(sets, row[0], strict=True))
        for mass in row[1:]:
            total = reference.conjunctive(total, dict(zip(sets, mass, strict=True)))
        tolerance.check(actual, [total[s] for s in sets], scale=1.0)


@pytest.mark.once
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.exhaustive
def test_dempsters_rule_is_the_fold_of_the_leaves(normalized, rng, tolerance):
    counts = random_counts(rng, (30, 5), 2, largest=12)
    leaves = [[reference.leaf_mass(*leaf, eps=1e-5) for leaf in row] for row in counts.tolist()]
    masses = np.array([[list(mass.values()) for mass in row] for row in leaves])
    combined = np.asarray(ju.belief.conjunctive_fold(jnp.asarray(masses), normalized=normalized), np.float64)
    answer = ju.DempsterRule(normalized).answer(jnp.asarray(counts))
    tolerance.check(answer.score, combined[:, 2] - combined[:, 1], kind="pi", scale=1.0)
    if normalized:
        tolerance.check(answer.probability[:, 1], combined[:, 2] + combined[:, 3] / 2, kind="pi", scale=1.0)


def test_omega_is_neutral_and_the_empty_set_absorbs(rng):
    mass = rng.dirichlet(np.ones(4))
    neutral, absorbing = np.array([0.0, 0, 0, 1]), np.array([1.0, 0, 0, 0])
    fold = lambda *masses: np.asarray(ju.belief.conjunctive_fold(jnp.asarray(np.stack(masses))))
    np.testing.assert_allclose(fold(mass, neutral), mass, rtol=1e-6)
    np.testing.assert_allclose(fold(mass, absorbing), absorbing, atol=1e-6)


def test_total_conflict():
    """Certain masses against each other: all is conflict, and stays so where there is nothing to divide."""
    masses = jnp.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    for normalized in (False, True):
        combined = ju.belief.conjunctive_fold(masses, normalized=normalized)
        np.testing.assert_array_equal(combined, [1, 0, 0, 0])
        np.testing.assert_array_equal(ju.belief.pignistic(combined), 0.5)
        np.testing.assert_array_equal(ju.belief.commonality(combined), 0)
        np.testing.assert_array_equal(ju.belief.discount(combined, 0.25), [0.25, 0, 0, 0.75])
    gradient = jax.grad(lambda m: jnp.sum(ju.belief.conjunctive_fold(m, normalized=True)))(masses)
    assert np.all(np.isfinite(gradient))


def normalised_by_logarithms(masses: np.ndarray) -> np.ndarray:
    """Dempster's rule from products of commonalities, in logarithms: m({c}) = Q_c - Q_Ω."""
    with np.errstate(divide="ignore", invalid="ignore"):
        omega = np.log(masses[..., -1:]).sum(axis=-2)
        ratios = np.log1p(masses[..., 1:-1] / masses[..., -1:]).sum(axis=-2)
        both = np.log(masses[..., 1:-1] + masses[..., -1:]).sum(axis=-2)
        singles = np.where(np.isneginf(omega), both, omega + np.log(np.expm1(np.minimum(ratios, 700))))
        singles = np.where(ratios > 700, both, singles)
    rest = np.concatenate([singles, omega], axis=-1)
    rest = np.exp(rest - rest.max(axis=-1, keepdims=True))
    return np.concatenate([np.zeros_like(rest[..., :1]), rest / rest.sum(axis=-1, keepdims=True)], axis=-1)


def crowds(rng, n_trees: int, n_classes: int) -> np.ndarray:
    """Mass functions ``[instances trees sets]`` that leave nearly everything to ∅: mixed ones, some with mass on ∅;
    such that nearly agree; certain ones for a class that most others deny; doubts about it all."""
    mixed = rng.dirichlet(np.ones(n_classes + 2), n_trees)
    near = np.full((n_trees, n_classes + 2), 1.0)
    near[:, 0], near[:, -1] = 0, 0.25
    near[:: n_trees // 5, 1] = 1.5
    denied = np.tile(np.array([0.0, 1e-4, *[0.9 / (n_classes - 1)] * (n_classes - 1), 0.0999]), (n_trees, 1))
    denied[n_trees // 2 :: 50, 1:] = 0
    denied[n_trees // 2 :: 50, 1] = 1.0
    doubts = np.zeros((n_trees, n_classes + 2))
    doubts[np.arange(n_trees), 1 + np.arange(n_trees) % n_classes] = 1e-3
    doubts[:, -1] = 1 - 1e-3
    crowd = np.stack([mixed, near, denied, doubts])
    return crowd / crowd.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_trees", [1000, 10_000])
@pytest.mark.exhaustive(keep=1)
def test_many_trees(n_trees, n_classes, rng, x64):
    """Unnormalised only ∅ is left of them; normalised what it is of."""
    masses = crowds(rng, n_trees, n_classes).astype(np.float64 if x64 else np.float32)
    combined = np.asarray(ju.belief.conjunctive_fold(jnp.asarray(masses), normalized=True))
    rtol = 1e-14 * n_trees if x64 else 2e-7 * n_trees**0.75
    np.testing.assert_allclose(combined, normalised_by_logarithms(masses.astype(float)), rtol=rtol, atol=1e-30)
    np.testing.assert_allclose(combined[:2, 1:].sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(combined[2, 1], 1, rtol=1e-6)
    plain = np.asarray(ju.belief.conjunctive_fold(jnp.asarray(masses[:3])))
    np.testing.assert_allclose(plain[:, 0], 1, atol=1e-6 if x64 else 1e-3)


@pytest.mark.parametrize("n_trees", [1000, 10_000])
def test_gradients_of_many_trees(n_trees, rng, x64):
    """Finite, and of the logarithms' closed form where no mass is 0."""
    masses = crowds(rng, n_trees, 2).astype(np.float64 if x64 else np.float32)
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(ju.belief.conjunctive_fold(m, normalized=True)[:, 1])))
    by_masses = np.asarray(gradient(jnp.asarray(masses)))
    assert np.all(np.isfinite(by_masses))
    exact, place = masses[1].astype(float), (n_trees // 2, 1)
    step = 1e-6
    moved = np.stack([exact, exact])
    moved[0][place] += step
    moved[1][place] -= step
    values = normalised_by_logarithms(moved)[:, 1]
    np.testing.assert_allclose(by_masses[1][place], (values[0] - values[1]) / (2 * step), rtol=1e-5 if x64 else 2e-3)


@pytest.mark.exhaustive
def test_an_excluded_class_keeps_its_slope(x64):
    """One tree denies class 0: letting it in moves the answer, by as much as the rest of the trees speak for it."""
    masses = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.25, 0.25], [0.0, 0.5, 0.25, 0.25]])
    gradient = jax.grad(lambda m: ju.belief.conjunctive_fold(m, normalized=True)[1])(jnp.asarray(masses))
    # m({0}) = Q_0/(Q_0 + Q_1 - Q_Ω), Q_0 = m_1({0}) 0.75², Q_1 = 0.5²
    np.testing.assert_allclose(gradient[0, 1], 0.5625 / 0.25, rtol=1e-6)
    many = np.concatenate([masses[:1], np.tile([[0.0, 0.98, 0.01, 0.01]], (1000, 1))])
    combined = ju.belief.conjunctive_fold(jnp.asarray(many), normalized=True)
    np.testing.assert_array_equal(combined, [0, 0, 1, 0])
    gradient = np.asarray(jax.grad(lambda m: ju.belief.conjunctive_fold(m, normalized=True)[1])(jnp.asarray(many)))
    assert np.all(np.isfinite(gradient))
    assert gradient[0, 1] > 1e9


def test_transforms(rng, tolerance, x64):
    masses = jnp.asarray(rng.dirichlet(np.ones(4), size=(3, 4)))
    eager = ju.belief.conjunctive_fold(masses)
    tolerance.check(jax.jit(ju.belief.conjunctive_fold)(masses), eager)
    tolerance.check(jax.vmap(ju.belief.conjunctive_fold)(masses), eager)
    if x64:
        fold = lambda m: ju.belief.conjunctive_fold(m, normalized=True)
        check_grads(fold, (masses,), order=1, modes=("fwd", "rev"), eps=1e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("masses", "match"),
    [
        (np.ones(4) / 4, "masses has shape"),
        (np.ones((3, 2)) / 2, "masses has shape"),
        (np.array([[0.5, -0.5, 0.5, 0.5]]), "masses must be"),
        (np.array([[0.5, 0.5, 0.5, 0.5]]), "masses must be"),
    ],
)
def test_errors(masses, match):
    with refuses(ValueError, match):
        ju.belief.conjunctive_fold(jnp.asarray(masses))
