"""Leaf counts of all pairs of an instance and a label by two algorithms, the probabilities, and what is refused."""

from functools import partial
from itertools import product
from unittest import mock

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import jaxunc as ju
from jaxunc.estimators import TransductiveTreeClassifier
from jaxunc.smoothing import SmoothedMean, fit_dirichlet_prior
from jaxunc.transduction import (
    Pairs,
    _certainty,
    _dense,
    _grouped,
    _grouped_tests,
    as_queries,
    label_average,
    presort,
    settings_of,
    transductive_certainty,
    transductive_leaf_counts,
)
from tests._golden import golden
from tests._profiles import agree_at_once, profiled
from tests._refusal import refusals
from tests.transduction._slow import drawn_set, slow_leaf

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)
CASES = [(case, key) for case in golden("tpce") for key in case["results"]]
N = 40
"""One size for the sets of all algorithms, so that programs are compiled once."""
KINDS = {"numeric": (), "mixed": (0, 2), "nominal": (0, 1, 2, 3, 4)}


def test_the_equation():
    counts = np.array([[[3, 0, 1], [2, 2, 0], [2, 0, 2]]])
    expected = np.mean([[4 / 7, 1 / 7, 2 / 7], [3 / 7, 3 / 7, 1 / 7], [3 / 7, 1 / 7, 3 / 7]], axis=0)
    np.testing.assert_allclose(label_average(counts), [expected], rtol=1e-15)
    np.testing.assert_allclose(label_average(counts, ju.Mean(ju.scorers.laplace)), [expected], rtol=1e-6)


@pytest.mark.exhaustive
def test_other_combiners():
    counts, tree = transductive_leaf_counts(X, Y), ju.transduction.grow_greedy_trees(X, Y)
    leaves = np.asarray(tree.counts[0])[np.asarray(tree.trees.is_leaf[0])]
    for combiner in (ju.Mean(), ju.Pooling(), SmoothedMean(fit_dirichlet_prior(leaves))):
        probs = transductive_certainty(X, Y, combiner=combiner)
        np.testing.assert_allclose(probs, combiner.probability(counts), rtol=1e-6)
        np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-5)


def test_doubts_are_where_the_errors_are():
    probs = transductive_certainty(X, Y)
    assert ju.metrics.accuracy(probs, Y) > 0.93
    assert ju.metrics.auc(probs.max(axis=1), probs.argmax(axis=1) == Y) > 0.7


def settings_of_case(key: str) -> dict:
    candidates, min_samples_leaf = (part.split("=")[1] for part in key.split(","))
    return {"candidates": candidates, "min_samples_leaf": int(min_samples_leaf)}


@pytest.mark.parametrize(("case", "key"), CASES, ids=range(len(CASES)))
def test_reference_cases(case, key):
    results = case["results"][key]
    found = transductive_leaf_counts(case["X"], case["y"], [one["x"] for one in results], **settings_of_case(key))
    np.testing.assert_array_equal(found, [one["leaf_counts_per_inserted_label"] for one in results])
    np.testing.assert_allclose(label_average(found), [one["pred"] for one in results], rtol=1e-14)


@pytest.mark.parametrize(("case", "key"), CASES, ids=range(len(CASES)))
@pytest.mark.exhaustive(keep=2)
def test_the_tree_without_the_instance(case, key):
    tree = ju.transduction.grow_greedy_trees(case["X"], case["y"], **settings_of_case(key))
    results = case["results"][key]
    found = ju.leaf_counts(tree, np.array([one["x"] for one in results], np.float32))[:, 0]
    np.testing.assert_array_equal(found, [one["base_tree_leaf"] for one in results])


