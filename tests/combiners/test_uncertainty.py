"""Aleatoric and epistemic uncertainty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.combiners import combine_counts
from jaxunc.scorers import FractionsWarning
from tests import _reference as reference
from tests._forests import forest_of_leaves, random_counts
from tests._refusal import refusals


def entropy(p):
    p = p[p > 0]
    return -np.sum(p * np.log2(p))


def credal(leaves, s):
    """(largest, least) entropy of ℓ + w t: the largest by bisection for the level, the least over the corners."""
    sizes = leaves.sum(axis=1)
    lower, width = np.mean(leaves / (sizes + s)[:, None], axis=0), np.mean(s / (sizes + s))
    low, high = 0.0, 1.0
    for _ in range(100):
        level = (low + high) / 2
        low, high = (level, high) if np.maximum(level - lower, 0).sum() < width else (low, level)
    return entropy(np.maximum(lower, level)), min(entropy(lower + width * corner) for corner in np.eye(len(lower)))


def by_loops(counts, kind, s=1.0):
    """(total, aleatoric, epistemic) ``[instances 3]``, leaf by leaf."""
    out = []
    for leaves in counts.astype(float):
        if kind == "entropy":
            shares = [leaf / leaf.sum() if leaf.sum() else np.full(len(leaf), 1 / len(leaf)) for leaf in leaves]
            total, aleatoric = entropy(np.mean(shares, axis=0)), np.mean([entropy(share) for share in shares])
            out.append([total, aleatoric, total - aleatoric])
        elif kind == "interval":
            total, aleatoric = credal(leaves, s)
            out.append([total, aleatoric, total - aleatoric])
        else:
            degrees = np.exp([[reference.log_pi_pos(*leaf), reference.log_pi_pos(*leaf[::-1])] for leaf in leaves])
            epistemic, aleatoric = degrees.min(axis=1).mean(), (1 - degrees.max(axis=1)).mean()
            out.append([epistemic + aleatoric, aleatoric, epistemic])
    return np.array(out)


@pytest.mark.parametrize(
    ("kind", "n_classes"), [("entropy", 2), ("entropy", 3), ("plausibility", 2), ("interval", 2), ("interval", 5)]
)
@pytest.mark.exhaustive
def test_values(kind, n_classes, rng, tolerance):
    counts = random_counts(rng, (30, 7), n_classes)
    counts[counts.sum(axis=-1) == 0, 0] = 1 if kind == "plausibility" else 0
    expected = by_loops(counts, kind)
    forest, X = forest_of_leaves(counts)
    rule = ju.UncertaintyDecomposition(kind)
    for answer in (rule(jnp.asarray(counts)), ju.bind(forest, rule)(X)):
        tolerance.check(np.stack(answer, axis=1), expected, kind="pi", scale=1.0)
        assert np.all(np.asarray(answer.epistemic) >= 0)


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_all_probabilities_between_the_bounds(n_classes, rng, tolerance):
    """Their entropies lie between the aleatoric and the total part, which the extreme ones reach."""
    counts, s = random_counts(rng, (12, 5), n_classes), 2.0
    total, aleatoric, _ = map(np.asarray, ju.UncertaintyDecomposition("interval", s=s)(jnp.asarray(counts)))
    interval = ju.AveragedIntervals(s)(jnp.asarray(counts))
    lower, upper = (np.asarray(end, np.float64) for end in interval)
    shares = np.concatenate([rng.dirichlet(np.full(n_classes, 0.3), 300), np.eye(n_classes)])
    for i in range(len(counts)):
        inside = lower[i] + (1 - lower[i].sum()) * shares
        assert np.all(inside <= upper[i] + 1e-6)
        entropies = np.array([entropy(p) for p in inside])
        assert np.all((entropies >= aleatoric[i] - 2e-6) & (entropies <= total[i] + 2e-6))
        np.testing.assert_allclose(entropies.min(), aleatoric[i], atol=2e-6)
    tolerance.check(total, by_loops(counts, "interval", s)[:, 0], scale=1.0)
    # A larger s is a wider interval.
    wider = ju.UncertaintyDecomposition("interval", s=4.0)(jnp.asarray(counts))
    assert np.all(wider.total >= total - 1e-6)
    assert np.all(wider.aleatoric <= aleatoric + 1e-6)


@pytest.mark.exhaustive
def test_gradients_of_intervals(rng, x64):
    """By counts and by s; classes that share the level, and a class without instances, which raises the level."""
    rule = ju.UncertaintyDecomposition("interval", s=1.5)
    counts = np.array([[[3.0, 1, 2], [0.5, 4, 1]], [[2.0, 2, 7], [1, 1, 9]], [[0.0, 3, 1], [0, 2, 5]]])
    total = jax.jit(jax.grad(lambda rule, counts: jnp.sum(rule(counts).total), argnums=(0, 1)))
    least = jax.jit(jax.grad(lambda rule, counts: jnp.sum(rule(counts).aleatoric), argnums=(0, 1)))
    nothing = [[[0.0, 0, 0], [0, 0, 0]], [[0.0, 0, 5], [0, 0, 5]], [[1e9, 0, 0], [1e9, 0, 0]]]
    for slopes in (total, least):
        for leaves in (counts, np.array(nothing)):
            assert all(np.all(np.isfinite(part)) for part in jax.tree.leaves(slopes(rule, jnp.asarray(leaves))))
    if not x64:
        return  # finite differences need float64

    def differences(read, step=1e-6):
        moves = (np.eye(counts.size) * step).reshape(counts.size, *counts.shape)
        up, down = (np.asarray(read(rule(jnp.asarray(np.abs(counts + way * moves))))) for way in (1, -1))
        return ((up - down).sum(axis=1) / (2 * step)).reshape(counts.shape)

    there = counts > 0
    for slopes, name in ((total, "total"), (least, "aleatoric")):
        read = lambda answer, name=name: getattr(answer, name)
        by_rule, by_counts = slopes(rule, jnp.asarray(counts))
        np.testing.assert_allclose(by_counts[there], differences(read)[there], rtol=1e-6, atol=1e-8)
        ends = [np.sum(read(ju.UncertaintyDecomposition("interval", s=1.5 + d)(counts))) for d in (1e-6, -1e-6)]
        np.testing.assert_allclose(by_rule.s, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


@pytest.mark.exhaustive
def test_edges(tolerance):
    assert ju.combiners.Uncertainty._fields == ("total", "aleatoric", "epistemic")
    leaf = ju.scorers.uncertainty(jnp.array([1.0, 3.0]))
    assert type(leaf) is ju.scorers.LeafUncertainty
    assert not hasattr(ju.scorers, "Uncertainty")
    empty, sure, split = jnp.zeros((3, 2)), jnp.array([[0, 9]] * 3), jnp.array([[0, 9], [9, 0]])
    most = -0.1 * np.log2(0.1) - 0.9 * np.log2(0.9)  # certain up to s/(N + s)
    for kind, counts, expected in (
        ("entropy", empty, [1, 1, 0]),
        ("entropy", sure, [0, 0, 0]),
        ("entropy", split, [1, 0, 1]),
        ("plausibility", empty, [1, 0, 1]),
        ("interval", empty, [1, 0, 1]),
        ("interval", jnp.zeros((3, 4)), [2, 0, 2]),
        ("interval", jnp.array([[1e9, 1e9]]), [1, 1, 0]),  # known to be even
        ("interval", sure, [most, 0, most]),
    ):
        found = np.stack(ju.UncertaintyDecomposition(kind)(counts))
        tolerance.check(found, expected, scale=0.0 if counts.sum() == 0 else 1.0, what=f"{kind} of {counts}")
    masked = combine_counts(ju.UncertaintyDecomposition("interval"), sure, None, jnp.zeros(3, bool))
    tolerance.check(np.stack(masked), [1, 0, 1])


def _decomposition(*settings, **others):
    return lambda: ju.UncertaintyDecomposition(*settings, **others)


test_refusals = refusals(
    ("kind", _decomposition("entrpy"), "kind='entrpy' is unknown. Did you mean 'entropy'"),
    ("degrees of three", lambda: _decomposition("plausibility")()(np.ones((4, 3, 3))), "OneVsRest"),
    *((f"s={s}", _decomposition("interval", s=s), "a positive, finite number") for s in (0, -1, np.inf, np.nan)),
    ("s of entropies", _decomposition(s=2), "s=2 is the strength of intervals, but kind='entropy'"),
    ("probability", lambda: _decomposition()().probability(np.ones((4, 3, 2))), "no probability"),
)


@pytest.mark.exhaustive
def test_frequencies_are_warned_of():
    with pytest.warns(FractionsWarning):
        ju.UncertaintyDecomposition("interval")(np.array([[[0.25, 0.75], [0.5, 0.5]]]))
