"""Fitting, selecting and stacking: what is found, what stays, when it stops, what is refused; loops of one's own."""

import functools
import itertools
import pickle

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import minimize_scalar
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.learning import _descent, fit_combiner, loss_on, select_combiner, stack_combiners, standard_errors
from jaxunc.learning._fit import _split_validation, parameters_of, problem_of
from jaxunc.learning._select import _find_weights
from tests._forests import toy_data
from tests._refusal import refusals
from tests._rules import LEARNERS, PRIORS

pytestmark = pytest.mark.once
PRIOR = PRIORS[2]


@pytest.mark.exhaustive(keep=2)
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.room
def test_learning_lowers_the_loss(name, rows):
    fitted = fit_combiner(LEARNERS[name](), rows, n_steps=30)
    assert fitted.loss <= fitted.start_loss
    assert fitted.loss == pytest.approx(loss_on(fitted.combiner, rows), rel=1e-4)
    assert fitted.status in ("converged", "steps")
    assert len(fitted.history["loss"]) == fitted.n_steps + 1 <= 31


@pytest.mark.exhaustive
def test_a_round_trip_and_a_single_step(rows):
    one = fit_combiner(ju.LearnedPool(PRIOR), rows, n_steps=1)
    assert (one.n_steps, one.status, len(one.history["loss"])) == (1, "steps", 2)
    assert one.loss < one.start_loss
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows)
    assert eqx.tree_equal(pickle.loads(pickle.dumps(fitted.combiner)), fitted.combiner)
    assert eqx.tree_equal(jax.tree.unflatten(*reversed(jax.tree.flatten(fitted.combiner))), fitted.combiner)
    assert eqx.tree_equal(fit_combiner(ju.LearnedPool(PRIOR), rows).combiner, fitted.combiner)


@pytest.mark.exhaustive
def test_frozen_fields_stay(rows):
    combiner = ju.Calibrated(ju.EvidenceAccumulation(PRIOR, smoothing=0.7), scale=0.1)
    fitted = fit_combiner(combiner, rows, freeze=("rule.log_prior", "scale"), n_steps=5).combiner
    np.testing.assert_array_equal(fitted.rule.log_prior, combiner.rule.log_prior)
    np.testing.assert_array_equal(fitted.scale, combiner.scale)
    assert float(fitted.rule.smoothing) != float(combiner.rule.smoothing)


@pytest.mark.exhaustive
def test_validation_tells_the_best_step(rows):
    combiner = ju.Calibrated(ju.Weighted(ju.Mean(), np.ones(60)), scale=np.ones(2), bias=np.zeros(2))
    fitted = fit_combiner(combiner, rows, validation=0.3, patience=3)
    validated = fitted.history["validation"]
    assert fitted.loss == pytest.approx(validated.min(), rel=1e-4)


@pytest.mark.parametrize(
    ("validated", "n_steps", "last", "best", "status", "n_losses"),
    [
        ([3, 2, 2.5, 1, 1, 1, 0], 9, 6, 3, "stopped early", 6),
        ([3, 2, 1, 2, 0], 9, 3, 2, "converged", 4),
        ([1, 2, 3], 1, 6, 0, "steps", 2),
        (None, 9, 6, 6, "converged", 7),
        (None, 4, 6, 4, "steps", 5),
    ],
)
def test_the_best_step_and_the_last(validated, n_steps, last, best, status, n_losses):
    """Of steps whose losses fall from 9 on, with a patience of 2; ``last`` is the one that has converged."""
    steps = (_descent.Step(number, 9.0 - number, 1.0, number == last) for number in range(7))
    settings = {"n_steps": n_steps, "patience": 2, "report": lambda number, loss: None}
    step, ended, history = _descent.best_step(steps, validated and validated.__getitem__, **settings)
    assert (step.numbers, ended) == (best, status)
    losses = {"loss": np.arange(9.0, 2, -1)} | ({"validation": validated} if validated else {})
    assert {name: list(values) for name, values in history.items()} == {
        name: list(values[:n_losses]) for name, values in losses.items()
    }


