"""The conjunctive and the cautious rule, the pignistic transform: reference values, definitions, laws, closed forms,
gradients, refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxunc as ju
from jaxunc import belief
from tests import _reference as reference
from tests._forests import random_counts
from tests._golden import golden
from tests._refusal import refusals, refuses
from tests.belief._powerset import as_sets, canonical_weights, cautious, commonality, dempster, random_masses

SETS = ("empty", "neg", "pos", "omega")
conjunctive, cautious_rule = (partial(belief.combine_masses, rule=rule) for rule in ("conjunctive", "cautious"))
RULES = {"dempster": conjunctive, "cautious": cautious_rule}


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
    combine = RULES[rule]
    masses = np.array(entry["masses_singletons_then_omega"])
    masses = np.concatenate([1 - masses.sum(axis=-1, keepdims=True).round(12), masses], axis=-1).clip(0)
    masses = twenty_trees(masses, rule)
    want = entry[rule]
    tolerance.check(combine(masses), [want["empty"], *want["singletons"], want["omega"]], scale=1.0)
    want = entry[f"{rule}_normalised"]
    tolerance.check(combine(masses, normalized=True), [0.0, *want["singletons"], want["omega"]], scale=1.0)


@pytest.mark.parametrize("example", ["three_masses_04", "conflict_08_08_098"])
@pytest.mark.parametrize("rule", ["dempster", "cautious"])
def test_examples_of_the_paper(rule, example, tolerance):
    entry = golden("paper_examples")[example]
    combine = RULES[rule]
    masses = twenty_trees([[mass[a] for a in SETS] for mass in entry["inputs"]], rule)
    for normalized, key in ((False, "unnormalised"), (True, "normalised")):
        want = [entry[rule][key][a] for a in SETS]
        tolerance.check(combine(masses, normalized=normalized), want, scale=1.0, what=key)


@pytest.mark.once
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.exhaustive
def test_dempsters_rule_combines_the_leaves(normalized, rng, tolerance):
    """The closed form of the combiner is the fold of the leaves' masses."""
    counts = random_counts(rng, (30, 5), 2, largest=12)
    leaves = [[reference.leaf_mass(*leaf, eps=1e-5) for leaf in row] for row in counts.tolist()]
    masses = np.array([[list(mass.values()) for mass in row] for row in leaves])
    combined = np.asarray(conjunctive(jnp.asarray(masses), normalized=normalized), np.float64)
    answer = ju.DempsterRule(normalized).answer(jnp.asarray(counts))
    tolerance.check(answer.score, combined[:, 2] - combined[:, 1], kind="pi", scale=1.0)
    if normalized:
        tolerance.check(answer.probability[:, 1], combined[:, 2] + combined[:, 3] / 2, kind="pi", scale=1.0)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize(("combine", "by_sets"), [(conjunctive, dempster), (cautious_rule, cautious)])
def test_definition_on_all_subsets(combine, by_sets, n_classes, rng, tolerance):
    """One mass function after the other, unnormalised inputs' ∅ included."""
    masses = random_masses(rng, (24, 6), n_classes)
    tolerance.check(jax.jit(combine)(masses), [by_sets(group) for group in masses], scale=1.0)


def test_neutral_masses_and_total_conflict(rng):
    """Ω is neutral, ∅ absorbs. Certain masses against each other: all is conflict, and stays so where there is nothing
    to divide."""
    mass, neutral, absorbing = rng.dirichlet(np.ones(4)), np.eye(4)[3], np.eye(4)[0]
    for other, expected in ((neutral, mass), (absorbing, absorbing)):
        found = conjunctive(jnp.asarray(np.stack([mass, other])))
        np.testing.assert_allclose(found, expected, rtol=1e-6 * (other is neutral), atol=1e-6 * (other is absorbing))
    masses = jnp.asarray(np.eye(4)[[1, 2]])
    for normalized in (False, True):
        combined = conjunctive(masses, normalized=normalized)
        np.testing.assert_array_equal(combined, [1, 0, 0, 0])
        np.testing.assert_array_equal(belief.pignistic(combined), 0.5)
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(conjunctive(m, normalized=True))))(masses)
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
    combined = np.asarray(conjunctive(jnp.asarray(masses), normalized=True))
    rtol = 1e-14 * n_trees if x64 else 2e-7 * n_trees**0.75
    np.testing.assert_allclose(combined, normalised_by_logarithms(masses.astype(float)), rtol=rtol, atol=1e-30)
    np.testing.assert_allclose(combined[:2, 1:].sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(combined[2, 1], 1, rtol=1e-6)
    plain = np.asarray(conjunctive(jnp.asarray(masses)))
    np.testing.assert_allclose(plain[:3, 0], 1, atol=1e-6 if x64 else 1e-3)


@pytest.mark.parametrize("n_trees", [1000, 10_000])
def test_gradients_of_many_trees(n_trees, rng, x64):
    """Finite, and of the logarithms' closed form where no mass is 0."""
    masses = crowds(rng, n_trees, 2).astype(np.float64 if x64 else np.float32)
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(conjunctive(m, normalized=True)[:, 1])))
    by_masses = np.asarray(gradient(masses))
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
    gradient = jax.grad(lambda m: conjunctive(m, normalized=True)[1])(jnp.asarray(masses))
    # m({0}) = Q_0/(Q_0 + Q_1 - Q_Ω), Q_0 = m_1({0}) 0.75², Q_1 = 0.5²
    np.testing.assert_allclose(gradient[0, 1], 0.5625 / 0.25, rtol=1e-6)
    many = np.concatenate([masses[:1], np.tile([[0.0, 0.98, 0.01, 0.01]], (1000, 1))])
    combined = conjunctive(jnp.asarray(many), normalized=True)
    np.testing.assert_array_equal(combined, [0, 0, 1, 0])
    gradient = np.asarray(jax.grad(lambda m: conjunctive(m, normalized=True)[1])(jnp.asarray(many)))
    assert np.all(np.isfinite(gradient))
    assert gradient[0, 1] > 1e9


