"""Free numbers: there and back, and the slopes of losses by them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc.learning._fit import from_free, objective, parameters_of, problem_of, split, to_free
from tests._rules import LEARNERS


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("loss", ["log", "brier", "auc", "utility"])
def test_slopes_are_those_of_finite_differences(name, loss, rows, x64):
    if not x64:
        pytest.skip("finite differences need float64; the other run makes them")
    combiner = LEARNERS[name]()
    spec = parameters_of(combiner)
    free, leaves, structure = split(combiner, spec)
    problem = problem_of(rows, combiner, leaves, free, loss, jax.random.key(0))
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


@pytest.mark.parametrize(
    ("domain", "value"),
    [
        ("real", [-2.0, 3.0]), ("positive", [0.5, 20.0]), ("unit", [0.25, 0.999]), ("simplex", [0.2, 0.3, 0.5]),
        ("log_simplex", np.log([0.2, 0.3, 0.5])), ("ordered", [-1.0, 0.5, 2.0]),
    ],
)  # fmt: skip
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
