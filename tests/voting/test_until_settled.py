"""Predicting until the vote is settled is the sequential rule, whatever is walked together."""

import dataclasses
import gc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import jaxunc as ju
from jaxunc import voting
from jaxunc._numerics import KeptWhileAlive
from jaxunc.voting import _leader_probability, _until_settled, _vote_prior, votes_of_counts
from jaxunc.voting._rounds import FEW
from jaxunc.voting._vote_prior import leaf_votes
from tests._compilations import compilations
from tests._forests import forest_of_leaves
from tests._refusal import refusals, refuses
from tests._sparse import sparse_data, sparse_forest
from tests.voting._votes import drawn_votes, finite_loss, forest_of_votes, grown_forest, rows_of, same

pytestmark = pytest.mark.once


@pytest.fixture(scope="module", params=[(2, 0.0), (2, 0.2), (5, 0.2)], ids=str)
def voted(request):
    """A forest of 60 trees whose votes are known, of which a share abstains, and 700 instances."""
    n_classes, abstaining = request.param
    votes = drawn_votes(np.random.default_rng(n_classes), 700, 60, n_classes, abstaining)
    forest, X = forest_of_votes(votes, n_classes)
    return forest, X, votes, n_classes


@pytest.mark.exhaustive
def test_fewer_trees_than_the_forest_has(voted):
    forest, X, votes, n_classes = voted
    found = ju.predict_until_settled(forest, X, confidence=0.99, max_trees=17)
    same(found, voting.stop_after(votes[:, :17], n_classes, confidence=0.99))
    assert found.n_trees == 17
    assert found.saved == pytest.approx(1 - found.n_trees_used.mean() / 17)
    # What is certain is certain of the whole forest.
    found = ju.predict_until_settled(forest, X, criterion="certain", max_trees=40)
    whole = voting.stop_after(votes, n_classes, confidence=0.99, criterion="certain")
    early = np.asarray(whole.n_trees_used) <= 40
    np.testing.assert_array_equal(found.settled, early & np.asarray(whole.settled))
    np.testing.assert_array_equal(found.predicted[early], np.asarray(whole.predicted)[early])


ON_HOST = [(3, {"criterion": "exact"}), (3, {"prior": np.linspace(0.5, 2, 3)})]


@pytest.mark.parametrize(
    ("n_classes", "settings"), [*ON_HOST, *((n, {"population": "finite"}) for n in (3, 2))], ids=str
)
@pytest.mark.parametrize("abstaining", [0.0, 0.2])
@pytest.mark.exhaustive(keep=2)
def test_what_is_computed_on_the_host(n_classes, settings, abstaining):
    votes = drawn_votes(np.random.default_rng(0), 80, 24, n_classes, abstaining)
    forest, X = forest_of_votes(votes, n_classes)
    found = ju.predict_until_settled(forest, X, confidence=0.9, **settings)
    same(found, voting.stop_after(votes, n_classes, confidence=0.9, **settings))
    assert np.all(found.probability[found.settled] > 0.9 - 1e-7)  # in float32
    if settings.get("population") != "finite":  # of which a vote that used all trees may be tied
        assert np.all(found.probability[~found.settled] <= 0.9)


@pytest.mark.exhaustive
def test_a_finite_population_of_many_classes(monkeypatch):
    """1 less a sum over rivals may be far below 0; distinct votes are few, so the host is quick."""
    votes = drawn_votes(np.random.default_rng(0), 200, 100, 10)
    forest, X = forest_of_votes(votes, 10)
    bound = voting.bind_vote(forest, population="finite", max_trees=100)
    rows: list[int] = []
    decided = _leader_probability._at_the_end
    monkeypatch.setattr(
        _leader_probability, "_at_the_end", lambda ahead, *rest: rows.append(len(ahead)) or decided(ahead, *rest)
    )
    found = bound(X)
    assert sum(rows) < 10_000, "of 200 instances, 9 rivals and 100 trees what differs alone"
    assert np.all((found.probability >= 0) & (found.probability <= 1))
    early = voting.bind_vote(forest, population="finite", max_trees=1)(X)
    assert np.all(early.probability == 0)  # nine rivals, each with nearly one half


