"""Combiners and their methods as functions of JAX's; what they say of the sizes they read, and of a user's scorers."""

import gc
import inspect
import pickle
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.combiners import check_own_scorers
from jaxunc.scorers import FractionsWarning
from tests._forests import forest_of_leaves, toy_forest
from tests._refusal import refuses
from tests._rules import EVERY, RULES, make

pytestmark = pytest.mark.once

COUNTS = np.array([[[3, 1], [0, 4], [2, 2]], [[1, 0], [0, 0], [5, 9]]], np.int32)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.exhaustive(keep=6)
def test_every_transform_takes_every_rule(name):
    """By shapes: nothing is compiled, and what the rule does is traced once."""
    rule = make(name, 2, 3)
    plain = jax.eval_shape(rule, COUNTS)
    for transform in (jax.jit, jax.checkpoint):
        assert jax.eval_shape(transform(rule), COUNTS) == plain
    assert hash(rule.score) == hash(rule.score)


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


each_reading = pytest.mark.parametrize("read", [lambda rule: rule, lambda rule: rule.score], ids=["rule", "method"])


@each_reading
def test_one_program_for_all_calls(read):
    rule = counted()
    function = jax.jit(read(rule))
    function(COUNTS)
    once = len(rule.traced)
    function(COUNTS + 1)
    jax.jit(lambda counts: function(counts) + function(counts + 2))(COUNTS)
    assert len(rule.traced) == once


@each_reading
@pytest.mark.exhaustive
def test_settings_may_be_traced(read):
    def total(setting):
        function = read(counted(setting))
        return jnp.sum(jax.jit(function)(COUNTS)) + jnp.sum(jax.checkpoint(function)(COUNTS))

    assert float(jax.jit(total)(2.0)) == float(total(2.0))
    assert np.isfinite(jax.grad(total)(2.0))


def test_two_rules_have_two_programs_and_methods_are_pytrees():
    """Rules of the same settings are two functions; what they hold is compared by `equinox.tree_equal`."""
    once, twice = counted(1.0), counted(2.0)
    assert once == once
    assert once != counted(1.0)
    assert once.score == once.score
    assert once.score != twice.score
    assert once.score != once.answer
    np.testing.assert_array_equal(2 * np.asarray(jax.jit(once.score)(COUNTS)), jax.jit(twice.score)(COUNTS))
    rule = ju.EvidenceAccumulation(0.25)
    assert len(jax.tree.leaves(rule.score)) == len(jax.tree.leaves(rule))
    assert rule.score.__name__ == "score"
    assert list(inspect.signature(rule.score).parameters) == ["counts"]
    np.testing.assert_array_equal(jax.jit(lambda f, counts: f(counts))(rule.score, COUNTS), rule.score(COUNTS))


@pytest.mark.parametrize("method", [ju.Mean().score, toy_forest(2, 4).with_counts])
def test_methods_pickle_by_name(method):
    again = pickle.loads(pickle.dumps(method))
    assert (type(again), again.__name__) == (type(method), method.__name__)
    jax.tree.map(np.testing.assert_array_equal, again.__wrapped__.__self__, method.__wrapped__.__self__)


def test_programs_do_not_keep_a_rule():
    rule = ju.EvidenceAccumulation(0.25)
    for function in (rule, rule.score):
        jax.jit(function)(COUNTS)
    held = weakref.ref(rule), weakref.ref(rule.log_prior)
    del rule, function
    gc.collect()
    assert [reference() for reference in held] == [None, None]


@pytest.mark.exhaustive
def test_scorers_with_settings():
    scorer = jax.tree_util.Partial(ju.scorers.m_estimate, m=jnp.asarray(2.0), prior=jnp.array([0.25, 0.75]))
    for transform in (jax.jit, jax.checkpoint, jax.vmap):
        np.testing.assert_allclose(transform(scorer)(COUNTS), scorer(COUNTS), rtol=1e-6)


FREQUENCIES = np.array([[[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0], [0.125, 0.875]]])


@pytest.mark.parametrize("name", EVERY)
def test_rules_know_what_they_read(name):
    assert make(name, 2, 3).reads_sizes == RULES[name].reads_sizes


def test_rules_of_scorers_read_what_their_scorers_read():
    for make_rule in (ju.Mean, ju.Median, ju.Maximum, ju.GeneralizedMixture):
        assert not make_rule(ju.scorers.probability).reads_sizes
        for scorer in (ju.scorers.laplace, Partial(ju.scorers.m_estimate, m=2.0, prior=0.5), ju.scorers.linear):
            assert make_rule(scorer).reads_sizes
            assert ju.OneVsRest(ju.Weighted(ju.Mean(scorer), np.ones(3))).reads_sizes
            assert ju.OneVsRest([ju.Mean(scorer)] * 3).reads_sizes
    assert [ju.UncertaintyDecomposition(kind).reads_sizes for kind in ("entropy", "plausibility")] == [False, True]