@pytest.mark.parametrize("candidates", ["boundary", "all"])
@pytest.mark.parametrize("min_samples_leaf", [1, 2, 4])
@pytest.mark.parametrize(("n_classes", "missing"), [(2, False), (3, True)])
@pytest.mark.exhaustive(keep=2)
def test_one_tree_at_a_time(candidates, min_samples_leaf, n_classes, missing, rng):
    X, y, queries, nominal = drawn_set(rng, 24, n_classes, missing=missing)
    settings = {"candidates": candidates, "min_samples_leaf": min_samples_leaf}
    found = transductive_leaf_counts(X, y, queries, nominal=nominal, **settings)
    slow = {"nominal": nominal, "n_classes": n_classes, **settings}
    expected = [[slow_leaf(X, y, x, c, **slow) for c in range(n_classes)] for x in queries]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("candidates", ["boundary", "all"])
@pytest.mark.parametrize("min_samples_leaf", [1, 2, 3])
@pytest.mark.parametrize(("n_classes", "missing"), [(2, True), (3, False)])
def test_leaving_out_is_inserting_into_the_others(candidates, min_samples_leaf, n_classes, missing, rng):
    X, y, _, nominal = drawn_set(rng, 40, n_classes, missing=missing)
    settings = {"nominal": nominal, "candidates": candidates, "min_samples_leaf": min_samples_leaf}
    found = transductive_leaf_counts(X, y, **settings)
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        inserted = transductive_leaf_counts(X[others], y[others], X[i : i + 1], **settings)[0]
        np.testing.assert_array_equal(found[i], inserted)


@pytest.mark.parametrize("candidates", ["boundary", "all"])
@pytest.mark.parametrize("min_samples_leaf", [1, 3])
@pytest.mark.exhaustive
def test_the_label_none_is_the_tree_without_the_instance(candidates, min_samples_leaf, rng):
    X, y, queries, nominal = drawn_set(rng, 60, 3, missing=True)
    grow = {"nominal": nominal, "candidates": candidates, "min_samples_leaf": min_samples_leaf}
    own = grow | {"inductive": True}
    found = transductive_leaf_counts(X, y, queries, **own)
    tree = ju.transduction.grow_greedy_trees(X, y, **grow)
    np.testing.assert_array_equal(found[:, -1], ju.leaf_counts(tree, queries)[:, 0])
    np.testing.assert_array_equal(found[:, :-1], transductive_leaf_counts(X, y, queries, **{**own, "inductive": False}))
    found = transductive_leaf_counts(X, y, **own)
    for i in range(0, len(X), 4):
        others = np.arange(len(X)) != i
        tree = ju.transduction.grow_greedy_trees(X[others], y[others], **grow)
        np.testing.assert_array_equal(found[i, -1], ju.leaf_counts(tree, X[i : i + 1])[0, 0])


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.exhaustive
def test_real_sets(load, rng):
    """A sample of pairs, gains in fractions; and all of leave-one-out against insertion."""
    X, y = load(return_X_y=True)
    rows = rng.permutation(len(X))[:150]
    X, y = X[rows, :8].astype(np.float32).astype(float), y[rows]
    found, k = transductive_leaf_counts(X[:100], y[:100], X[100:]), y.max() + 1
    for i in rng.integers(0, 50, 3):
        for c in range(k):
            settings = {"n_classes": k, "candidates": "boundary", "min_samples_leaf": 2}
            np.testing.assert_array_equal(found[i, c], slow_leaf(X[:100], y[:100], X[100 + i], c, **settings))
    found = transductive_leaf_counts(X, y)
    for i in rng.integers(0, 150, 10):
        others = np.arange(150) != i
        np.testing.assert_array_equal(found[i], transductive_leaf_counts(X[others], y[others], X[i : i + 1])[0])


@pytest.mark.room(keep=1)
@pytest.mark.parametrize(("candidates", "min_samples_leaf"), [("boundary", 3), ("all", 1)])
def test_samples_together_are_as_each_alone_with_every_cut(candidates, min_samples_leaf, rng):
    """Nodes of one size share arrays, and cuts that cannot win are dropped: neither changes a count."""
    X, y, queries, _ = drawn_set(rng, 80, 3, missing=True)
    settings = {"nominal": (0,), "candidates": candidates, "min_samples_leaf": min_samples_leaf}
    call = lambda: [transductive_leaf_counts(X, y, queries, **settings), transductive_leaf_counts(X, y, **settings)]
    together, kept = call(), []

    def every_cut(cuts, *others):
        kept.append(len(contenders(cuts, *others)) / max(len(cuts.row), 1))
        return np.arange(len(cuts.row))

    contenders = _grouped_tests.contenders
    with mock.patch.object(_grouped, "MOST_VALUES", 60), mock.patch.object(_grouped_tests, "contenders", every_cut):
        alone = call()
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert min(kept) < 0.5 < max(kept)