def test_transforms(rng, tolerance, x64):
    masses = jnp.asarray(rng.dirichlet(np.ones(4), size=(3, 4)))
    for combine in RULES.values():
        eager = combine(masses)
        assert (eager.shape, eager.dtype) == ((3, 4), masses.dtype)
        for other in jax.jit(lambda m, combine=combine: (combine(m), jax.vmap(combine)(m)))(masses):
            tolerance.check(other, eager, scale=1.0)
    if x64:
        combine = lambda m: conjunctive(jnp.asarray(m), normalized=True)  # of NumPy arrays, too
        check_grads(combine, (masses,), order=1, modes=("fwd", "rev"), eps=1e-6, rtol=1e-6, atol=1e-6)


def test_the_same_tree_often_and_nearly_certain_sources(rng, tolerance, x64):
    """Of the latter each class has some, so that every product underflows: no 0/0, and equal shares."""
    masses = random_masses(rng, (24, 1), 3)
    assert max(canonical_weights(as_sets(m[0]))[frozenset()] for m in masses) > 1
    for trees in (1, 1000):
        result = jax.jit(cautious_rule)(np.tile(masses, (1, trees, 1)))
        tolerance.check(result, masses[:, 0], scale=1.0, what=f"{trees} trees")
    ignorance = 1e-100 if x64 else 1e-30
    masses = np.zeros((20, 6))
    masses[np.arange(20), 1 + np.arange(20) % 4], masses[:, -1] = 1 - ignorance, ignorance
    result = cautious_rule(jnp.asarray(masses), normalized=True)
    tolerance.check(result, [0, 0.25, 0.25, 0.25, 0.25, 0], scale=1.0)
    tolerance.check(cautious_rule(jnp.asarray(masses)), [1, 0, 0, 0, 0, 0], scale=1.0)


def test_order_and_brackets_do_not_matter_and_normalisation_commutes(rng, tolerance):
    masses = random_masses(rng, (24, 6), 3)
    whole = cautious_rule(jnp.asarray(masses))
    np.testing.assert_array_equal(cautious_rule(jnp.asarray(masses[:, rng.permutation(6)])), whole)
    in_pairs = jax.jit(lambda m: cautious_rule(cautious_rule(m)))
    tolerance.check(in_pairs(masses.reshape(24, 3, 2, 5)), whole, scale=1.0)
    fewer = cautious_rule(jnp.asarray(np.concatenate([masses[:, :3], masses[:, :3]], axis=1)))
    assert np.all(commonality(whole) <= commonality(fewer) + 1e-6)
    before = masses * (np.arange(5) > 0)
    before /= before.sum(axis=-1, keepdims=True)
    late = cautious_rule(jnp.asarray(masses), normalized=True)
    tolerance.check(cautious_rule(jnp.asarray(before), normalized=True), late, scale=1.0)
    np.testing.assert_allclose(np.asarray(late).sum(axis=-1), 1, rtol=1e-6)
    assert np.all(np.asarray(late)[:, 0] == 0)


@pytest.mark.exhaustive
def test_gradient(rng, x64):
    @jax.jit
    def of_logits(x):
        masses = jax.nn.softmax(x)
        return cautious_rule(masses), cautious_rule(masses, normalized=True)

    step, error = (1e-6, 1e-6) if x64 else (1e-2, 3e-2)
    check_grads(of_logits, (jnp.asarray(rng.normal(size=(3, 4, 5))),), 1, ["rev"], error, error, step)


