"""The cautious rule: reference values, the definition on all subsets, and the laws that it obeys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxunc import belief
from tests._golden import golden
from tests._refusal import refuses
from tests.belief._powerset import as_sets, canonical_weights, cautious, random_masses

SETS = ("empty", "neg", "pos", "omega")


def twenty_trees(masses, rule: str) -> jax.Array:
    """The masses ``[trees sets]`` and more of them: neutral ones, or (for the cautious rule) the last again."""
    masses = np.asarray(masses, float)
    vacuous = np.eye(masses.shape[-1])[-1]
    more = np.tile(masses[-1] if rule == "cautious" else vacuous, (20 - len(masses), 1))
    return jnp.asarray(np.concatenate([masses, more]))


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("rule", ["dempster", "cautious"])
@pytest.mark.exhaustive(keep=2)
def test_reference_values(rule, number, tolerance):
    entry = golden("belief_general")[number]
    fold = belief.cautious_fold if rule == "cautious" else belief.conjunctive_fold
    masses = np.array(entry["masses_singletons_then_omega"])
    masses = np.concatenate([1 - masses.sum(axis=-1, keepdims=True).round(12), masses], axis=-1).clip(0)
    masses = twenty_trees(masses, rule)
    want = entry[rule]
    tolerance.check(fold(masses), [want["empty"], *want["singletons"], want["omega"]], scale=1.0)
    want = entry[f"{rule}_normalised"]
    tolerance.check(fold(masses, normalized=True), [0.0, *want["singletons"], want["omega"]], scale=1.0)


@pytest.mark.parametrize("example", ["three_masses_04", "conflict_08_08_098"])
@pytest.mark.parametrize("rule", ["dempster", "cautious"])
def test_examples_of_the_paper(rule, example, tolerance):
    entry = golden("paper_examples")[example]
    fold = belief.cautious_fold if rule == "cautious" else belief.conjunctive_fold
    masses = twenty_trees([[mass[a] for a in SETS] for mass in entry["inputs"]], rule)
    for normalized, key in ((False, "unnormalised"), (True, "normalised")):
        want = [entry[rule][key][a] for a in SETS]
        tolerance.check(fold(masses, normalized=normalized), want, scale=1.0, what=key)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_definition_on_all_subsets(n_classes, rng, tolerance):
    masses = random_masses(rng, (24, 6), n_classes)
    result = belief.cautious_fold(jnp.asarray(masses))
    tolerance.check(result, [cautious(group) for group in masses], scale=1.0)


def test_one_tree_and_the_same_tree_often(rng, tolerance):
    masses = random_masses(rng, (24, 1), 3)
    assert max(canonical_weights(as_sets(m[0]))[frozenset()] for m in masses) > 1
    for trees in (1, 1000):
        result = belief.cautious_fold(jnp.asarray(np.tile(masses, (1, trees, 1))))
        tolerance.check(result, masses[:, 0], scale=1.0, what=f"{trees} trees")


def test_order_and_brackets_do_not_matter(rng, tolerance):
    masses = random_masses(rng, (24, 6), 3)
    whole = belief.cautious_fold(jnp.asarray(masses))
    np.testing.assert_array_equal(belief.cautious_fold(jnp.asarray(masses[:, rng.permutation(6)])), whole)
    pairs = belief.cautious_fold(jnp.asarray(masses.reshape(24, 3, 2, 5)))
    tolerance.check(belief.cautious_fold(pairs), whole, scale=1.0)


def test_more_trees_are_more_committed(rng):
    masses = random_masses(rng, (24, 6), 3)
    fewer = np.concatenate([masses[:, :3], masses[:, :3]], axis=1)
    q_more, q_fewer = (belief.commonality(belief.cautious_fold(jnp.asarray(m))) for m in (masses, fewer))
    assert np.all(np.asarray(q_more) <= np.asarray(q_fewer) + 1e-6)


def test_normalisation_commutes(rng, tolerance):
    masses = random_masses(rng, (24, 6), 3)
    before = masses * (np.arange(5) > 0)
    before /= before.sum(axis=-1, keepdims=True)
    late = belief.cautious_fold(jnp.asarray(masses), normalized=True)
    tolerance.check(belief.cautious_fold(jnp.asarray(before), normalized=True), late, scale=1.0)
    np.testing.assert_allclose(late.sum(axis=-1), 1, rtol=1e-6)
    assert np.all(np.asarray(late)[:, 0] == 0)


def test_nearly_certain_sources(x64, tolerance):
    """Each class has sources that are all but certain, so that every product underflows: no 0/0, and equal shares."""
    ignorance = 1e-100 if x64 else 1e-30
    masses = np.zeros((20, 6))
    masses[np.arange(20), 1 + np.arange(20) % 4], masses[:, -1] = 1 - ignorance, ignorance
    result = belief.cautious_fold(jnp.asarray(masses), normalized=True)
    tolerance.check(result, [0, 0.25, 0.25, 0.25, 0.25, 0], scale=1.0)
    tolerance.check(belief.cautious_fold(jnp.asarray(masses)), [1, 0, 0, 0, 0, 0], scale=1.0)


def test_transforms(rng, tolerance):
    masses = jnp.asarray(random_masses(rng, (4, 5, 6), 2))
    eager = belief.cautious_fold(masses)
    assert eager.shape == (4, 5, 4)
    assert eager.dtype == masses.dtype
    tolerance.check(jax.jit(jax.vmap(jax.vmap(belief.cautious_fold)))(masses), eager, scale=1.0)


@pytest.mark.exhaustive
def test_gradient(rng, x64):
    @jax.jit
    def of_logits(x):
        masses = jax.nn.softmax(x)
        return belief.cautious_fold(masses), belief.cautious_fold(masses, normalized=True)

    step, error = (1e-6, 1e-6) if x64 else (1e-2, 3e-2)
    check_grads(of_logits, (jnp.asarray(rng.normal(size=(3, 4, 5))),), 1, ["rev"], error, error, step)


def test_gradient_is_finite_at_the_edge(x64):
    """Simple, vacuous and contradictory masses, and ignorance at the documented limit."""
    low = 1e-153 if x64 else 1e-18
    masses = jnp.asarray(np.array([[0, 1 - low, 0, low], [0, 0, 0, 1], [1 - low, 0, 0, low], [0, 0.5, 0.5 - low, low]]))
    by_mass = jax.jit(jax.jacrev(lambda m: (belief.cautious_fold(m), belief.cautious_fold(m, normalized=True))))
    for jacobian in by_mass(masses):
        assert np.all(np.isfinite(jacobian))
        assert np.any(np.asarray(jacobian) != 0)


def test_dogmatic_masses():
    dogmatic = jnp.asarray([[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]])
    with refuses(ValueError, r"dogmatic mass function, m\(Ω\) = 0.*discount"):
        belief.cautious_fold(dogmatic)
    for normalized in (False, True):
        # Under a trace it is as good as certain.
        result = jax.jit(lambda m: belief.cautious_fold(m, normalized=normalized))(dogmatic)  # noqa: B023
        np.testing.assert_allclose(result, [0, 0, 1, 0] if normalized else [0.5, 0, 0.5, 0], atol=1e-6)


@pytest.mark.parametrize("fold", [belief.cautious_fold, belief.conjunctive_fold])
@pytest.mark.exhaustive
def test_what_is_no_mass_is_refused(fold):
    good = jnp.full((2, 4), 0.25)
    with refuses(ValueError, r"expected \[\.\.\. trees sets\]"):
        fold(good[0])
    with refuses(ValueError, "four for two classes"):
        fold(jnp.full((2, 3), 1 / 3))
    with refuses(ValueError, "no tree"):
        fold(good[:0])
    with refuses(ValueError, "add to 1"):
        fold(good * 0.9)
    with refuses(ValueError, ">= 0"):
        fold(good.at[0].set(jnp.array([-0.1, 0.6, 0.25, 0.25])))
    with refuses(ValueError, ">= 0"):
        fold(good.at[0, 0].set(jnp.nan))
