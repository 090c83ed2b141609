"""Three ways to compute the same counts."""

from itertools import product
from unittest import mock

import jax
import numpy as np
import pytest
from sklearn.datasets import load_iris

import jaxunc as ju
from jaxunc.estimators import TransductiveTreeClassifier
from jaxunc.transduction import (
    _algorithms,
    _dense,
    _node_choice,
    _node_tables,
    _nodes,
    leave_one_out_leaf_counts,
    transductive_leaf_counts,
)
from jaxunc.transduction._certainty import settings_of
from jaxunc.transduction._pairs import Pairs
from jaxunc.transduction._presorted import presort
from tests._exhaustive import a_few_of
from tests._refusal import refuses
from tests.transduction._slow import drawn_set

pytestmark = pytest.mark.once

N = 40
"""One size for all sets here, so that programs are compiled once."""

KINDS = {"numeric": (), "mixed": (0, 2), "nominal": (0, 1, 2, 3, 4)}


@pytest.fixture(autouse=True)
def few_at_a_time():
    """Several calls for a set, and several blocks."""
    with (
        mock.patch.object(_nodes, "MOST_ITEMS", 8),
        mock.patch.object(_nodes, "PAIRS", 128),
        mock.patch.object(_dense, "HOST_BLOCK", 2000),
        mock.patch.object(_dense, "DEVICE_BLOCK", 2000),
    ):
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
    return [inserted, leave_one_out_leaf_counts(X, y, algorithm=algorithm, inductive=True, **settings)]


@pytest.mark.parametrize(
    ("kind", "n_classes", "missing"),
    a_few_of(
        [("numeric", 2, False), ("mixed", 3, True), ("mixed", 4, False), ("nominal", 3, True)],
        [("mixed", 3, True)],
        several=True,
    ),
)
@pytest.mark.exhaustive
def test_the_same_integers(kind, n_classes, missing, rng):
    X, y, queries, nominal = a_set(rng, kind, n_classes, missing)  # one set: its programs serve all settings
    for candidates, min_samples_leaf in product(("boundary", "all"), range(1, 6)):
        if min_samples_leaf % 2 != (candidates == "all"):
            continue  # three of one rule, two of the other
        settings = {"nominal": nominal, "candidates": candidates, "min_samples_leaf": min_samples_leaf}
        expected = answers("grouped", X, y, queries, settings)
        for algorithm in ("nodes", "dense")[: 1 + (kind == "nominal")]:
            for found, right in zip(answers(algorithm, X, y, queries, settings), expected, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=f"{algorithm} {settings}")


@pytest.mark.parametrize(("n_classes", "candidates"), [(5, "boundary"), (2, "all")])
@pytest.mark.exhaustive
def test_one_program_for_all_depths(n_classes, candidates, rng):
    """The dense algorithm as it runs on an accelerator."""
    X, y, queries, nominal = a_set(rng, "nominal", n_classes, True)
    for min_samples_leaf in (1, 3):
        settings = {"nominal": nominal, "candidates": candidates, "min_samples_leaf": min_samples_leaf}
        expected = answers("grouped", X, y, queries, settings)
        on_device = lambda pairs, on_host: _dense.descend_dense(pairs, on_host=False)
        with mock.patch.object(_algorithms, "descend_dense", on_device):
            found = answers("dense", X, y, queries, settings)
        for one, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, right)


@pytest.mark.exhaustive
def test_several_padded_sizes():
    X, y = load_iris(return_X_y=True)
    np.testing.assert_array_equal(leave_one_out_leaf_counts(X, y, algorithm="nodes"), leave_one_out_leaf_counts(X, y))
    probs = ju.transductive_certainty(X[::2], y[::2], X[1::2], algorithm="nodes")
    np.testing.assert_array_equal(probs, ju.transductive_certainty(X[::2], y[::2], X[1::2]))
    model = TransductiveTreeClassifier(algorithm="nodes", combiner=None).fit(X[::2], y[::2])
    np.testing.assert_array_equal(model.predict_proba(X[1::2]), probs)


