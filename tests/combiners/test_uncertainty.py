"""Aleatoric and epistemic uncertainty."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests import _reference as reference
from tests._forests import forest_of_leaves, random_counts
from tests._refusal import refuses


def entropy(p):
    p = p[p > 0]
    return -np.sum(p * np.log2(p))


def by_loops(counts, kind):
    """(total, aleatoric, epistemic) ``[instances 3]``, leaf by leaf."""
    out = []
    for leaves in counts.astype(float):
        if kind == "entropy":
            shares = [leaf / leaf.sum() if leaf.sum() else np.full(len(leaf), 1 / len(leaf)) for leaf in leaves]
            total, aleatoric = entropy(np.mean(shares, axis=0)), np.mean([entropy(share) for share in shares])
            out.append([total, aleatoric, total - aleatoric])
        else:
            degrees = np.exp([[reference.log_pi_pos(*leaf), reference.log_pi_pos(*leaf[::-1])] for leaf in leaves])
            epistemic, aleatoric = degrees.min(axis=1).mean(), (1 - degrees.max(axis=1)).mean()
            out.append([epistemic + aleatoric, aleatoric, epistemic])
    return np.array(out)


@pytest.mark.parametrize(("kind", "n_classes"), [("entropy", 2), ("entropy", 3), ("plausibility", 2)])
def test_values(kind, n_classes, rng, tolerance):
    counts = random_counts(rng, (30, 7), n_classes)
    counts[counts.sum(axis=-1) == 0, 0] = 1 if kind == "plausibility" else 0
    expected = by_loops(counts, kind)
    forest, X = forest_of_leaves(counts)
    rule = ju.UncertaintyDecomposition(kind)
    for answer in (rule(jnp.asarray(counts)), ju.bind(forest, rule)(X)):
        tolerance.check(np.stack(answer, axis=1), expected, kind="pi", scale=1.0)
        assert np.all(np.asarray(answer.epistemic) >= 0)


def test_edges(tolerance):
    empty, sure, split = jnp.zeros((3, 2)), jnp.array([[0, 9]] * 3), jnp.array([[0, 9], [9, 0]])
    rule = ju.UncertaintyDecomposition()
    tolerance.check(np.stack(rule(empty)), [1, 1, 0])
    tolerance.check(np.stack(rule(sure)), [0, 0, 0], scale=1.0)
    tolerance.check(np.stack(rule(split)), [1, 0, 1], scale=1.0)
    plausible = ju.UncertaintyDecomposition("plausibility")
    tolerance.check(np.stack(plausible(empty)), [1, 0, 1])


def test_what_is_refused():
    with refuses(ValueError, "kind='variance' is unknown"):
        ju.UncertaintyDecomposition("variance")
    with refuses(ValueError, "OneVsRest"):
        ju.UncertaintyDecomposition("plausibility")(jnp.ones((4, 3, 3)))
    with refuses(ValueError, "no probability"):
        ju.UncertaintyDecomposition().probability(jnp.ones((4, 3, 2)))