@pytest.mark.exhaustive
def test_other_optimisers(rows):
    wanted = fit_combiner(ju.LearnedPool(PRIOR), rows).loss
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows, optimizer=optax.adam(0.1), n_steps=200)
    assert fitted.loss == pytest.approx(wanted, rel=0.01)
    with pytest.warns(UserWarning, match=r"smaller learning rate|Take a smaller rate"):
        lost = fit_combiner(ju.LearnedPool(PRIOR), rows, optimizer=optax.sgd(1e6), n_steps=20)
    assert lost.status == "diverged"
    assert lost.loss <= lost.start_loss


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["pool", "calibrated"])
def test_many_rows_learn_in_parts_what_they_learn_at_once(name, rows, monkeypatch):
    wanted = fit_combiner(LEARNERS[name](), rows)
    monkeypatch.setattr(_descent, "ROWS_PER_PART", 64)
    fitted, again = (fit_combiner(LEARNERS[name](), rows, key=jax.random.key(3)) for _ in range(2))
    assert fitted.loss == pytest.approx(wanted.loss, rel=2e-3)
    assert fitted.loss == pytest.approx(loss_on(fitted.combiner, rows), rel=1e-4)
    assert fitted.start_loss == pytest.approx(wanted.start_loss, rel=1e-4)
    assert eqx.tree_equal(fitted.combiner, again.combiner)


@pytest.mark.exhaustive
def test_rows_that_weigh_nothing_are_in_no_part(rows, monkeypatch):
    monkeypatch.setattr(_descent, "ROWS_PER_PART", 64)
    half = np.arange(rows.n) < 100
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows.with_weight(np.where(half, 2.0, 0.0)))
    problem = problem_of(rows.with_weight(half), ju.LearnedPool(PRIOR), [], [], "log", jax.random.key(0))
    parts = _descent.split_rows(problem, "log", jax.random.key(0))
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert sum(int((np.asarray(part.problem.weight) > 0).sum()) for part in parts) == 100
    assert fitted.loss == pytest.approx(loss_on(fitted.combiner, rows.with_weight(half)), rel=1e-4)


@pytest.mark.exhaustive
def test_progress(rows, monkeypatch, capsys):
    monkeypatch.setattr(_descent, "ROWS_PER_PART", 64)
    heard = []
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows, progress=heard.append)
    assert [p.done for p in heard if p.n_rows == rows.n] == list(range(fitted.n_steps + 1))
    assert heard[0].n_rows < rows.n
    assert heard[0].loss == heard[0].start_loss == pytest.approx(fitted.start_loss, rel=0.5)
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(heard))
    fit_combiner(ju.LearnedPool(PRIOR), rows, progress=True)
    line = capsys.readouterr().err
    assert line.endswith("\n")
    assert f"LearnedPool, step {fitted.n_steps}: loss" in line
    select_combiner({"pool": ju.LearnedPool(PRIOR)}, rows, n_folds=2, progress=heard.append)
    assert heard[-1].what == "pool, fold 2 of 2"


def test_numbers_per_tree_route_the_rows_and_both_counts_serve_combiners_of_one_kind(rows, wide):
    said = lambda combiner, rows=rows: rows.answer(combiner).probability
    assert not np.allclose(said(ju.Weighted(ju.Mean(), np.linspace(0.5, 2, 60))), said(ju.Mean()), atol=1e-4)
    np.testing.assert_allclose(said(ju.Weighted(ju.Mean(), np.ones(60))), said(ju.Mean()), atol=1e-5)
    np.testing.assert_allclose(said(ju.Mean(), wide), said(ju.Mean()), atol=1e-6)


@pytest.mark.exhaustive
def test_standard_errors_are_those_of_a_logistic_regression(rows):
    """Scale and bias of a calibrated mean are the coefficients of a logistic regression on the log odds."""
    fitted = fit_combiner(ju.Calibrated(ju.Mean(), scale=1.0, bias=np.zeros(2), clip=1e-4), rows, n_steps=200)
    found = standard_errors(fitted.combiner, rows)["scale"]
    logs = np.log(np.maximum(rows.answer(ju.Mean()).probability.astype(float), 1e-4))
    odds = logs[:, 1] - logs[:, 0]
    design = np.stack([odds, np.ones(len(odds))], axis=1)
    shares = rows.answer(fitted.combiner).probability[:, 1].astype(float)
    error = np.sqrt(np.linalg.inv(design.T @ (design * (shares * (1 - shares))[:, None]))[0, 0])
    assert float(found.error) == pytest.approx(error, rel=0.05)
    assert float(found.value) == pytest.approx(float(fitted.combiner.scale), rel=1e-5)


@pytest.mark.exhaustive
def test_the_best_of_the_default_candidates_is_selected_and_a_stack_is_no_worse(wide):
    candidates = wide.default_candidates()
    chosen, stacked = (choose(candidates, wide, n_folds=3) for choose in (select_combiner, stack_combiners))
    assert chosen.losses[chosen.name] == min(chosen.losses.values())
    assert set(chosen.losses) == {"pool", "calibrated mean"}
    assert chosen.fitted.loss == pytest.approx(loss_on(chosen.fitted.combiner, wide), rel=1e-4)
    assert stacked.losses == pytest.approx(chosen.losses, rel=1e-4)
    assert sum(stacked.weights.values()) == pytest.approx(1)
    assert stacked.loss < max(stacked.losses.values())
    assert loss_on(stacked.combiner, wide) < loss_on(ju.Mean(), wide)


