"""Fitting: what is found, what stays, when it stops, and what it refuses."""

import functools
import itertools
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import Partial
from scipy.optimize import minimize_scalar
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.learning import (
    _parts,
    default_candidates,
    fit_combiner,
    fit_leaf_counts,
    loss_on,
    oob_dataset,
    select_combiner,
    stack_combiners,
    standard_errors,
)
from jaxunc.learning._blend import _weights
from jaxunc.learning._domains import from_free, parameters_of, to_free
from jaxunc.learning._fit import objective, problem_of
from tests._forests import toy_data
from tests._refusal import refuses


@pytest.fixture(scope="module")
def model():
    X, y = toy_data(2)
    return X[:200], y[:200], RandomForestClassifier(60, random_state=0, min_samples_leaf=2).fit(X[:200], y[:200])


@pytest.fixture(scope="module")
def rows(model):
    return oob_dataset(model[2], *model[:2], source="oob")


@pytest.fixture(scope="module")
def wide(model):
    return oob_dataset(model[2], *model[:2], source="oob", counts="both")


PRIOR = np.array([0.625, 0.375])
LEARNERS = {
    "pool": lambda: ju.LearnedPool(PRIOR, strength=0.5, noise=0.02),
    "calibrated": lambda: ju.Calibrated(ju.Mean(), scale=np.array([1.1, 0.9]), bias=np.array([0.013, 0.0]), clip=1e-3),
    "m-estimate": lambda: ju.Mean(functools.partial(ju.scorers.m_estimate, m=1, prior=0.4)),
    "plausibility": lambda: ju.Mean(Partial(ju.scorers.plausibility, prior=jnp.asarray(0.4))),
    "evidence": lambda: ju.EvidenceAccumulation(PRIOR, smoothing=0.7),
    "dempster": lambda: ju.DempsterRule(prior=0.4, reliability=0.7),
    "cautious": lambda: ju.CautiousRule(prior=0.4, reliability=0.7),
    "weights": lambda: ju.Weighted(ju.EvidenceAccumulation(PRIOR, smoothing=0.7), np.linspace(0.5, 1, 60)),
    "reliabilities": lambda: ju.DempsterRule(reliability=np.linspace(0.3, 0.9, 60)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("loss", ["log", "brier", "auc", "utility"])
def test_slopes_are_those_of_finite_differences(name, loss, rows, x64):
    if not x64:
        pytest.skip("finite differences need float64; the other run makes them")
    rule = LEARNERS[name]()
    spec = parameters_of(rule)
    leaves, structure = jax.tree.flatten(rule)
    free = [
        to_free(p.domain, jnp.asarray(leaf, float), p.nearest)
        for p, leaf in zip(spec, leaves, strict=True)
        if p is not None
    ]
    problem = problem_of(rows, rule, leaves, free, loss, jax.random.key(0))
    value = jax.jit(lambda numbers: objective((spec, structure), numbers, problem))
    slope = jax.grad(value)(free)
    for i, part in enumerate(free):
        for place in np.ndindex(part.shape if part.size < 5 else (2,)):
            moved = [np.array(p) for p in free]
            moved[i][place] += 1e-5
            above = float(value([jnp.asarray(p) for p in moved]))
            moved[i][place] -= 2e-5
            below = float(value([jnp.asarray(p) for p in moved]))
            assert float(slope[i][place]) == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-7)


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("name", LEARNERS)
def test_learning_lowers_the_loss(name, rows):
    fitted = fit_combiner(LEARNERS[name](), rows, n_steps=30)
    assert fitted.loss <= fitted.start_loss
    assert fitted.loss == pytest.approx(loss_on(fitted.combiner, rows), rel=1e-4)
    assert fitted.status in ("converged", "steps")
    assert len(fitted.history["loss"]) == fitted.n_steps + 1 <= 31


@pytest.mark.once
@pytest.mark.exhaustive
def test_a_round_trip(rows, model):
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows)
    again = pickle.loads(pickle.dumps(fitted.combiner))
    assert eqx.tree_equal(again, fitted.combiner)
    leaves, structure = jax.tree.flatten(fitted.combiner)
    assert eqx.tree_equal(jax.tree.unflatten(structure, leaves), fitted.combiner)
    same = fit_combiner(ju.LearnedPool(PRIOR), rows)
    assert eqx.tree_equal(same.combiner, fitted.combiner)


