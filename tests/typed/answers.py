"""What type checkers know of answers: run as a program too, so that what they are told is true."""

from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.combiners import Calibrated, Explanation, LearnedPool, Preference, Stack, Together, Uncertainty  # pyright: ignore[reportPrivateImportUsage]
from jaxunc.decisions import CautiousAnswer, CautiousReport  # pyright: ignore[reportPrivateImportUsage]
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier
from jaxunc.learning import FitResult, SelectionResult, StackResult  # pyright: ignore[reportPrivateImportUsage]
from jaxunc.parallel import ShardedForest  # pyright: ignore[reportPrivateImportUsage]
from jaxunc.scorers import Interval
from jaxunc.tables import InstancesLike, LabelsLike  # pyright: ignore[reportPrivateImportUsage]

everything = load_breast_cancer(return_X_y=True)
X, y = everything[0][:80], everything[1][:80]
model = RandomForestClassifier(5, random_state=0).fit(X, y)
forest = ju.from_sklearn(model)
counts: jax.Array = jnp.asarray(np.array([[3, 1], [0, 4]]))

# Combiners, called
assert_type(forest, ju.Forest)
assert_type(ju.Mean()(counts), jax.Array)
assert_type(ju.Mean().probability(counts), jax.Array)
assert_type(ju.Mean().answer(counts), ju.combiners.Answer)
assert_type(ju.GeneralizedVote(1.0)(counts), Preference)
assert_type(ju.AveragedIntervals(1.0).answer(counts), Interval)
assert_type(ju.UncertaintyDecomposition()(counts), Uncertainty)
assert_type(ju.ExplainedVote(1.0)(counts), Explanation)
assert_type(CautiousReport(1.0)(counts), CautiousAnswer)
assert_type(ju.OneVsRest(ju.DempsterRule()).log_probability(counts), jax.Array)
assert_type(ju.Weighted(ju.Mean(), [1.0, 2.0]).probability(counts), jax.Array)
assert_type(ju.Weighted(ju.GeneralizedVote(1.0), [1.0, 2.0])(counts), Preference)
assert_type(Together(mean=ju.Mean(), vote=ju.Vote())(counts), dict[str, jax.Array])
assert_type(Together(mean=ju.Mean(), vote=ju.Vote()).answer(counts), dict[str, ju.combiners.Answer])
assert_type(Together(mean=ju.Mean(), report=CautiousReport(1.0))(counts), dict[str, Any])

# Bound
assert_type(ju.bind(forest, ju.Mean()), ju.BoundForest[ju.combiners.Answer])
assert_type(ju.bind(forest, ju.Mean())(X), jax.Array)
assert_type(ju.bind(forest, ju.Mean()).score(X), jax.Array)
assert_type(ju.bind(forest, ju.Mean()).answer(X), ju.combiners.Answer)
assert_type(ju.margin(ju.bind(forest, ju.Mean())(X)), jax.Array)
assert_type(ju.bind(forest, CautiousReport(1.0)).answer(X), CautiousAnswer)
assert_type(ju.bind(forest, CautiousReport(1.0))(X), CautiousAnswer)
assert_type(ju.bind(forest, {"mean": ju.Mean(), "vote": ju.Vote()}).probability(X), dict[str, jax.Array])
assert_type(ju.counting.leave_one_out(ju.count_leaves(forest, X, y), ju.Mean(), X, y), ju.combiners.Answer)
sharded = ju.shard(ju.bind(forest, ju.Mean()), jax.make_mesh((1, 1), ("data", "tree")))
assert_type(sharded, ShardedForest[ju.combiners.Answer])
assert_type(sharded.probability(X), jax.Array)

# Data and labels that people have
for data in (X, jnp.asarray(X), pd.DataFrame(X), X.tolist()):
    instances: InstancesLike = data
    assert_type(ju.bind(forest, ju.Mean()).probability(instances), jax.Array)
for labels in (y, jnp.asarray(y), pd.Series(y), y.tolist()):
    some: LabelsLike = labels
    assert_type(ju.count_leaves(forest, X, some), ju.Forest)

# Learned
rows = ju.learning.oob_dataset(model, X, y, source="held_out", allow_leaks=True)
fitted = ju.learning.fit_combiner(LearnedPool(rows.prior), rows, n_steps=1)
assert_type(fitted, FitResult[LearnedPool])
assert_type(fitted.combiner, LearnedPool)
assert_type(rows.bind(fitted.combiner).probability(X), jax.Array)
candidates = {"pool": LearnedPool(rows.prior), "mean": Calibrated(ju.Mean())}
chosen = ju.learning.select_combiner(candidates, rows, n_folds=2)
assert_type(chosen, SelectionResult[LearnedPool | Calibrated])
assert_type(chosen.fitted.combiner, LearnedPool | Calibrated)
blended = ju.learning.stack_combiners({"mean": Calibrated(ju.Mean())}, rows, n_folds=2)
assert_type(blended, StackResult)
assert_type(blended.combiner, Stack)

# Estimators
combined = CombinedForestClassifier(RandomForestClassifier(5), combiner="mean").fit(X, y)
assert_type(combined, CombinedForestClassifier)
assert_type(combined.predict_proba(X), NDArray[Any])
assert_type(combined.forest_, ju.Forest)
assert_type(combined.predict_uncertainty(X), Uncertainty)
cautious = CautiousForestClassifier(RandomForestClassifier(30, random_state=0)).fit(X, y)
assert_type(cautious.combiner_, CautiousReport)
assert_type(cautious.explain(X), Explanation)


# A rule of one's own
class Largest(ju.Combiner[jax.Array]):
    """The largest share of class 1."""

    merge = "max"

    def lift(self, counts: jax.Array) -> jax.Array:
        """The share."""
        return counts[..., 1] / jnp.maximum(jnp.sum(counts, axis=-1), 1)

    def finish(self, stat: jax.Array) -> jax.Array:
        """As it is."""
        return stat


assert_type(Largest()(counts), jax.Array)
assert_type(ju.bind(forest, Largest()).answer(X), jax.Array)