@pytest.mark.exhaustive
def test_probabilities(voted):
    forest, X, _, _ = voted
    found = ju.predict_until_settled(forest, X, confidence=0.95)
    expected = np.asarray(voting.win_probability(found.votes)).max(axis=1)
    np.testing.assert_allclose(found.probability, expected, atol=3e-6)
    assert np.all((found.probability > 0.95) == found.settled)
    assert np.all(ju.predict_until_settled(forest, X, criterion="certain").probability == 1)  # all trees were used
    found = ju.predict_until_settled(forest, X[::20], criterion="certain", max_trees=35)
    assert np.all(found.probability[found.settled] == 1)
    open_ = np.flatnonzero(~found.settled)
    for i in open_[:6]:
        expected = max(1 - finite_loss(found.votes[i], 35, 60), 0)
        assert found.probability[i] == pytest.approx(expected, abs=1e-6)
    assert 0 < np.min(found.probability[open_]) < 0.9


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_classes", [2, 3])
def test_small_leaves_vote_as_the_rule_vote_does(n_classes):
    """Empty and tied leaves, as counts out of bag have them, lean to no class."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(n_classes, 2), size=200)
    counts = rng.multinomial(rng.integers(0, 4, size=(200, 120)), p[:, None])
    forest, X = forest_of_leaves(counts)
    result = ju.predict_until_settled(forest, X, criterion="certain")
    votes = votes_of_counts(counts, np.arange(120))
    same(result, voting.stop_after(votes, n_classes, confidence=0.99, criterion="certain"))
    shares = np.asarray(ju.bind(forest, ju.Vote())(X))
    shares = np.stack([1 - shares, shares], axis=1) if shares.ndim == 1 else shares
    if n_classes == 2:
        np.testing.assert_array_equal(result.predicted, shares.argmax(axis=1))
    assert np.mean(result.predicted == shares.argmax(axis=1)) > 0.93
    assert np.mean(result.predicted == p.argmax(axis=1)) > 0.85
    cast = np.stack([(votes == c).mean(axis=1) for c in range(n_classes)], axis=1)
    cast += (votes < 0).mean(axis=1, keepdims=True) / n_classes
    np.testing.assert_allclose(cast.mean(axis=0), shares.mean(axis=0), atol=0.004)
    np.testing.assert_allclose(cast, shares, atol=0.1)


@pytest.fixture(scope="module")
def fitted():
    return grown_forest()


@pytest.mark.room
@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("missing", [True, False])
def test_a_grown_forest(fitted, missing):
    forest, X = fitted
    X = X if missing else np.nan_to_num(X)
    counts, trees = np.asarray(ju.leaf_counts(forest, X)), np.arange(80)
    votes = votes_of_counts(counts, trees)
    coded = np.asarray(leaf_votes(forest))[trees, np.asarray(ju.leaf_index(forest, X))]
    np.testing.assert_array_equal(np.where(coded == 2, -1, coded.astype(int)), votes)
    assert np.any(votes < 0)  # leaves of four instances that are tied
    bound = voting.bind_vote(forest)
    whole = bound(X)
    same(whole, voting.stop_after(votes, 2, confidence=0.99))
    assert len(np.unique(whole.n_trees_used)) > 10
    for start, n in ((0, 1), (39, 1), (8, 8), (20, 20)):
        rows = slice(start, start + n)
        part = bound(X[rows])
        same(part, rows_of(whole, rows))
        np.testing.assert_array_equal(part.probability, whole.probability[rows])
    found = ju.predict_until_settled(forest, X, criterion="certain")
    np.testing.assert_array_equal(found.predicted, (votes == 1).sum(axis=1) > (votes == 0).sum(axis=1))


@pytest.mark.exhaustive
def test_a_forest_of_several_counts_votes_by_its_own_and_nothing_settles(fitted):
    forest, X = fitted
    other = forest.with_counts(forest.counts[..., ::-1])
    same(ju.predict_until_settled(forest.with_count_set("oob", other), X), ju.predict_until_settled(forest, X))
    found = voting.bind_vote(forest, confidence=1 - 1e-15, max_trees=40)(X)
    assert not found.settled.any()
    assert np.all(found.n_trees_used == 40)


@pytest.mark.exhaustive
def test_empty_leaves(key):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(40, 2)).astype(np.float32)
    forest = ju.grow_random_trees(key, X, (X[:, 0] > 2).astype(int), n_trees=20, nominal=[True, True])
    refuses(ValueError, "no one vote", ju.predict_until_settled, forest, X)
    settled = forest.with_empty_leaves("parent")
    X = X[:, ::-1]
    votes = votes_of_counts(np.asarray(ju.leaf_counts(settled, X)), np.arange(20))
    same(ju.predict_until_settled(settled, X), voting.stop_after(votes, 2, confidence=0.99))
    abstaining = forest.with_empty_leaves("zeros")
    empty = np.asarray(ju.leaf_counts(abstaining, X)).sum(axis=2) == 0
    assert empty.any()
    found = ju.predict_until_settled(abstaining, X, confidence=1 - 1e-15)
    np.testing.assert_array_equal(found.votes.sum(axis=1), np.sum(~empty, axis=1))


@pytest.mark.room
def test_no_compilation_follows_the_data(fitted):
    forest, X = fitted
    bound = voting.bind_vote(forest)
    whole = np.nan_to_num(X)  # data with missing values have another program
    for rows in (X, X[:70], whole[:1], whole[:FEW]):  # 70 in this thread, where types are strict: another program
        bound(rows)
    with compilations() as names:
        bound(X[:77])
        bound(X[:19])
        for n in range(1, FEW + 1):
            bound(whole[n : 2 * n])
        bound(X[::-1])
        voting.bind_vote(forest, confidence=0.9)(X[:900])
    assert not [name for name in names if "poll" in name], names


def test_what_is_packed_once(fitted, monkeypatch):
    forest, X = fitted
    monkeypatch.setattr(_vote_prior, "_VOTES", KeptWhileAlive())
    forest = dataclasses.replace(forest, trees=jax.tree.map(jnp.array, forest.trees))
    expected, made = ju.predict_until_settled(forest, X[:3]), []
    monkeypatch.setattr(_until_settled, "make_plan", lambda *args, **kwargs: made.append(args))
    same(ju.predict_until_settled(forest, X[:3]), expected, "probability")
    assert not made
    assert len(_until_settled._PACKED) <= 2
    assert len(_vote_prior._VOTES) == 1
    del forest
    gc.collect()
    assert len(_vote_prior._VOTES) == 0


@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize(
    "how", [{}, {"criterion": "certain"}, {"criterion": "exact"}, {"population": "finite", "max_trees": 7}], ids=str
)
@pytest.mark.exhaustive
def test_sparse_instances(walk, how, monkeypatch):
    bound, X = voting.bind_vote(sparse_forest(3), walk=walk, **how), sparse_data(missing=True)
    expected = bound(X.toarray())
    same(bound(X), expected, *expected._fields)
    same(ju.predict_until_settled(sparse_forest(3), X.tocsc(), **how), expected, *expected._fields)
    monkeypatch.setattr(_until_settled, "SIZES", (64, 128))
    same(bound(X), expected, *expected._fields)
    for n in (0, 1, 5):
        np.testing.assert_array_equal(bound(X[:n]).votes, expected.votes[:n])


ask = ju.predict_until_settled
test_refusals = refusals(
    ("more trees", lambda fitted: ask(*fitted, max_trees=81), "max_trees=81, but the forest has 80 trees"),
    ("three columns", lambda fitted: ask(fitted[0], fitted[1][:, :3]), "3"),
    ("no thread", lambda fitted: voting.bind_vote(fitted[0], threads=0), "at least 1"),
    ("model", lambda fitted: ask(RandomForestClassifier(), fitted[1]), "from_sklearn", TypeError),
    ("boosted", lambda fitted: ask(GradientBoostingClassifier(), fitted[1]), "not exchangeable", TypeError),
    ("traced", lambda fitted: jax.eval_shape(partial(ask, fitted[0]), fitted[1]), "outside of jit", TypeError),
)
