"""Estimators with scikit-learn's interface: ``fit``, ``predict``, and methods that tell uncertainty."""

from jaxunc.counting import PureLeavesWarning
from jaxunc.forest import way_to_forest

from ._cautious_forest import CautiousForestClassifier
from ._classifier import ProbabilityClassifier
from ._combined_forest import CombinedForestClassifier
from ._pipelines import family, known_categories, without_transform
from ._random_trees import RandomDecisionTreesClassifier
from ._transductive import TransductiveClassifier, TransductiveTreeClassifier
from ._uncertain_forest import UncertainForestRegressor

__all__ = [
    "CautiousForestClassifier",
    "CombinedForestClassifier",
    "PureLeavesWarning",
    "RandomDecisionTreesClassifier",
    "TransductiveClassifier",
    "TransductiveTreeClassifier",
    "UncertainForestRegressor",
]


@way_to_forest.register
def _(model: ProbabilityClassifier) -> str:
    return "Pass its forest_, which it has once it is fitted."


@way_to_forest.register
def _(model: UncertainForestRegressor) -> str:
    return "It predicts a number: pass jaxunc.from_any(model.estimator_); or its moments_ or bound_, which tell doubt."