def test_batches_and_names_of_classes_change_nothing(rng):
    X, y, queries, nominal = drawn_set(rng, 60, 3)
    whole = transductive_leaf_counts(X, y, queries, nominal=nominal)
    for i in range(len(queries)):
        np.testing.assert_array_equal(transductive_leaf_counts(X, y, queries[i : i + 1], nominal=nominal)[0], whole[i])
    for order in ([1, 2, 0], [2, 1, 0]):
        place = np.array(order)
        found = transductive_leaf_counts(X, place[y], queries, nominal=nominal)
        np.testing.assert_array_equal(found[:, place][:, :, place], whole)
    words = np.array(["a", "b", "c"])[y]
    np.testing.assert_array_equal(transductive_leaf_counts(X, words, queries, nominal=nominal), whole)


@pytest.mark.exhaustive
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-5, 5)), min_size=5, max_size=5))
def test_maps_that_keep_halfway_points_change_nothing(maps):
    """Powers of two times the numbers, and a shift: exact in floats."""
    rng = np.random.default_rng(7)
    X, y, queries = (rng.integers(0, 12, (30, 5)) / 2, rng.integers(0, 2, 30), rng.integers(-1, 26, (8, 5)) / 4)
    scale, shift = np.array([2.0**power for power, _ in maps]), np.array([by / 8 for _, by in maps])
    found = transductive_leaf_counts(X * scale + shift, y, queries * scale + shift)
    np.testing.assert_array_equal(found, transductive_leaf_counts(X, y, queries))


@pytest.fixture
def few_at_a_time():
    """Several blocks for a set."""
    with mock.patch.object(_dense, "HOST_BLOCK", 2000), mock.patch.object(_dense, "DEVICE_BLOCK", 2000):
        yield


def a_set(rng, kind: str, n_classes: int, missing: bool):
    """Ties, a constant feature, equal instances; queries that nobody has seen, and missing values."""
    X, y, queries, _ = drawn_set(rng, N, n_classes, missing=missing)
    X[N // 2 : N // 2 + 6] = X[:6]
    if kind == "nominal":
        X[:, 3], queries[:, 3] = np.floor(X[:, 3]), np.floor(queries[:, 3])
    return X, y, queries, KINDS[kind]


def answers(algorithm: str, X, y, queries, settings) -> list[np.ndarray]:
    """Inserted and left out, with the tree that has no instance."""
    inserted = transductive_leaf_counts(X, y, queries, algorithm=algorithm, inductive=True, **settings)
    return [inserted, transductive_leaf_counts(X, y, algorithm=algorithm, inductive=True, **settings)]


@pytest.mark.parametrize(("n_classes", "missing"), [(3, True), (2, False)])
@pytest.mark.exhaustive(keep=1)
@pytest.mark.usefixtures("few_at_a_time")
def test_the_same_integers(n_classes, missing, rng):
    X, y, queries, nominal = a_set(rng, "nominal", n_classes, missing)
    for candidates, min_samples_leaf in product(("boundary", "all"), range(1, 6)):
        if min_samples_leaf % 2 != (candidates == "all"):
            continue  # three of one rule, two of the other
        settings = {"nominal": nominal, "candidates": candidates, "min_samples_leaf": min_samples_leaf}
        expected = answers("grouped", X, y, queries, settings)
        for found, right in zip(answers("dense", X, y, queries, settings), expected, strict=True):
            np.testing.assert_array_equal(found, right, err_msg=f"{settings}")


@pytest.mark.parametrize(("n_classes", "candidates"), [(5, "boundary"), (2, "all")])
@pytest.mark.exhaustive
@pytest.mark.usefixtures("few_at_a_time")
def test_one_program_for_all_depths(n_classes, candidates, rng):
    """The dense algorithm as it runs on an accelerator."""
    X, y, queries, nominal = a_set(rng, "nominal", n_classes, True)
    for min_samples_leaf in (1, 3):
        settings = {"nominal": nominal, "candidates": candidates, "min_samples_leaf": min_samples_leaf}
        expected = answers("grouped", X, y, queries, settings)
        on_device = lambda pairs, on_host: _dense.descend_dense(pairs, on_host=False)
        with mock.patch.object(_certainty, "descend_dense", on_device):
            found = answers("dense", X, y, queries, settings)
        for one, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, right)