def test_weights_are_those_of_the_best_average(rng):
    logs, weight = np.log(rng.uniform(0.05, 1, (2, 50))), rng.uniform(0.5, 2, 50)
    lost = lambda v: -(weight @ np.log(v * np.exp(logs[0]) + (1 - v) * np.exp(logs[1])) + np.log(v * (1 - v)))
    wanted = minimize_scalar(lost, bounds=(1e-6, 1 - 1e-6), method="bounded").x
    np.testing.assert_allclose(_find_weights(logs, weight), [wanted, 1 - wanted], atol=1e-4)


learn = lambda make=lambda: ju.LearnedPool(PRIOR), **how: lambda rows: fit_combiner(make(), rows, **how)
weigh = lambda make: lambda rows: rows.with_weight(make(rows.n))
breaks = lambda answer, y, weight: jnp.where(answer.probability[0, 0] > 0, jnp.nan, 0.0)
NO_SUM = "neither learned nor calibrated.*Learn one that sums"
NO_NUMBERS = "no array of numbers"
test_refusals = refusals(
    ("stack of nothing", lambda wide: stack_combiners({}, wide), "candidates is empty"),
    ("selection of nothing", lambda wide: select_combiner({}, wide), "candidates is empty"),
    ("broken loss", learn(loss=breaks), "before the first step"),
    ("nothing to learn", learn(lambda: ju.Mean()), "nothing to learn"),
    ("loss", learn(loss="hinge"), "loss='hinge' is unknown"),
    ("validation", learn(validation=2.0), "validation=2"),
    ("start", lambda rows: learn(start=ju.EvidenceAccumulation(PRIOR))(rows), "same kind"),
    ("freeze", learn(freeze=("prior",)), "freeze names 'prior'"),
    ("trees", learn(lambda: ju.Weighted(ju.EvidenceAccumulation(PRIOR), np.ones(3))), "60 trees"),
    ("scores", learn(lambda: ju.Calibrated(ju.Mean(ju.scorers.linear))), "no bound"),
    ("medians", learn(lambda: ju.Median(jax.tree_util.Partial(ju.scorers.m_estimate, m=1.0, prior=0.5))), NO_SUM),
    ("calibrated medians", learn(lambda: ju.Calibrated(ju.Median())), NO_SUM),
    ("plain medians", learn(lambda: ju.Median()), "Median has nothing to learn.*as medians and mixtures do"),
    ("counts", learn(lambda: ju.LearnedPool(PRIOR, reads=("own", "oob"))), "counts='both'"),
    ("more weights", weigh(lambda n: np.ones(n + 1)), r"shape \(\d+,\); pass one number"),
    ("one weight", weigh(lambda n: 1.0), r"weight has shape \(\)"),
    ("columns of weights", weigh(lambda n: np.ones((n, 1))), "weight has shape"),
    ("words", weigh(lambda n: ["heavy"] * n), NO_NUMBERS, TypeError),
    ("ragged", weigh(lambda n: [[1.0], [1.0, 2.0]]), NO_NUMBERS, TypeError),
    ("by name", weigh(lambda n: {"weight": 1}), NO_NUMBERS, TypeError),
    ("negative", weigh(lambda n: np.full(n, -1.0)), "weight holds -1.0"),
    ("NaN", weigh(lambda n: np.full(n, np.nan)), "weight holds nan"),
)


@pytest.mark.exhaustive
def test_settings_of_pythons_partials_are_learned(rows):
    combiner = ju.Mean(functools.partial(ju.scorers.m_estimate, m=2, prior=0.5))
    assert [p.name.rpartition(".")[2] for p in parameters_of(combiner) if p is not None] == ["m", "prior"]
    fitted = fit_combiner(combiner, rows, n_steps=10)
    assert fitted.loss < fitted.start_loss
    settings = fitted.combiner.scorer.keywords
    assert float(settings["m"]) != 2
    assert float(settings["prior"]) != 0.5


@pytest.fixture(scope="module")
def forest():
    X, y = toy_data(2)
    return X[:64], y[:64], ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))


def pool(numbers) -> ju.LearnedPool:
    return ju.LearnedPool(jnp.array([0.5, 0.5]), size_power=numbers[0], strength=jnp.exp(numbers[1]))


