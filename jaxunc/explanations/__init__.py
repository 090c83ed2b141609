"""Which columns make an answer what it is: Shapley values of merged statistics."""

from ._explain import Attributions, axes_of, explain

__all__ = ["explain"]