@pytest.mark.parametrize("algorithm", ["nodes", "dense"])
@pytest.mark.exhaustive
def test_degenerate_sets(algorithm):
    same, y, nominal = np.ones((6, 2)), [0, 0, 1, 1, 1, 1], [0, 1]
    counts = transductive_leaf_counts(same, y, same[:1], nominal=nominal, algorithm=algorithm)
    np.testing.assert_array_equal(counts, [[[3, 4], [2, 5]]])  # constant features: a single leaf
    empty = transductive_leaf_counts(same, y, np.zeros((0, 2)), nominal=nominal, algorithm=algorithm)
    assert empty.shape == (0, 2, 2)
    counts = leave_one_out_leaf_counts([[0.0], [1.0]], [0, 1], nominal=[0], algorithm=algorithm)
    assert counts.tolist() == [[[1, 1], [0, 2]], [[2, 0], [1, 1]]]
    counts = leave_one_out_leaf_counts(
        [[0.0], [1.0], [2.0], [3.0]], [0, 0, 0, 1], nominal=[0], min_samples_leaf=1, algorithm=algorithm
    )
    np.testing.assert_array_equal(
        counts, leave_one_out_leaf_counts([[0.0], [1.0], [2.0], [3.0]], [0, 0, 0, 1], nominal=[0], min_samples_leaf=1)
    )


@pytest.mark.exhaustive
def test_progress(rng):
    X, y, _, nominal = a_set(rng, "nominal", 2, False)
    for algorithm in ("nodes", "dense"):
        heard = []
        leave_one_out_leaf_counts(
            X, y, nominal=nominal, algorithm=algorithm, progress=lambda now, to=heard: to.append(now[:2])
        )
        assert heard[-1] == (2 * N, 2 * N)
        assert heard == sorted(heard)


def test_the_choice(rng):
    """By the features, the backend, and how much there is to do."""

    def chosen(kind, place):
        X, y, _, nominal = a_set(rng, kind, 2, False)
        sample = presort(X, y, nominal)
        return _algorithms.chosen_algorithm(Pairs(sample, None, settings_of(sample, "boundary", 2)), place)

    assert [chosen(kind, "host") for kind in KINDS] == ["grouped", "grouped", "dense"]
    assert [chosen(kind, "accelerator") for kind in KINDS] == ["grouped", "grouped", "dense"]
    with (
        mock.patch.object(_algorithms, "LEAST_PAIRS", 1),
        mock.patch.dict(_algorithms.MOST_WORK, host=9, accelerator=9),
    ):
        assert [chosen(kind, "host") for kind in KINDS] == ["grouped"] * 3
        assert [chosen(kind, "accelerator") for kind in KINDS] == ["nodes"] * 3
        with mock.patch.object(_algorithms, "MOST_BYTES", 1):
            assert chosen("numeric", "accelerator") == "grouped"


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.exhaustive
def test_programs_are_made_for_accelerators(platform, rng):
    """Nothing in them is the host's alone: they are lowered, not compiled."""
    X, y, _, nominal = a_set(rng, "mixed", 2, False)
    sample = presort(X, y, nominal)
    pairs = Pairs(sample, None, settings_of(sample, "boundary", 2))
    rules = _node_tables.Rules(2, sample.n_codes, True, True)
    with jax.enable_x64(True):
        known = _nodes._known(pairs)
        items, at = np.zeros((4, 64), np.int32), np.zeros(4, np.int32)
        program = _node_tables.tables.trace(known, items, at, at, 2, rules)
        assert "func" in program.lower(lowering_platforms=(platform,)).as_text()
        table = jax.eval_shape(lambda *parts: _node_tables.tables(*parts, 2, rules), known, items, at, at)
        program = _node_choice.choose.trace(known, table, at, at, rules)
        assert "func" in program.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.exhaustive
def test_x64_stays_as_it_was(x64):
    X, y = load_iris(return_X_y=True)
    transductive_leaf_counts(X[::2], y[::2], X[1:9], algorithm="nodes")
    assert jax.config.jax_enable_x64 == x64


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [("quick", "Choose one of"), ("dense", "2 of 4|4 of 4 are numeric; pass algorithm='auto'")],
)
def test_refusals(algorithm, message):
    X, y = load_iris(return_X_y=True)
    for call in (
        lambda: ju.transductive_certainty(X, y, X, algorithm=algorithm),
        lambda: ju.transduction.leave_one_out_certainty(X, y, algorithm=algorithm),
        lambda: TransductiveTreeClassifier(algorithm=algorithm).fit(X, y).predict(X),
    ):
        with refuses(ValueError, message):
            call()
