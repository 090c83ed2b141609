"""Counts that look like class frequencies are warned of by every rule that reads how much a leaf holds."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.intervals import FractionsWarning
from tests._forests import forest_of_leaves
from tests._rules import BINARY, RULES, make

FREQUENCIES = np.array([[[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0], [0.125, 0.875]]])
OF_SHARES = {
    *("mean", "mean_own_scorer", "vote", "evidence_veto", "median", "maximum", "generalized_mixture"),
    *("gini_weighted", "weighted_mean", "weighted_veto", "calibrated_mean", "calibrated_one_vs_rest"),
}
"""The rules of the table whose answer is the same for counts that are all multiplied by a number."""


@pytest.mark.once
@pytest.mark.parametrize("name", BINARY)
def test_rules_know_what_they_read(name):
    assert set(RULES) >= OF_SHARES
    assert make(name, 2, 3).reads_sizes == (name not in OF_SHARES)


@pytest.mark.once
def test_rules_of_scorers_read_what_their_scorers_read():
    for make_rule in (ju.Mean, ju.Median, ju.Maximum, ju.GeneralizedMixture):
        assert not make_rule(ju.scorers.probability).reads_sizes
        for scorer in (ju.scorers.laplace, Partial(ju.scorers.m_estimate, m=2.0, prior=0.5), ju.scorers.linear):
            assert make_rule(scorer).reads_sizes
            assert ju.OneVsRest(ju.Weighted(ju.Mean(scorer), np.ones(3))).reads_sizes
    assert [ju.UncertaintyDecomposition(kind).reads_sizes for kind in ("entropy", "plausibility")] == [False, True]


@pytest.mark.once
@pytest.mark.parametrize("name", ["mean_plausibility", "pooling", "evidence", "dempster", "smoothed_mean", "together"])
@pytest.mark.exhaustive
def test_the_warning_names_the_line_of_the_caller(name):
    rule, (forest, _) = make(name, 2, 3), forest_of_leaves(FREQUENCIES)
    for call in (lambda: rule(jnp.asarray(FREQUENCIES)), lambda: ju.bind(forest, rule)):
        with pytest.warns(FractionsWarning, match="look like class frequencies") as caught:
            call()
        assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, call.__code__.co_firstlineno)]


@pytest.mark.once
@pytest.mark.parametrize("name", ["mean", "vote", "evidence_veto"])
def test_shares_are_no_reason_to_warn(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(name, 2, 3)(jnp.asarray(FREQUENCIES))


@pytest.mark.once
def test_honest_counts_are_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("pooling", 2, 3)(jnp.asarray(FREQUENCIES * 4))