@pytest.mark.parametrize(
    ("domain", "value"),
    [
        ("real", [-2.0, 3.0]),
        ("positive", [0.5, 20.0]),
        ("unit", [0.25, 0.999]),
        ("simplex", [0.2, 0.3, 0.5]),
        ("log_simplex", np.log([0.2, 0.3, 0.5])),
        ("ordered", [-1.0, 0.5, 2.0]),
    ],
)
def test_domains(domain, value, rng):
    value = jnp.asarray(value, float)
    np.testing.assert_allclose(from_free(domain, to_free(domain, value)), value, rtol=1e-5)
    anywhere = from_free(domain, jnp.asarray(rng.normal(size=3) * 3, float))
    assert {
        "real": True,
        "positive": bool(jnp.all(anywhere > 0)),
        "unit": bool(jnp.all((anywhere > 0) & (anywhere < 1))),
        "simplex": float(jnp.sum(anywhere)) == pytest.approx(1, rel=1e-5),
        "log_simplex": float(jnp.sum(jnp.exp(anywhere))) == pytest.approx(1, rel=1e-5),
        "ordered": bool(jnp.all(jnp.diff(anywhere) > 0)),
    }[domain]


def test_values_at_a_bound_start_beside_it():
    assert float(from_free("positive", to_free("positive", jnp.zeros(()), 1.0))) == pytest.approx(1)
    assert float(from_free("unit", to_free("unit", jnp.ones(())))) == pytest.approx(0.99)


@pytest.mark.exhaustive
@pytest.mark.once
def test_frozen_fields_stay(rows):
    rule = ju.Calibrated(ju.EvidenceAccumulation(PRIOR, smoothing=0.7), scale=0.1)
    fitted = fit_combiner(rule, rows, freeze=("rule.log_prior", "scale"), n_steps=5).combiner
    np.testing.assert_array_equal(fitted.rule.log_prior, rule.rule.log_prior)
    np.testing.assert_array_equal(fitted.scale, rule.scale)
    assert float(fitted.rule.smoothing) != float(rule.rule.smoothing)
    with refuses(ValueError, "freeze names 'prior'"):
        fit_combiner(rule, rows, freeze=("prior",))


@pytest.mark.once
@pytest.mark.exhaustive
def test_validation_stops_early(rows):
    rule = ju.Calibrated(ju.Weighted(ju.Mean(), np.ones(60)), scale=np.ones(2), bias=np.zeros(2))
    fitted = fit_combiner(rule, rows, validation=0.3, patience=3)
    judged = fitted.history["validation"]
    assert fitted.loss == pytest.approx(judged.min(), rel=1e-4)
    assert fitted.status == "stopped early" or len(judged) - np.argmin(judged) <= 4


@pytest.mark.once
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
@pytest.mark.once
@pytest.mark.parametrize("rule", ["pool", "calibrated"])
def test_many_rows_learn_in_parts_what_they_learn_at_once(rule, rows, monkeypatch):
    wanted = fit_combiner(LEARNERS[rule](), rows)
    monkeypatch.setattr(_parts, "ROWS", 64)
    fitted, again = (fit_combiner(LEARNERS[rule](), rows, key=jax.random.key(3)) for _ in range(2))
    assert fitted.loss == pytest.approx(wanted.loss, rel=2e-3)
    assert fitted.loss == pytest.approx(loss_on(fitted.combiner, rows), rel=1e-4)
    assert fitted.start_loss == pytest.approx(wanted.start_loss, rel=1e-4)
    assert eqx.tree_equal(fitted.combiner, again.combiner)


@pytest.mark.exhaustive
@pytest.mark.once
def test_rows_that_weigh_nothing_are_in_no_part(rows, monkeypatch):
    monkeypatch.setattr(_parts, "ROWS", 64)
    half = np.arange(rows.n) < 100
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows.with_weight(np.where(half, 2.0, 0.0)))
    problem = problem_of(rows.with_weight(half), ju.LearnedPool(PRIOR), [], [], "log", jax.random.key(0))
    parts = _parts.parts_of(problem, "log", jax.random.key(0))
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert sum(int((np.asarray(part.problem.weight) > 0).sum()) for part in parts) == 100
    assert fitted.loss == pytest.approx(loss_on(fitted.combiner, rows.with_weight(half)), rel=1e-4)


