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


@pytest.mark.parametrize("normalized", [False, True])
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
    """Certain masses against each other: all is conflict; normalised: zeros."""
    masses = jnp.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(ju.belief.conjunctive_fold(masses), [1, 0, 0, 0])
    np.testing.assert_array_equal(ju.belief.conjunctive_fold(masses, normalized=True), np.zeros(4))
    gradient = jax.grad(lambda m: jnp.sum(ju.belief.conjunctive_fold(m, normalized=True)))(masses)
    assert np.all(np.isfinite(gradient))


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