@pytest.mark.parametrize("algorithm", ["grouped", "dense"])
@pytest.mark.usefixtures("few_at_a_time")
def test_degenerate_sets(algorithm):
    """Numbers for the grouped algorithm, the same as nominal values for the dense one."""
    nominal = None if algorithm == "grouped" else [0]
    settings = {"nominal": nominal, "algorithm": algorithm}
    same, y = np.ones((6, 2)), [0, 0, 1, 1, 1, 1]
    both = settings | {"nominal": nominal and [0, 1]}
    counts = transductive_leaf_counts(same, y, same[:1], **both)
    np.testing.assert_array_equal(counts, [[[3, 4], [2, 5]]])  # constant features: a single leaf
    assert transductive_leaf_counts(same, y, np.zeros((0, 2)), **both).shape == (0, 2, 2)
    assert ju.transductive_certainty(same, y, np.zeros((0, 2)), **both).shape == (0, 2)
    one, equal = [[0.0], [1.0], [2.0], [3.0]], [[0.0], [0.0], [1.0], [1.0]]
    counts = transductive_leaf_counts(equal, [0, 1, 0, 1], [[0.0]], min_samples_leaf=1, **settings)
    np.testing.assert_array_equal(counts, [[[2, 1], [1, 2]]])  # equal instances of two classes
    # A class of one instance: left out, nothing has it, and yet it is a label that is tried.
    counts = transductive_leaf_counts(one, [0, 0, 0, 1], min_samples_leaf=1, **settings)
    again = transductive_leaf_counts(one, [0, 0, 0, 1], min_samples_leaf=1, nominal=nominal)
    np.testing.assert_array_equal(counts, again)
    if algorithm == "grouped":
        np.testing.assert_array_equal(counts[3], [[4, 0], [3, 1]])
    of_two = transductive_leaf_counts([[0.0], [1.0]], [0, 1], **settings)
    np.testing.assert_array_equal(of_two, [[[1, 1], [0, 2]], [[2, 0], [1, 1]]])


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("algorithm", ["grouped", "dense"])
@pytest.mark.usefixtures("few_at_a_time")
def test_progress(algorithm, rng):
    """And the counts are those that are chosen without a name."""
    drawn, y, _, nominal = a_set(rng, "nominal", 2, False)
    heard, listen = [], lambda now: heard.append(now[:2])
    found = transductive_leaf_counts(drawn, y, nominal=nominal, algorithm=algorithm, progress=listen)
    np.testing.assert_array_equal(found, transductive_leaf_counts(drawn, y, nominal=nominal))
    assert heard[-1] == (2 * N, 2 * N)
    assert heard == sorted(heard)


def test_the_choice(rng):
    """By the features, the backend, and how much there is to do."""

    def chosen(kind, place):
        X, y, _, nominal = a_set(rng, kind, 2, False)
        sample = presort(X, y, nominal)
        return _certainty.choose_algorithm(Pairs(sample, None, settings_of(sample, "boundary", 2)), place)

    assert [chosen(kind, "host") for kind in KINDS] == ["grouped", "grouped", "dense"]
    assert [chosen(kind, "accelerator") for kind in KINDS] == ["grouped", "grouped", "dense"]
    with mock.patch.dict(_certainty.MOST_WORK, host=9):
        assert [chosen("nominal", place) for place in ("host", "accelerator")] == ["grouped", "dense"]


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.exhaustive
def test_programs_are_made_for_accelerators(platform):
    """Nothing in them is the host's alone: they are lowered, not compiled."""
    n, n_tests = 8, 3
    dense = _dense.Dense(np.zeros((n_tests, n), bool), np.zeros((n, 2 + 2 * n_tests), np.float32), np.zeros(n + 2, int))
    has, number = np.zeros((4, n_tests), bool), np.zeros((2, 4), np.int32)
    with jax.enable_x64(True):
        program = _dense._leaves.trace(dense, has, number, 7, 2, n_labels=2, leaves_out=True, boundaries=True)
        assert "func" in program.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.once