@pytest.mark.exhaustive
def test_many_combiners_at_once_and_exported(forest):
    X, _, trees = forest
    numbers = jnp.array([[0.0, 0.0], [1.0, -1.0], [0.3, 1.0]])
    answer = lambda one: ju.bind(trees, pool(one)).probability(X)
    together = jax.jit(jax.vmap(answer))(numbers)
    for one, probs in zip(numbers, together, strict=True):
        np.testing.assert_allclose(probs, ju.bind(trees, pool(one)).probability(X), atol=1e-5)
    np.testing.assert_allclose(jnp.mean(together, axis=0).sum(axis=1), 1, rtol=1e-5)
    priors = jnp.array([[0.5, 0.5], [0.1, 0.9]])
    evidence = lambda prior: ju.bind(trees, ju.EvidenceAccumulation(prior)).probability(X)
    np.testing.assert_allclose(jax.vmap(evidence)(priors)[1], evidence(priors[1]), atol=1e-5)
    bound = ju.bind(trees, ju.LearnedPool(trees.prior, strength=0.5))
    exported = jax.export.export(jax.jit(bound.probability))(jax.ShapeDtypeStruct(X.shape, jnp.float32))
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_allclose(again.call(jnp.asarray(X)), bound.probability(X), atol=1e-6)


@pytest.mark.exhaustive
def test_slopes_and_curvature_through_routing(forest):
    X, y, trees = forest

    def loss(numbers):
        return -jnp.mean(ju.bind(trees, pool(numbers)).log_probability(X)[jnp.arange(len(y)), y])

    at = jnp.array([0.2, 0.1])
    slope, step = jax.jit(jax.grad(loss))(at), jnp.array([1e-2, 0.0])
    assert float(slope[0]) == pytest.approx(float((loss(at + step) - loss(at - step)) / 2e-2), rel=0.05, abs=1e-4)
    assert np.all(np.isfinite(jax.jit(jax.jacrev(jax.grad(loss)))(at)))


@pytest.mark.exhaustive
def test_a_loop_of_ones_own(forest):
    X, y, trees = forest
    labels, data = jnp.asarray(y), jnp.asarray(X)

    def loss(log_weights):
        combiner = ju.Weighted(ju.Mean(), jnp.exp(log_weights))
        merged = ju.inference.merge_leaves(trees, ju.inference.leaf_table(trees, combiner), data, merge=combiner.merge)
        return -jnp.mean(jnp.take_along_axis(combiner.finish(merged).log_probability, labels[:, None], axis=1))

    optimizer, weights = optax.adam(0.1), jnp.zeros(trees.n_trees)
    state, step = optimizer.init(weights), jax.jit(jax.value_and_grad(loss))
    values = []
    for _ in range(10):
        value, slope = step(weights)
        updates, state = optimizer.update(slope, state)
        weights = optax.apply_updates(weights, updates)
        values.append(float(value))
    assert values[-1] < values[0]


def test_folds_are_of_groups():
    X, y = toy_data(2)
    X, y, groups = X[:120], y[:120], np.repeat(np.arange(8), 15)
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    rows = ju.learning.oob_dataset(model, X, y, groups=groups)
    pool = ju.LearnedPool(rows.prior)
    losses = [select_combiner({"pool": pool}, rows, key=jax.random.key(key)).losses["pool"] for key in range(3)]
    assert np.isfinite(losses).all()
    with pytest.raises(ValueError, match="n_folds=9 is more than there are groups of rows, 8"):
        select_combiner({"pool": pool}, rows, n_folds=9)
    first_of_group = np.arange(120) % 15 == 0
    for share, n_groups in ((1e-9, 1), (1 - 1e-9, 7)):
        sides = _split_validation(rows.with_weight(np.where(first_of_group, 0, 2)), share, jax.random.key(0))
        learned, validated = (np.unique(groups[np.asarray(side.weight)[:120] > 0]) for side in sides)
        assert len(validated) == n_groups
        assert sorted([*learned, *validated]) == list(range(8))
    with pytest.raises(ValueError, match=r"validation=0\.5 of 120 rows leaves none on one side"):
        _split_validation(rows.with_weight(np.where(groups == 0, 1, 0)), 0.5, jax.random.key(0))


def test_folds_without_a_class_are_passed_over_by_auc(rows):
    y = np.asarray(rows.y)[: rows.n]
    few = np.concatenate([np.flatnonzero(y == 0)[:20], np.flatnonzero(y == 1)[:3]])
    weight = np.bincount(few, minlength=rows.n)
    learner = {"calibrated": ju.Calibrated(ju.Mean())}
    losses = select_combiner(learner, rows.with_weight(weight), loss="auc").losses
    assert 0 < losses["calibrated"] < np.inf
    with pytest.raises(ValueError, match="all rows with a weight are of class"):
        loss_on(learner["calibrated"], rows.with_weight(weight * (y == 0)), loss="auc")
