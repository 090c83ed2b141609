"""Rules and their methods where JAX takes a function."""

import gc
import inspect
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._rules import BINARY, make

COUNTS = jnp.array([[[3, 1], [0, 4], [2, 2]], [[1, 0], [0, 0], [5, 9]]])


@pytest.mark.once
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.exhaustive(keep=6)
def test_every_transform_takes_every_rule(name):
    """By shapes: nothing is compiled, and what the rule does is traced once."""
    rule = make(name, 2, 3)
    plain = jax.eval_shape(rule, COUNTS)
    for transform in (jax.jit, jax.checkpoint):
        assert jax.eval_shape(transform(rule), COUNTS) == plain
    assert hash(rule.score) == hash(rule.score)


@pytest.mark.once
@pytest.mark.parametrize("name", ["evidence", "together", "weighted_mean"])
@pytest.mark.exhaustive
def test_the_answer_is_the_same(name):
    rule = make(name, 2, 3)
    for function in (rule, rule.probability):
        for transform in (jax.jit, jax.checkpoint):
            jax.tree.map(np.testing.assert_array_equal, transform(function)(COUNTS), function(COUNTS))


class Counted(ju.Combiner):
    """The mean share, times a setting; it counts how often it is traced."""

    setting: jax.Array
    traced: list
    merge = "sum"

    def lift(self, counts):
        self.traced.append(1)
        return {"shares": self.setting * ju.scorers.probability(counts)[..., None], "trees": jnp.ones(())}

    def finish(self, stat):
        return ju.combiners.Answer(stat["shares"], stat["shares"][..., 0] / stat["trees"], None, None)


def counted(setting=1.0):
    """A rule whose list is no part of the pytree."""
    return Counted(jnp.asarray(setting), _Traced())


class _Traced(list):
    """A list that JAX takes for structure."""

    __hash__ = object.__hash__


jax.tree_util.register_static(_Traced)


@pytest.mark.once
@pytest.mark.parametrize("read", [lambda rule: rule, lambda rule: rule.score], ids=["rule", "method"])
def test_one_program_for_all_calls(read):
    rule = counted()
    function = jax.jit(read(rule))
    function(COUNTS)
    once = len(rule.traced)
    function(COUNTS + 1)
    jax.jit(lambda counts: function(counts) + function(counts + 2))(COUNTS)
    assert len(rule.traced) == once


@pytest.mark.once
@pytest.mark.parametrize("read", [lambda rule: rule, lambda rule: rule.score], ids=["rule", "method"])
@pytest.mark.exhaustive
def test_settings_may_be_traced(read):
    def total(setting):
        function = read(counted(setting))
        return jnp.sum(jax.jit(function)(COUNTS)) + jnp.sum(jax.checkpoint(function)(COUNTS))

    assert float(jax.jit(total)(2.0)) == float(total(2.0))
    assert np.isfinite(jax.grad(total)(2.0))


@pytest.mark.once
def test_two_rules_have_two_programs():
    """Rules of the same settings are two functions; what they hold is compared by `equinox.tree_equal`."""
    once, twice = counted(1.0), counted(2.0)
    assert once == once
    assert once != counted(1.0)
    assert once.score == once.score
    assert once.score != twice.score
    assert once.score != once.answer
    np.testing.assert_array_equal(2 * jax.jit(once.score)(COUNTS), jax.jit(twice.score)(COUNTS))


@pytest.mark.once
def test_methods_are_pytrees_with_a_name():
    rule = ju.EvidenceAccumulation(0.25)
    assert len(jax.tree.leaves(rule.score)) == len(jax.tree.leaves(rule))
    assert rule.score.__name__ == "score"
    assert list(inspect.signature(rule.score).parameters) == ["counts"]
    np.testing.assert_array_equal(jax.jit(lambda f, counts: f(counts))(rule.score, COUNTS), rule.score(COUNTS))


@pytest.mark.once
def test_programs_do_not_keep_a_rule():
    rule = ju.EvidenceAccumulation(0.25)
    for function in (rule, rule.score):
        jax.jit(function)(COUNTS)
    held = weakref.ref(rule), weakref.ref(rule.log_prior)
    del rule, function
    gc.collect()
    assert [reference() for reference in held] == [None, None]


@pytest.mark.once
@pytest.mark.exhaustive
def test_scorers_with_settings():
    scorer = jax.tree_util.Partial(ju.scorers.m_estimate, m=jnp.asarray(2.0), prior=jnp.array([0.25, 0.75]))
    for transform in (jax.jit, jax.checkpoint, jax.vmap):
        np.testing.assert_allclose(transform(scorer)(COUNTS), scorer(COUNTS), rtol=1e-6)
