"""The answer of most combiners: class scores, and the read-outs of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxunc._checks import check_numbers
from jaxunc._numerics import floored_log, log_softmax
from jaxunc._types import AnswerT, PyTree

Scores = TypeVar("Scores", Array, np.ndarray)
Parameters = ParamSpec("Parameters")


class Answer(NamedTuple):
    """The read-outs of one merged statistic. Under `jax.jit` only those that are used are computed."""

    class_scores: Float[Array, "... classes"]
    """A number per class, larger is better; the largest decides (the lowest index on ties). Rank-safe: they do not
    saturate. Their scale is the combiner's own."""
    score: Float[Array, "..."] | None
    """The published binary score, positive for class 1; None for more classes."""
    probability: Float[Array, "... classes"] | None
    """Probabilities of the classes, adding to 1; None where scores have no bound."""
    log_probability: Float[Array, "... classes"] | None
    """Logarithms of the probabilities, for losses: finite, and with a gradient where a probability rounds to 0 or 1."""

    @property
    def predicted(self) -> Int[Array | np.ndarray, "..."]:
        """The class with the largest class score (the lowest index on ties).

        Where the trees contradict each other, and all scores are -inf, the most probable class. NumPy of NumPy arrays.
        """
        xp = np if isinstance(self.class_scores, np.ndarray) else jnp
        scores = self.class_scores
        if self.log_probability is not None:
            lost = xp.isneginf(scores).all(axis=-1, keepdims=True)
            scores = xp.where(lost, self.log_probability, scores)
        return scores.argmax(axis=-1)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of outputs that `columns` has."""
        return ("class", "score", *(("probability",) if self.probability is not None else ()))

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The columns of one of the `outputs`: positions of classes, numbers to rank by, or probabilities."""
        if output == "class":
            return {output: np.asarray(self.predicted)}
        if output == "probability":
            return {output: np.asarray(self.probability)}
        scores = np.asarray(self.class_scores)
        return {output: margin(scores) if scores.shape[-1] == 2 else scores}

    @classmethod
    def from_shares(cls, shares: Array, class_scores: Array, score: Array | None) -> "Answer":
        """Answer with probabilities as shares. Their logarithm is floored at that of the smallest normal float."""
        return cls(class_scores, score, shares, floored_log(shares))

    @classmethod
    def from_log_evidence(cls, log_evidence: Array) -> "Answer":
        """Answer with unnormalised log probabilities as class scores; the score is their difference, the logit."""
        score = margin(log_evidence) if log_evidence.shape[-1] == 2 else None
        log_probability = log_softmax(log_evidence)
        return cls(log_evidence, score, jnp.exp(log_probability), log_probability)


def margin(class_scores: Float[Scores, "... 2"]) -> Float[Scores, "..."]:
    """Class score of class 1 less that of class 0: the number to rank instances by.

    With many trees the published differences of masses or products vanish or saturate: where the trees agree, the
    normalised one rounds to 1 or -1, and instances tie that are not alike. Margins of class scores keep their order.
    Raises a ValueError unless there are two classes.

    Parameters
    ----------
    class_scores
        A combiner's answer when it is called, ``[... 2]``.

    Returns
    -------
    Float[Array, "..."]
        Margins, positive where class 1 is preferred.
    """
    check_numbers("class_scores", class_scores)
    if isinstance(class_scores, list | tuple):
        raise TypeError(f"class_scores is a {type(class_scores).__name__}; pass an array, as a bound forest answers.")
    if np.shape(class_scores)[-1:] != (2,):
        raise ValueError(
            f"margin compares two classes, but class_scores have shape {np.shape(class_scores)}. "
            "For more classes rank by one column of class_scores, or of the probability."
        )
    return class_scores[..., 1] - class_scores[..., 0]


def read_answer(answer: PyTree, readout: str | None) -> PyTree:
    """Return one read-out of every `Answer` in a pytree; for None the answers themselves."""
    if readout is None:
        return answer

    def is_answer(node: Any) -> bool:
        return isinstance(node, Answer)

    answers = [node for node in jax.tree.leaves(answer, is_leaf=is_answer) if is_answer(node)]
    if readout != "class_scores" and not answers:
        raise ValueError(
            f"this combiner has no {readout}: it answers with {kind_of(answer)}, not with an Answer. Call it directly."
        )
    if readout == "score" and any(node.score is None for node in answers):
        raise ValueError(
            "score is defined for two classes only; for more use the class scores (call the combiner) or .probability."
        )
    if any(getattr(node, readout) is None for node in answers):
        raise ValueError(
            f"{readout} is not defined for scores without a bound, such as those of linear and ucb. Rank by the class "
            "scores (call the combiner), or use Pooling, which gives leaves that weight and probabilities too."
        )
    return jax.tree.map(lambda node: getattr(node, readout) if is_answer(node) else node, answer, is_leaf=is_answer)


def kind_of(answer: Any) -> str:
    """Return the kind of a combiner's answer in words; an array that is traced has a type of JAX's own."""
    return "an array" if isinstance(answer, jax.Array | np.ndarray) else type(answer).__name__


if TYPE_CHECKING:

    class _Answering(Protocol[AnswerT]):
        @property
        def answer(self) -> Callable[..., AnswerT]: ...

    class _ReadOut(Protocol[Parameters]):
        @overload
        def __get__(self, of: _Answering[Answer], kind: Any = None) -> Callable[Parameters, Array]: ...
        @overload
        def __get__(
            self, of: _Answering[dict[str, Answer]], kind: Any = None
        ) -> Callable[Parameters, dict[str, Array]]: ...
        @overload
        def __get__(self, of: _Answering[dict[str, Any]], kind: Any = None) -> Callable[Parameters, dict[str, Any]]: ...
        @overload
        def __get__(self, of: None, kind: Any = None) -> Callable[Concatenate[Any, Parameters], Any]: ...


def typed_by_answer(method: Callable[Concatenate[Any, Parameters], Any]) -> "_ReadOut[Parameters]":
    """Return a method as it is; type checkers have it of what answers with an `Answer`, or several by name, alone."""
    return method  # pyright: ignore[reportReturnType]
