"""The fit and predict classes that scikit-learn's users expect."""

from jaxunc.counting import PureLeavesWarning

from ._cautious_forest import CautiousForestClassifier
from ._combined_forest import CombinedForestClassifier
from ._pipelines import family
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
