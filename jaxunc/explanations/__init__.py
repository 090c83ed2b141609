"""Which columns make an answer what it is: Shapley values of merged statistics."""

from ._attributions import Attributions, axes_of
from ._explain import explain

__all__ = ["explain"]