@pytest.mark.parametrize("name", ["mean_plausibility", "pooling", "evidence", "dempster", "smoothed_mean", "together"])
@pytest.mark.exhaustive
def test_the_warning_names_the_line_of_the_caller(name):
    rule, (forest, _) = make(name, 2, 3), forest_of_leaves(FREQUENCIES)
    for call in (lambda: rule(jnp.asarray(FREQUENCIES)), lambda: ju.bind(forest, rule)):
        with pytest.warns(FractionsWarning, match="look like class frequencies") as caught:
            call()
        assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, call.__code__.co_firstlineno)]


@pytest.mark.parametrize(("name", "times"), [("mean", 1), ("vote", 1), ("evidence_veto", 1), ("pooling", 4)])
def test_shares_and_honest_counts_are_no_reason_to_warn(name, times):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(name, 2, 3)(jnp.asarray(FREQUENCIES * times))


LEAVES = np.array([[3, 1], [0, 4]])


@jax.jit
def lead(counts):
    """The lead of class 1, without a bound."""
    return (counts[..., 1] - counts[..., 0]).astype(jnp.float32)


@jax.jit
def small(counts):
    """Shares, between -1/2 and 1/2."""
    return counts[..., 1] / counts.sum(axis=-1) - 0.5


@ju.scorers.scorer(width=2.0)
def signed(counts):
    """Shares, between -1 and 1."""
    return 2 * small(counts)


@ju.scorers.scorer(width=1.0, reads_sizes=True)
def too_wide(counts):
    """Shares, wider than is declared."""
    return 2 * small(counts)


@ju.scorers.scorer(width=float("inf"))
def unbounded(counts):
    """The lead, as it is."""
    return lead(counts)


TOY = toy_forest(2, 4)


@pytest.mark.parametrize("kind", [ju.Mean, ju.Median, ju.Maximum, ju.GeneralizedMixture])
@pytest.mark.parametrize("scorer", [lead, too_wide, Partial(lead)])
def test_scores_beyond_the_width_are_refused(kind, scorer):
    for call in (
        lambda: kind(scorer).probability(LEAVES),
        lambda: ju.bind(TOY, ju.combiners.Together(one=kind(scorer), two=ju.Vote())),
        *([lambda: ju.bind(TOY, ju.Weighted(ju.Mean(scorer), jnp.arange(1.0, 5.0)))] if kind is ju.Mean else []),
    ):
        refuses(ValueError, r"gives the leaf \[.*\] the score .*width=", call)


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("scorer", [small, signed, unbounded])
def test_scores_within_it_are_taken(scorer):
    rule = ju.Mean(scorer)
    answers = rule(LEAVES), jax.jit(rule)(LEAVES), ju.bind(TOY, rule)(np.zeros((3, TOY.n_features)))
    assert all(np.isfinite(answer).all() for answer in answers)


def test_scorers_get_the_columns_of_their_count_set():
    """Beside a rule of two count sets: checked by the columns that they are lifted from."""
    pool = ju.LearnedPool([0.5, 0.5], reads=("own", "oob"))
    wide, widths = np.concatenate([LEAVES, LEAVES[:, ::-1]], axis=1), []

    def noting(counts):
        widths.append(counts.shape[-1])
        return small(counts)

    check_own_scorers(ju.Stack([ju.Weighted(ju.Mean(noting), np.ones(2)), pool]), jnp.asarray(wide))
    assert widths == [2]
    rule = ju.combiners.Together(one=ju.Mean(too_wide), two=pool)
    refuses(ValueError, r"gives the leaf \[0, 4\] the score 1;", rule, wide)


class Listed(ju.Combiner):
    """The mean count of class 1; a number for each tree tells how many trees there are."""

    merge = "collect"

    def lift(self, counts):
        """The count, and 1 for the tree."""
        return {"count": counts[..., 1], "tree": jnp.ones(())}

    def finish(self, stat):
        """The mean, for class 1 and against class 0."""
        mean = stat["count"].sum(axis=-1) / stat["tree"].sum(axis=-1)
        return ju.combiners.Answer(jnp.stack([-mean, mean], axis=-1), None, None, None)


def test_numbers_of_trees_are_collected():
    np.testing.assert_allclose(Listed()(COUNTS)[:, 1], COUNTS[..., 1].mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(ju.OneVsRest(Listed())(COUNTS), 2 * COUNTS.mean(axis=1), rtol=1e-6)


class Bare(ju.Combiner):
    """A rule that answers with an array."""

    merge = "sum"

    def lift(self, counts):
        """The counts."""
        return counts.astype(jnp.float32)

    def finish(self, stat):
        """The sums, as they are."""
        return stat


@pytest.mark.parametrize(
    "ask",
    [
        lambda rule: rule.probability(LEAVES),
        lambda rule: rule.score(LEAVES),
        lambda rule: ju.bind(TOY, rule).probability(np.zeros((3, TOY.n_features))),
        lambda rule: ju.Calibrated(rule)(LEAVES),
        lambda rule: ju.OneVsRest(rule)(np.array([[1, 2, 3]])),
    ],
)
def test_an_array_is_called_an_array(ask):
    with pytest.raises((TypeError, ValueError), match=r"answers with an array") as caught:
        ask(Bare())
    assert "Tracer" not in str(caught.value)