@pytest.mark.once
@pytest.mark.exhaustive
def test_progress_is_told(rows, monkeypatch, capsys):
    monkeypatch.setattr(_parts, "ROWS", 64)
    told = []
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows, progress=told.append)
    assert [p.done for p in told if p.n_rows == rows.n] == list(range(fitted.n_steps + 1))
    assert told[0].n_rows < rows.n
    assert told[0].loss == told[0].start_loss == pytest.approx(fitted.start_loss, rel=0.5)
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(told))
    fit_combiner(ju.LearnedPool(PRIOR), rows, progress=True)
    line = capsys.readouterr().err
    assert line.endswith("\n")
    assert f"LearnedPool, step {fitted.n_steps}: loss" in line
    select_combiner({"pool": ju.LearnedPool(PRIOR)}, rows, n_folds=2, progress=told.append)
    assert told[-1].what == "pool, fold 2 of 2"


@pytest.mark.once
def test_a_loss_of_ones_own_that_is_no_number(rows):
    def breaks(answer, y, weight):
        return jnp.where(answer.probability[0, 0] > 0, jnp.nan, 0.0)

    with refuses(ValueError, "before the first step"):
        fit_combiner(ju.LearnedPool(PRIOR), rows, loss=breaks)


@pytest.mark.exhaustive
@pytest.mark.once
def test_the_guard_takes_what_is_better(wide):
    chosen = select_combiner(default_candidates(wide), wide, n_folds=3)
    assert chosen.losses[chosen.name] == min(chosen.losses.values())
    assert set(chosen.losses) == {"pool", "calibrated mean"}
    assert chosen.fitted.loss == pytest.approx(loss_on(chosen.fitted.combiner, wide), rel=1e-4)


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_blend_is_no_worse_than_its_candidates(wide):
    blended = stack_combiners(default_candidates(wide), wide, n_folds=3)
    assert blended.losses == pytest.approx(select_combiner(default_candidates(wide), wide, n_folds=3).losses, rel=1e-4)
    assert sum(blended.weights.values()) == pytest.approx(1)
    assert blended.loss < max(blended.losses.values())
    assert loss_on(blended.combiner, wide) < loss_on(ju.Mean(), wide)
    with refuses(ValueError, "candidates is empty"):
        stack_combiners({}, wide)


@pytest.mark.once
def test_weights_are_those_of_the_best_average(rng):
    logs = np.log(rng.uniform(0.05, 1, (2, 50)))
    weight = rng.uniform(0.5, 2, 50)
    lost = lambda v: -(weight @ np.log(v * np.exp(logs[0]) + (1 - v) * np.exp(logs[1])) + np.log(v * (1 - v)))
    wanted = minimize_scalar(lost, bounds=(1e-6, 1 - 1e-6), method="bounded").x
    np.testing.assert_allclose(_weights(logs, weight), [wanted, 1 - wanted], atol=1e-4)


@pytest.mark.once
def test_both_counts_serve_rules_of_one_kind(rows, wide):
    np.testing.assert_allclose(rows.answer(ju.Mean()).probability, wide.answer(ju.Mean()).probability, atol=1e-6)
    with refuses(ValueError, "counts='both'"):
        fit_combiner(ju.LearnedPool(PRIOR, reads=("own", "oob")), rows)


@pytest.mark.once
def test_numbers_per_tree_route_the_rows(rows):
    weights = np.linspace(0.5, 2, 60)
    weighted = rows.answer(ju.Weighted(ju.Mean(), weights)).probability
    assert not np.allclose(weighted, rows.answer(ju.Mean()).probability, atol=1e-4)
    even = rows.answer(ju.Weighted(ju.Mean(), np.ones(60))).probability
    np.testing.assert_allclose(even, rows.answer(ju.Mean()).probability, atol=1e-5)


@pytest.mark.once
@pytest.mark.exhaustive
def test_leaf_counts_learn(rows, wide):
    fitted = fit_leaf_counts(ju.Mean(), rows, n_steps=8)
    assert fitted.loss <= fitted.start_loss
    assert np.all(np.asarray(fitted.forest.counts) >= 0)
    with refuses(ValueError, "routed through one forest"):
        fit_leaf_counts(ju.Mean(), wide)


