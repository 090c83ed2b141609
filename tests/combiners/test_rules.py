"""What holds of every rule of the table, on counts ``[... trees classes]``.

Most tests share one shape of counts and one program, in which all rules answer.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import jaxunc as ju
from jaxunc.combiners import combine_counts
from tests._forests import positive_counts, random_counts
from tests._refusal import refuses
from tests._rules import CASES, PRIORS, RULES, by_rule, check_same, expected_scores, make

N, K = 54, 9
"""54 = 9 trees × 3 classes × 2 signs: room for all differences of one instance."""
_BASIC = ("mean", "vote", "pooling", "evidence", "dempster")
BASIC = [case for case in CASES if case.values[0] in _BASIC]
# Each kind of program once: variants of a rule differ in values, which are tested for all.
TRANSFORMED = [
    case
    for case in CASES
    if RULES[case.values[0]].thorough and (case.values[1] == 2 or case.values[0] in ("mean", "pooling", "evidence"))
]
UNWEIGHTED = [case for case in TRANSFORMED if not case.values[0].startswith("weighted")]
_SMOOTH = ("mean_own_scorer", "evidence_veto", "dempster_prior", "cautious", "median", "beta_sum", "weighted_together")
SMOOTH = [*BASIC, *(pytest.param(name, 2, id=name) for name in _SMOOTH)]
MORE = [case for case in CASES if case not in BASIC and (case in TRANSFORMED or case.values[0] in _SMOOTH)]
_EDGED = ("mean_plausibility", "dempster_reliability", "epistemic_weighting", "beta_exact")
_JUMPING = ("vote", "median", "weighted_together")  # votes jump at an evenly split leaf, medians turn from tree to tree
EDGED = [
    *(case for case in SMOOTH if case.values[0] not in _JUMPING),
    *(pytest.param(name, 2, id=name) for name in _EDGED),
    pytest.param("one_vs_rest", 3, id="one_vs_rest"),
]


@lru_cache
def leaves(n_classes: int) -> np.ndarray:
    """Interior, pure, tied and empty leaves ``[instances trees classes]``; in the last instance all are empty."""
    counts = random_counts(np.random.default_rng(n_classes), (N, K), n_classes)
    counts[-1] = 0
    return counts


@jax.jit
def answers_of(rules, counts):
    return {name: rule.answer(counts) for name, rule in rules.items()}


def rules_for(n_classes: int, trees=range(K), prior=None) -> dict[str, ju.Combiner]:
    """All rules that take so many classes, for the trees with these numbers."""
    prior, trees = PRIORS[n_classes] if prior is None else prior, np.asarray(trees)
    return {case.values[0]: RULES[case.values[0]].make(prior, trees) for case in CASES if case.values[1] == n_classes}


COPIES = np.array([2, 0, 1, 3, 3])
"""How often the first trees are repeated, so that there are K of them."""


@lru_cache
def shared_answers(n_classes: int, of: str = "integers") -> dict:
    """What all rules answer on these leaves, or on what is made of them; one program for each type of counts."""
    counts, rules = leaves(n_classes), rules_for(n_classes)
    if of == "shuffled trees":
        order = np.random.default_rng(0).permutation(K)
        counts, rules = counts[:, order], rules_for(n_classes, order)
    elif of == "copies":
        counts = np.repeat(counts[:, : len(COPIES)], COPIES, axis=1)
    return jax.tree.map(np.asarray, answers_of(rules, jnp.asarray(counts)))


def check_scores(tolerance, name, answer, expected, *, what=""):
    """Class scores of each rule. They are logarithms or shares, so their scale is at least one."""
    for key, one in by_rule(answer).items():
        tolerance.check(one.class_scores, expected[key], kind=RULES[name].kind, scale=1.0, what=f"{what} {key}")


@pytest.mark.room(keep=2)
@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_values_on_integer_leaves(name, n_classes, tolerance):
    """Of every fourth instance, the empty last one among them: the loops take their time."""
    some = jax.tree.map(lambda part: part[1::4], shared_answers(n_classes)[name])
    check_scores(tolerance, name, some, expected_scores(name, leaves(n_classes)[1::4]))


def check_rules(cases, counts, tolerance) -> dict:
    """The class scores by these rules of counts ``[instances trees classes]``, from one program; returns the answers.

    Variants of rules need not meet the first instance.
    """
    names = [case.values[0] for case in cases if case.values[1] == counts.shape[2]]
    answers = answers_of({name: make(name, counts.shape[2], counts.shape[1]) for name in names}, jnp.asarray(counts))
    for name in names:
        some = jax.tree.map(lambda part, start=int(not RULES[name].thorough): part[start:], (answers[name], counts))
        check_scores(tolerance, name, some[0], expected_scores(name, some[1]))
    return answers


@pytest.mark.parametrize(("cases", "n_classes"), [(BASIC, 2), (BASIC, 3), (MORE, 2)], ids=["2", "3", "more rules"])
@pytest.mark.exhaustive(keep=1)
def test_values_on_fractional_leaves(cases, n_classes, tolerance):
    """And on counts of a billion as floats."""
    counts = leaves(n_classes) * np.float32(0.75)
    counts[0, :3, :2] = [[1e9 + 64, 1e9], [0, 1e9], [2e9, 1e9]]
    check_rules(cases, counts, tolerance)


@pytest.mark.once
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive(keep=1)
def test_one_tree(n_classes, tolerance):
    check_rules(BASIC, leaves(n_classes)[:, :1], tolerance)


@pytest.mark.once
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive(keep=1)
def test_ten_thousand_trees(n_classes, rng, tolerance):
    counts = np.tile(random_counts(rng, (1, 100), n_classes, largest=8), (1, 100, 1))
    for name, answer in check_rules(BASIC, counts, tolerance).items():
        assert np.all(np.isfinite(answer.probability)), name


@pytest.mark.exhaustive
@pytest.mark.once
def test_ten_thousand_trees_do_not_saturate():
    """A little more evidence for a class that is certain already still moves the margin, in float32 too."""
    names = ("mean", "mean_plausibility", "pooling", "evidence", "dempster", "dempster_prior", "epistemic_weighting")
    rules = ju.combiners.Together(**{name: make(name, 2, 10_000) for name in names}, beta=ju.BetaAggregation("exact"))
    counts = np.tile(np.array([[2, 9], [1, 12], [3, 5]], np.int32), (3334, 1))[None, :10_000].repeat(8, axis=0)
    for i in range(8):
        counts[i, :i] = [0, 40]  # one more tree is certain
    for name, answer in by_rule(rules.answer(jnp.asarray(counts))).items():
        margins = np.asarray(ju.margin(answer.class_scores))
        assert np.all(np.diff(margins) > 0), name
        assert np.all(np.isfinite(answer.log_probability)), name


@pytest.mark.once
def test_a_lead_of_one_in_a_billion_is_no_tie():
    """Integer counts, in float32 too. Rules that know a prior are given an even one, else a lead may be none."""
    counts = np.full((N, K, 2), 10**9, np.int32)
    counts[0, :, 1] += 1
    counts[1, :, 0] += 1
    counts[2, 0, 1] += 1
    for name, answers in answers_of(rules_for(2, prior=np.array([0.5, 0.5])), jnp.asarray(counts)).items():
        for key, answer in by_rule(answers).items() if RULES[name].resolves_units else ():
            margin = np.asarray(ju.margin(answer.class_scores))
            np.testing.assert_array_equal(np.sign(margin[:4]), [1, -1, 1, 0], err_msg=f"{name} {key}")
            for part in jax.tree.leaves(answer):
                assert np.all(np.isfinite(part)), f"{name} {key}"


@pytest.mark.once
def test_a_prior_near_one_has_the_digits_of_its_rest():
    np.testing.assert_allclose(ju.EvidenceAccumulation(0.9999).prior, [1e-4, 0.9999], rtol=2e-6)


@pytest.mark.once
def test_unsigned_counts_do_not_wrap(tolerance):
    rules = {name: make(name, 2, K) for name in ("together", "median", "maximum", "generalized_mixture")}
    for name, answer in answers_of(rules, jnp.asarray(leaves(2).astype(np.uint8))).items():
        check_same(tolerance, name, answer, shared_answers(2)[name])
    score = ju.EvidenceAccumulation(0.5).score(np.array([[[10**9, 10**9 + 1]], [[10**9 + 1, 10**9]]], np.uint32))
    np.testing.assert_array_equal(np.sign(score), [1, -1])


def test_counts_beyond_32_bits(tolerance):
    """From the host as they are: whole numbers of 64 bits."""
    counts = np.array([[5 * 10**9, 10**9], [0, 2**33]])
    rules = ju.combiners.Together(pooling=ju.Pooling(), mean=ju.Mean())
    expected = rules.probability(counts.astype(float))
    tolerance.check(expected["pooling"], np.array([5e9, 1e9 + 2**33]) / (6e9 + 2**33))
    for given_ in (counts, counts.astype(np.uint64)):
        for name, probability in rules.probability(given_).items():
            tolerance.check(probability, expected[name], scale=1.0)


@pytest.mark.once
def test_counts_of_half_precision():
    """They are counted in float32, where a hundred leaves of a thousand have room."""
    counts = np.tile(np.array([[1000, 3]], np.float16), (100, 1))
    for half in (counts, jnp.asarray(counts, jnp.float16)):
        probability = ju.Pooling().probability(half)
        assert probability.dtype == jnp.float32
        np.testing.assert_allclose(probability, [1000 / 1003, 3 / 1003], rtol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("n_classes", [4, 10])
@pytest.mark.exhaustive
def test_the_rest_of_many_large_classes_does_not_overflow(n_classes, tolerance):
    counts = np.full((3, n_classes), 10**9, np.int32)
    counts[1, 0] = 2 * 10**9
    rules = ju.combiners.Together(mean=ju.OneVsRest(ju.Mean()), evidence=ju.OneVsRest(ju.EvidenceAccumulation(0.25)))
    for name, answer in rules.answer(counts).items():
        expected = rules.answer(counts.astype(np.float32))[name]
        tolerance.check(answer.class_scores, expected.class_scores, scale=1.0)
        tolerance.check(answer.probability, expected.probability, scale=1.0)
    lead = ju.OneVsRest(ju.Mean())(np.array([[[10**9, 5 * 10**8, 5 * 10**8 + 1]]], np.int32))
    assert lead[0, 0] < 0, "where the rest fits, it is exact"


@pytest.mark.once
@pytest.mark.parametrize(
    "rule", [ju.CautiousRule(), ju.OneVsRest(ju.CautiousRule()), ju.Maximum(), ju.Median()], ids=str
)
@pytest.mark.exhaustive
def test_no_tree(rule):
    """All trees masked: as if all leaves were empty. (Rules that are sums: the test of weights has them.)"""
    counts = jnp.asarray(leaves(2)[:2, :3])
    answer = combine_counts(rule, counts, None, jnp.zeros(counts.shape[:-1], bool))
    jax.tree.map(np.testing.assert_array_equal, answer, rule.answer(0 * counts))
    np.testing.assert_array_equal(answer.class_scores, 0)
    np.testing.assert_allclose(answer.probability, 0.5, rtol=1e-6)


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_read_outs_agree(name, n_classes, x64):
    """Probabilities are some, and those of the logarithms; class scores rank as they do; a score has the margin's sign;
    all are of the default precision."""
    accuracy, answers = 1e-12 if x64 else 2e-6, shared_answers(n_classes)[name]
    assert {part.dtype for part in jax.tree.leaves(answers)} == {jnp.result_type(float)}
    for key, answer in by_rule(answers).items():
        scores, probability, logs = map(np.asarray, (answer.class_scores, answer.probability, answer.log_probability))
        assert probability.shape == (N, n_classes)
        assert probability.min() >= 0, key
        np.testing.assert_allclose(probability.sum(-1), 1, atol=accuracy, err_msg=key)
        representable = probability > np.finfo(probability.dtype).tiny
        shares = probability[representable]
        np.testing.assert_allclose(np.exp(logs[representable]), shares, rtol=30 * accuracy, err_msg=key)
        if "veto" not in name:
            assert np.all(np.isfinite(logs)), key
        contradicted = np.all(np.isneginf(scores), axis=-1)
        chosen = np.take_along_axis(probability, scores.argmax(-1)[:, None], axis=-1)[:, 0]
        assert np.all((chosen >= probability.max(-1) - 1e-6) | contradicted), key
        if n_classes == 2 and answer.score is not None:
            margin = np.where(contradicted, 0.0, scores[:, 1] - np.where(contradicted, 0.0, scores[:, 0]))
            clear = (np.abs(margin) > 1e-5) | contradicted
            np.testing.assert_array_equal(np.sign(answer.score)[clear], np.sign(margin)[clear], err_msg=key)


@pytest.mark.once
@pytest.mark.parametrize(("name", "n_classes"), [("evidence", 2), ("mean", 2), ("pooling", 3)])
@pytest.mark.exhaustive
def test_readouts_are_parts_of_the_answer(name, n_classes, tolerance):
    rule, answer = make(name, n_classes, K), shared_answers(n_classes)[name]
    counts = jnp.asarray(leaves(n_classes))
    tolerance.check(rule(counts), answer.class_scores, scale=1.0)
    for part in ("probability", "log_probability", *(("score",) if n_classes == 2 else ())):
        tolerance.check(getattr(rule, part)(counts), getattr(answer, part), scale=1.0)
    if n_classes > 2:
        assert answer.score is None
        refuses(ValueError, "two classes", rule.score, counts)


@jax.jit
def compiled_and_mapped(rule, counts):
    """The answer inside a larger program, for all instances together and one by one."""
    return rule.answer(counts), jax.vmap(rule.answer)(counts)


@pytest.mark.once
@pytest.mark.parametrize(("name", "n_classes"), [*BASIC, pytest.param("weighted_together", 2)])
@pytest.mark.exhaustive(keep=1)
def test_eager_jit_and_vmap_agree(name, n_classes, tolerance):
    rule, counts = make(name, n_classes, K), jnp.asarray(leaves(n_classes))
    eager = rule.answer(counts)
    compiled, mapped = compiled_and_mapped(rule, counts)
    check_same(tolerance, name, compiled, eager, what="jit")
    check_same(tolerance, name, mapped, eager, what="vmap")


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_order_of_trees_does_not_matter(name, n_classes, tolerance):
    shuffled = shared_answers(n_classes, "shuffled trees")
    check_same(tolerance, name, shuffled[name], shared_answers(n_classes)[name])


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_is_a_number_of_copies(n_classes, tolerance):
    """No weight at all is no tree: equal shares, or the prior."""
    names = [case.values[0] for case in UNWEIGHTED if case.values[1] == n_classes]
    counts, copies = jnp.asarray(leaves(n_classes)[:, : len(COPIES)]), shared_answers(n_classes, "copies")
    weighted, nothing = (
        answers_of({name: ju.Weighted(make(name, n_classes, len(COPIES)), weights) for name in names}, counts)
        for weights in (COPIES, 0 * COPIES)
    )
    prior, even = PRIORS[n_classes], np.full(n_classes, 1 / n_classes)
    moved = {"learned_pool": prior**1.25, "calibrated_mean": even}  # the prior, or equal shares, scaled and moved
    for name in names:
        check_same(tolerance, name, weighted[name], copies[name], what="copies")
        for key, answer in by_rule(nothing[name]).items():
            expected = prior if "evidence" in (key if name == "together" else name) else even
            if name in moved:
                expected = moved[name] * np.exp(np.arange(n_classes) / 4)
                expected = expected / expected.sum()
            np.testing.assert_allclose(
                answer.probability, np.tile(expected, (N, 1)), rtol=2e-6, err_msg=f"{name} {key}"
            )


def totals(answer):
    """A number for each instance, in which every read-out has a part; a veto has none."""
    total = 0.0
    for one in by_rule(answer).values():
        for part in (one.class_scores, one.probability, one.log_probability):
            slopes = jnp.linspace(0.5, 1.7, part.shape[-1])[None]
            total += jnp.sum(jnp.where(jnp.isfinite(part), part, 0.0) * slopes, axis=-1)
        if one.score is not None:
            total += 0.75 * one.score
    return total


# By the rule and by the counts; compiled once per kind of rule, since settings are arrays.
gradients = jax.jit(jax.grad(lambda rule, counts: jnp.sum(totals(rule.answer(counts))), argnums=(0, 1)))


@pytest.mark.once
@pytest.mark.parametrize(("name", "n_classes"), SMOOTH)
@pytest.mark.exhaustive
def test_gradients_are_finite(name, n_classes, rng):
    rule = make(name, n_classes, K)
    interior = positive_counts(rng, (N, K), n_classes)
    pure, large = interior.copy(), interior * 1e7
    pure[..., 1:] = 0
    mixed, empty = leaves(n_classes), np.zeros_like(interior)
    for what, counts in {"interior": interior, "pure": pure, "empty": empty, "mixed": mixed, "large": large}.items():
        by_settings, by_counts = gradients(rule, jnp.asarray(counts, float))
        assert np.all(np.isfinite(by_counts)), f"{what}: by counts"
        for path, setting in jax.tree_util.tree_leaves_with_path(by_settings):
            assert np.all(np.isfinite(setting)), f"{what}: by {jax.tree_util.keystr(path)}"


def differences(rule, one, step):
    """Slopes of the totals in every count of one instance, as central differences (the mean of both sides of a kink);
    where a count is too small to be lowered they mean nothing."""
    moves = np.eye(one.size).reshape(one.size, *one.shape) * step
    moved = np.tile(one, (N, 1, 1))
    moved[: one.size] += moves
    moved[one.size : 2 * one.size] = np.maximum(moved[one.size : 2 * one.size] - moves, 0.0)
    values = np.asarray(totals(rule.answer(jnp.asarray(moved))))
    return ((values[: one.size] - values[one.size : 2 * one.size]) / (2 * step)).reshape(one.shape)


@pytest.mark.room(keep=5)
@pytest.mark.parametrize(("name", "n_classes"), SMOOTH)
def test_gradients_are_those_of_finite_differences(name, n_classes, rng, x64):
    """By every count of one instance, and by every setting of the rule."""
    if not x64:
        pytest.skip("finite differences need float64; the other run makes them")
    rule, step = make(name, n_classes, K), 1e-5
    one = positive_counts(rng, (K,), n_classes)
    batch = np.tile(one, (N, 1, 1))
    by_settings, by_counts = gradients(rule, jnp.asarray(batch))
    assert RULES[name].differentiable == bool(np.abs(by_counts).max() > 1e-4)
    np.testing.assert_allclose(by_counts[0], differences(rule, one, step), rtol=2e-6, atol=1e-7)

    flat, structure = jax.tree.flatten(rule)
    for i, gradient in enumerate(jax.tree.leaves(by_settings)):
        for place in np.ndindex(gradient.shape):
            ends = []
            for sign in (1, -1):
                changed = flat.copy()
                changed[i] = flat[i].at[place].add(sign * step * 1e-2)
                ends.append(np.sum(totals(jax.tree.unflatten(structure, changed).answer(jnp.asarray(batch)))))
            slope = (ends[0] - ends[1]) / (2 * step * 1e-2)
            np.testing.assert_allclose(gradient[place], slope, rtol=1e-5, atol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "n_classes"), EDGED)
@pytest.mark.parametrize("crowd", ["evenly split leaves alone", "among others"])
def test_gradients_at_split_and_pure_leaves(name, n_classes, crowd, rng, x64):
    """By the counts that are there: evenly split leaves, pure ones, empty ones, alone and among others."""
    if not x64:
        pytest.skip("finite differences need float64; the other run makes them")
    rule = make(name, n_classes, K)
    one = positive_counts(rng, (K,), n_classes)
    one[:4] = np.array([[2, 2, 2], [0, 3, 0], [0, 0, 0], [3, 0, 0]])[:, :n_classes]
    if crowd != "among others":
        one[1:] = 0
    by_counts = gradients(rule, jnp.asarray(np.tile(one, (N, 1, 1))))[1][0]
    there = one > 0
    expected = differences(rule, one, 1e-5)  # at a kink good to the step
    np.testing.assert_allclose(by_counts[there], expected[there], rtol=1e-5, atol=1e-6)
    # Vetoed by both pure leaves, or between leaves for either class, it has no say.
    assert np.any(np.abs(expected[0]) > 1e-3) or (crowd == "among others" and name in ("evidence_veto", "cautious"))
    assert np.all(np.isfinite(by_counts))


@pytest.mark.parametrize(("name", "n_classes"), BASIC)
@pytest.mark.exhaustive
def test_any_leaves(name, n_classes, tolerance):
    """Hypothesis: the float64 loops agree on integer counts up to a thousand; relabelled classes relabel the answer."""
    rule = make(name, n_classes, 4)
    even = ju.EvidenceAccumulation(np.full(n_classes, 1 / n_classes)) if name == "evidence" else rule

    @settings(max_examples=30)
    @given(hnp.arrays(np.int32, (1, 4, n_classes), elements=st.integers(0, 1000)))
    def check(counts):
        check_scores(tolerance, name, rule.answer(jnp.asarray(counts)), expected_scores(name, counts))
        flipped, answer = even.answer(jnp.asarray(counts[..., ::-1])), even.answer(jnp.asarray(counts))
        tolerance.check(flipped.class_scores[:, ::-1], answer.class_scores, kind=RULES[name].kind, scale=1.0)

    check()


@pytest.mark.once
@pytest.mark.parametrize("name", ["mean_own_scorer", "vote", "evidence", "dempster", "weighted_together"])
@pytest.mark.exhaustive(keep=1)
def test_rules_are_pytrees(name):
    """A rule survives flattening without a change, and its arrays can be swept by vmap."""
    rule = make(name, 2, K)
    answer = rule.answer(jnp.asarray(leaves(2)))
    flat, structure = jax.tree.flatten(rule)
    again = jax.tree.unflatten(structure, flat).answer(jnp.asarray(leaves(2)))
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(answer), strict=True):
        np.testing.assert_array_equal(a, b)
    if flat:
        both = jax.tree.map(lambda a: np.stack([a, a]), rule)
        swept = jax.jit(jax.vmap(lambda rule: rule.answer(jnp.asarray(leaves(2)))))(both)
        for a, b in zip(jax.tree.leaves(swept), jax.tree.leaves(answer), strict=True):
            assert a.shape == (2, *b.shape)