@pytest.mark.usefixtures("few_at_a_time")
def test_a_call_of_an_accelerator_is_one_program(rng, x64):
    """However many blocks there are; x64 stays as it was."""
    X, y, queries, nominal = a_set(rng, "nominal", 2, False)
    sample = presort(X, y, nominal)
    settings = settings_of(sample, "boundary", 2)
    for rows in (queries[:1], queries, np.resize(queries, (999, queries.shape[1])), None):
        asked = lambda rows=rows: Pairs(sample, None if rows is None else as_queries(rows, sample), settings)
        pairs, expected = asked(), asked()
        assert profiled(lambda pairs=pairs: _dense.descend_dense(pairs, on_host=False)).programs == 1
        _dense.descend_dense(expected, on_host=True)
        np.testing.assert_array_equal(pairs.leaf_counts, expected.leaf_counts)
    _dense.descend_dense(Pairs(sample, as_queries(queries[:0], sample), settings), on_host=False)
    assert jax.config.jax_enable_x64 == x64


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.usefixtures("few_at_a_time")
def test_ten_threads_at_once(platform, rng):
    """By the dense algorithm, of a set that none has asked before; the program is one of 64 queries."""
    X, y, queries, nominal = a_set(rng, "nominal", 2, True)
    with mock.patch.object(_certainty, "default_platform", return_value=platform):
        model = TransductiveTreeClassifier(nominal=nominal, algorithm="dense").fit(X, y)
        agree_at_once(model.bound_.leaf_counts, [np.roll(queries, k, axis=0)[: 1 + k] for k in range(10)])
        answers = [model.bound_.leaf_counts(queries), transductive_leaf_counts(X, y, queries, nominal=nominal)]
        np.testing.assert_array_equal(*answers)


_asked = lambda X=X, y=Y, new=X, **how: lambda: transductive_certainty(X, y, new, **how)
BY_ALGORITHM = {
    "certainty": lambda algorithm: transductive_certainty(X, Y, X, algorithm=algorithm),
    "leave one out": lambda algorithm: transductive_certainty(X, Y, algorithm=algorithm),
    "classifier": lambda algorithm: TransductiveTreeClassifier(algorithm=algorithm).fit(X, Y).predict(X),
}
test_refusals = refusals(
    ("columns", _asked(new=X[:, :2]), "features"),
    ("labels", _asked(y=Y[:5]), "one label per instance"),
    ("one class", _asked(y=np.zeros(150)), "one class only"),
    ("nothing", _asked(X[:0], Y[:0]), "at least one of each"),
    ("candidates", _asked(candidates="few"), "Choose one of"),
    ("infinite", _asked(new=np.full((1, 4), np.inf)), "infinite"),
    ("infinite labels", lambda: transductive_certainty(X, np.where(Y, np.nan, 1)), "infinite labels"),
    ("nominal", lambda: transductive_certainty(X.astype(str), Y, nominal=[7]), "nominal"),
    ("one share", lambda: label_average(np.ones((3, 1))), "two or more"),
    ("negative", lambda: label_average(-np.ones((3, 2))), "negative"),
    ("unknown argument", _asked(candidate="all"), "Did you mean 'candidates'", TypeError),
    *(
        (f"{name}, {algorithm}", partial(call, algorithm), words)
        for name, call in BY_ALGORITHM.items()
        for algorithm, words in (("quick", "Choose one of"), ("dense", "4 of 4 are numeric; pass algorithm='auto'"))
    ),
)