def test_gradient_is_finite_at_the_edge(x64):
    """Simple, vacuous and contradictory masses, and ignorance at the documented limit."""
    low = 1e-153 if x64 else 1e-18
    masses = jnp.asarray(np.array([[0, 1 - low, 0, low], [0, 0, 0, 1], [1 - low, 0, 0, low], [0, 0.5, 0.5 - low, low]]))
    by_mass = jax.jit(jax.jacrev(lambda m: (cautious_rule(m), cautious_rule(m, normalized=True))))
    for jacobian in by_mass(masses):
        assert np.all(np.isfinite(jacobian))
        assert np.any(np.asarray(jacobian) != 0)


def test_dogmatic_masses():
    dogmatic = jnp.asarray([[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]])
    refuses(ValueError, r"dogmatic mass function, m\(Ω\) = 0.*Discount", cautious_rule, dogmatic)
    for normalized in (False, True):
        # Under a trace it is as good as certain.
        result = jax.jit(lambda m: cautious_rule(m, normalized=normalized))(dogmatic)  # noqa: B023
        np.testing.assert_allclose(result, [0, 0, 1, 0] if normalized else [0.5, 0, 0.5, 0], atol=1e-6)


def test_pignistic_of_all_subsets(rng, tolerance):
    """BetP(c) = Σ over A ∋ c of m(A)/(|A| (1 - m(∅)))."""
    masses = random_masses(rng, (24, 6), 3)
    expected = [
        [[sum(m / len(a) for a, m in as_sets(one).items() if c in a) / (1 - one[0]) for c in range(3)] for one in row]
        for row in masses
    ]
    result = np.asarray(belief.pignistic(jnp.asarray(masses)))
    tolerance.check(result, expected, scale=1.0)
    np.testing.assert_allclose(result.sum(axis=-1), 1, rtol=1e-6)


def test_pignistic_by_hand(tolerance, x64):
    masses = np.array([[0, 0.25, 0.25, 0, 0.5], [0.5, 0.25, 0, 0, 0.25], [0, 0, 0, 0, 1], [1.0, 0, 0, 0, 0]])
    third = 1 / 3
    expected = [[0.25 + third / 2, 0.25 + third / 2, third / 2], [4 / 6, 1 / 6, 1 / 6], [third] * 3, [third] * 3]
    tolerance.check(belief.pignistic(jnp.asarray(masses)), expected)
    tiny = 1e-300 if x64 else 1e-30
    found = belief.pignistic(jnp.asarray(np.array([1.0, 3 * tiny, tiny, 0.0])))
    np.testing.assert_allclose(found, [0.75, 0.25], rtol=1e-6)


def test_combined_masses_can_be_read_out(rng):
    """What a combination returns passes the checks, rounding included."""
    masses = jnp.asarray(rng.dirichlet(np.ones(5), size=(24, 6)))
    for rule in ("conjunctive", "cautious"):
        for normalized in (False, True):
            result = belief.combine_masses(masses, rule, normalized=normalized)
            assert np.all(np.asarray(result) >= 0)
            np.testing.assert_allclose(np.asarray(belief.pignistic(result)).sum(axis=-1), 1, rtol=1e-5)


def test_transforms_of_the_pignistic_transform(rng, tolerance):
    masses, read_out = random_masses(rng, (24, 6), 3).astype(jnp.result_type(float)), belief.pignistic
    eager, jacobian = read_out(jnp.asarray(masses)), jax.jacobian(read_out)
    assert eager.dtype == masses.dtype
    of_all = jax.jit(lambda m, edge: (jax.vmap(jax.vmap(read_out))(m), jacobian(edge), jacobian(m[0, 0])))
    mapped, certain, inside = of_all(masses, np.eye(5, dtype=masses.dtype)[0])
    tolerance.check(mapped, eager, scale=1.0)
    assert np.all(np.isfinite(certain))
    assert np.any(np.asarray(inside) != 0)


GOOD = np.full((2, 4), 0.25)
test_what_is_no_mass = refusals(
    *(
        (f"{what}, {name}", partial(combine, np.array(masses)), words)
        for name, combine in RULES.items()
        for what, masses, words in (
            ("no trees", GOOD[0], r"expected \[\.\.\. trees sets\]"),
            ("three sets", np.full((2, 3), 1 / 3), "four for two classes"),
            ("no tree", GOOD[:0], "no tree"),
            ("less than 1", GOOD * 0.9, "add to 1"),
            ("negative", [[-0.1, 0.6, 0.25, 0.25], GOOD[1]], ">= 0"),
            ("NaN", [[np.nan, 0.25, 0.25, 0.25], GOOD[1]], ">= 0"),
        )
    ),
    ("two sets", lambda: belief.pignistic([0.5, 0.25, 0.25]), r"expected \[\.\.\. sets\]"),
    ("halves", lambda: belief.pignistic(GOOD[0] / 2), "add to 1"),
)
