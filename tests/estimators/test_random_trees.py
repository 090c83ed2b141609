"""Random decision trees as a classifier: scikit-learn's checks, nominal columns, and what it refuses."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from jaxunc.estimators import RandomDecisionTreesClassifier

pytestmark = pytest.mark.once

# Weights of zero take instances out, others count: repeating an instance changes what trees are drawn.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "trees are drawn from instances, not from weights",
}


@parametrize_with_checks([RandomDecisionTreesClassifier(5)], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn(estimator, check):
    check(estimator)
