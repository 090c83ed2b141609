"""Every number of every rule, in every shape: refused in words when the rule is made or meets leaves, or kept."""

from functools import partial

import jax
import numpy as np
import pytest

import jaxunc as ju
from jaxunc import scorers
from jaxunc.combiners import Combiner
from jaxunc.smoothing import DirichletPrior, SmoothedMean

pytestmark = pytest.mark.once

TREES = 7
SHAPES = [(), (1,), (2,), (3,), (4,), (TREES,), (TREES - 1,), (1, 1), (TREES, 1), (TREES, 2), (40,), (40, 1), (0,)]
PRIOR = np.array([0.5, 0.3, 0.2])
of_scorer = lambda scorer, **settings: ju.Mean(partial(scorer, **settings))
SETTINGS = {
    "LearnedVote s": lambda v: ju.LearnedVote(s=v),
    "LearnedVote size_power": lambda v: ju.LearnedVote(size_power=v),
    "LearnedVote half_size": lambda v: ju.LearnedVote(half_size=v),
    "LearnedVote softness": lambda v: ju.LearnedVote(softness=v),
    "GeneralizedVote s": lambda v: ju.GeneralizedVote(s=v),
    "ExplainedVote s": lambda v: ju.ExplainedVote(s=v),
    "AveragedIntervals s": lambda v: ju.AveragedIntervals(s=v),
    "CautiousReport s": lambda v: ju.decisions.CautiousReport(s=v),
    "UncertaintyDecomposition s": lambda v: ju.UncertaintyDecomposition("interval", s=v),
    "EvidenceAccumulation prior": lambda v: ju.EvidenceAccumulation(v),
    "EvidenceAccumulation smoothing": lambda v: ju.EvidenceAccumulation(PRIOR, smoothing=v),
    "DempsterRule prior": lambda v: ju.DempsterRule(prior=v),
    "DempsterRule eps": lambda v: ju.DempsterRule(eps=v),
    "DempsterRule reliability": lambda v: ju.DempsterRule(reliability=v),
    "CautiousRule prior": lambda v: ju.CautiousRule(prior=v),
    "CautiousRule reliability": lambda v: ju.CautiousRule(reliability=v),
    "OneVsRest, a list": lambda v: ju.OneVsRest([ju.DempsterRule(prior=float(p)) for p in np.ravel(v)]),
    "OneVsRest, a list of lists": lambda v: ju.OneVsRest([ju.DempsterRule(reliability=v) for _ in range(3)]),
    "OneVsRest prior": lambda v: ju.OneVsRest(ju.CautiousRule(prior=v)),
    "Calibrated scale": lambda v: ju.Calibrated(ju.Mean(), scale=v),
    "Calibrated bias": lambda v: ju.Calibrated(ju.Vote(), bias=v),
    "Calibrated clip": lambda v: ju.Calibrated(ju.Mean(), clip=v / 10),
    "Stack weights": lambda v: ju.Stack([ju.Mean(), ju.Vote()], v),
    "Weighted weights": lambda v: ju.Weighted(ju.Mean(), v),
    "LearnedPool prior": lambda v: ju.LearnedPool(v),
    "LearnedPool scale": lambda v: ju.LearnedPool(PRIOR, scale=v),
    "LearnedPool bias": lambda v: ju.LearnedPool(PRIOR, bias=v),
    "LearnedPool noise": lambda v: ju.LearnedPool(PRIOR, noise=v / 2),
    "LearnedPool strength": lambda v: ju.LearnedPool(PRIOR, strength=v),
    "m_estimate m": lambda v: of_scorer(scorers.m_estimate, m=v, prior=0.5),
    "m_estimate prior": lambda v: of_scorer(scorers.m_estimate, m=2.0, prior=v),
    "ucb n_samples": lambda v: of_scorer(scorers.ucb, n_samples=v + 9),
    "plausibility prior": lambda v: of_scorer(scorers.plausibility, prior=v),
    "SmoothedMean alpha": lambda v: SmoothedMean(DirichletPrior(v, np.zeros(v.shape[:-1], np.int32))),
}


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of a shape which along the last axis add to 1, so that they may be shares."""
    values = 1.0 + np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return np.asarray(0.5 if not shape else values / values.sum(axis=-1, keepdims=True), np.float32)


def in_words(error: Exception) -> None:
    """The refusal says what to do, and is not what an array's operation says of shapes."""
    said = str(error).lower()
    assert not any(word in said for word in ("broadcast", "incompatible", "got shape", "concatenate")), error
    assert any(word in said for word in ("pass ", "expected", "must", "classes", "onevsrest")), error


@pytest.mark.room(keep=2)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.exhaustive(keep=12)
def test_refused_or_kept(setting, tmp_path):
    """What is made comes back from a file; it may be for other classes or trees than there are, which is said then."""
    taken = []
    for shape in SHAPES:
        try:
            rule = SETTINGS[setting](numbers(shape))
        except (TypeError, ValueError) as error:
            in_words(error)
            continue
        taken += [shape for n_classes in (2, 3) if answers(rule, n_classes)]
        path = tmp_path / "rule.safetensors"
        ju.save(path, rule)
        assert jax.tree.structure(ju.load(path)) == jax.tree.structure(rule), (setting, shape)
    assert taken, setting


def answers(rule: Combiner, n_classes: int) -> bool:
    """Whether the rule takes leaves of so many classes, and has answers for each of the five instances."""
    leaves = jax.ShapeDtypeStruct((5, TREES, n_classes), np.float32)
    try:
        answer = jax.eval_shape(rule.answer, leaves)
    except (TypeError, ValueError) as error:
        in_words(error)
        return False
    assert all(part.shape[:1] in ((), (5,)) for part in jax.tree.leaves(answer)), answer
    return True
