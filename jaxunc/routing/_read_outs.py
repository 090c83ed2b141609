"""What every bound model is asked."""

import abc

from jaxtyping import PyTree


class ReadOuts(abc.ABC):
    """The read-outs of a rule, on NumPy, JAX or pandas data ``[instances features]``."""

    def __call__(self, X, *, tree_mask=None) -> PyTree:
        """What the rule's call returns: class scores ``[instances classes]`` for nearly all."""
        return self._run(X, tree_mask, "class_scores")

    def score(self, X, *, tree_mask=None) -> PyTree:
        """The published binary score ``[instances]``, positive for class 1."""
        return self._run(X, tree_mask, "score")

    def probability(self, X, *, tree_mask=None) -> PyTree:
        """Class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "probability")

    def log_probability(self, X, *, tree_mask=None) -> PyTree:
        """Logarithms of the class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "log_probability")

    def answer(self, X, *, tree_mask=None) -> PyTree:
        """All read-outs together."""
        return self._run(X, tree_mask, None)

    @abc.abstractmethod
    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """One read-out, or the whole answer for None."""