@pytest.mark.once
@pytest.mark.exhaustive
def test_standard_errors_are_those_of_a_logistic_regression(rows):
    """Scale and bias of a calibrated mean are the coefficients of a logistic regression on the log odds."""
    rule = ju.Calibrated(ju.Mean(), scale=1.0, bias=np.zeros(2), clip=1e-4)
    fitted = fit_combiner(rule, rows, n_steps=200)
    found = standard_errors(fitted.combiner, rows)["scale"]
    logs = np.log(np.maximum(rows.answer(ju.Mean()).probability.astype(float), 1e-4))
    odds = logs[:, 1] - logs[:, 0]
    design = np.stack([odds, np.ones(len(odds))], axis=1)
    shares = rows.answer(fitted.combiner).probability[:, 1].astype(float)
    information = design.T @ (design * (shares * (1 - shares))[:, None])
    error = np.sqrt(np.linalg.inv(information)[0, 0])
    assert float(found.error) == pytest.approx(error, rel=0.05)
    assert float(found.value) == pytest.approx(float(fitted.combiner.scale), rel=1e-5)


@pytest.mark.once
def test_bad_input(rows):
    with refuses(TypeError, "pass a Combiner"):
        fit_combiner("mean", rows)
    with refuses(ValueError, "nothing to learn"):
        fit_combiner(ju.Mean(), rows)
    with refuses(ValueError, "loss='hinge' is unknown"):
        fit_combiner(ju.LearnedPool(PRIOR), rows, loss="hinge")
    with refuses(ValueError, "n_steps=0"):
        fit_combiner(ju.LearnedPool(PRIOR), rows, n_steps=0)
    with refuses(ValueError, "validation=2"):
        fit_combiner(ju.LearnedPool(PRIOR), rows, validation=2.0)
    with refuses(ValueError, "same kind"):
        fit_combiner(ju.LearnedPool(PRIOR), rows, start=ju.EvidenceAccumulation(PRIOR))
    with refuses(ValueError, "60 trees"):
        fit_combiner(ju.Weighted(ju.EvidenceAccumulation(PRIOR), np.ones(3)), rows)
    with refuses(ValueError, "no bound"):
        fit_combiner(ju.Calibrated(ju.Mean(ju.scorers.linear)), rows)
    for learner in (ju.Median(Partial(ju.scorers.m_estimate, m=1.0, prior=0.5)), ju.Calibrated(ju.Median())):
        with refuses(ValueError, "neither learned nor calibrated.*Learn a rule that sums"):
            fit_combiner(learner, rows)
    with refuses(ValueError, "Median has nothing to learn.*as medians and mixtures do"):
        fit_combiner(ju.Median(), rows)
    with refuses(ValueError, "candidates is empty"):
        select_combiner({}, rows)


@pytest.mark.once
@pytest.mark.parametrize(
    ("weight", "error", "match"),
    [
        (lambda n: np.ones(n + 1), ValueError, r"shape \(\d+,\); pass one number"),
        (lambda n: 1.0, ValueError, r"weight has shape \(\)"),
        (lambda n: np.ones((n, 1)), ValueError, "weight has shape"),
        (lambda n: ["heavy"] * n, TypeError, "no array of numbers"),
        (lambda n: [[1.0], [1.0, 2.0]], TypeError, "no array of numbers"),
        (lambda n: {"weight": 1}, TypeError, "no array of numbers"),
        (lambda n: np.full(n, -1.0), ValueError, "weight holds -1.0"),
        (lambda n: np.full(n, np.nan), ValueError, "weight holds nan"),
    ],
)
def test_weights_that_are_none(rows, weight, error, match):
    with refuses(error, match):
        rows.with_weight(weight(rows.n))


@pytest.mark.exhaustive
@pytest.mark.once
def test_no_more_steps_than_were_asked_for(rows):
    fitted = fit_combiner(ju.LearnedPool(PRIOR), rows, n_steps=1)
    assert (fitted.n_steps, fitted.status, len(fitted.history["loss"])) == (1, "steps", 2)
    assert fitted.loss < fitted.start_loss


@pytest.mark.once
@pytest.mark.exhaustive
def test_settings_of_pythons_partials_are_learned(rows):
    rule = ju.Mean(functools.partial(ju.scorers.m_estimate, m=2, prior=0.5))
    assert [p.name.rpartition(".")[2] for p in parameters_of(rule) if p is not None] == ["m", "prior"]
    fitted = fit_combiner(rule, rows, n_steps=10)
    assert fitted.loss < fitted.start_loss
    settings = fitted.combiner.scorer.keywords
    assert float(settings["m"]) != 2
    assert float(settings["prior"]) != 0.5
