"""Combiners that learn, of every kind."""

import functools

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import jaxunc as ju

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
