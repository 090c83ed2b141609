"""Which bound model answers what: its own rule where that can, rules made for the rest, in few routings."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxunc.combiners import Combiner, Mean, Together, UncertaintyDecomposition
from jaxunc.decisions import CautiousReport
from jaxunc.forest import Forest
from jaxunc.routing import Answering, bind

OUTPUTS = ("class", "probability", "score", "uncertainty", "interval", "set", "trees_polled")
"""Names of the outputs that `stream` and `predict_files` write."""

Parts = dict[str | None, tuple[str, ...]]
"""The outputs that a model's answer has; by the names of rules where they are several together."""


class Answerer(NamedTuple):
    """A model, and which outputs are read from its answer."""

    model: Answering
    outputs: tuple[str, ...]
    part: str | None = None
    """The name of the rule whose answer it is, where several rules answer together."""
    prefix: str = ""
    """Put before the names of columns."""

    def read(self, answer: Any) -> Any:
        """The part of the model's answer that is answerers for."""
        return answer if self.part is None else answer[self.part]


def answering(model: Any) -> Answering:
    """Return the model that answers instances; raise a TypeError for anything else."""
    found = bind(model, Mean()) if isinstance(model, Forest) else getattr(model, "bound_", model)
    if isinstance(model, type) or not isinstance(found, Answering):
        raise TypeError(
            f"model is a {type(model).__name__}; what streams is a bound or sharded forest, a bound vote, a forest, or "
            "a fitted classifier of jaxunc."
        )
    return found


def answerers_of(model: Answering, outputs: Sequence[str] | None, s: float, confidence: float) -> tuple[Answerer, ...]:
    """Who answers each of the outputs; raises a ValueError for those that nobody can answer."""
    parts = _parts(model.blank_answer())
    outputs = _default(parts, model) if outputs is None else tuple(dict.fromkeys(outputs))
    own = [(part, tuple(name for name in outputs if name in names)) for part, names in parts.items()]
    own = [(part, names) for part, names in own if names]
    left = [name for name in outputs if not any(name in names for _, names in own)]
    further = _further(left, s) if model.forest is not None else {}
    voted = tuple(name for name in left if name == "trees_polled" and model.forest is not None)
    if unanswered := set(left) - {name for _, names in further.values() for name in names} - set(voted):
        who = type(model if model.combiner is None else model.combiner).__name__
        can = sorted({name for names in parts.values() for name in names})
        raise ValueError(f"outputs {sorted(unanswered)} are not what {who} answers; it has {can}.")
    answerers = _routed(model, own, further)
    if voted and model.forest is not None:
        # Here, since the room's tables of votes take SciPy.
        from jaxunc.stopping import bind_vote

        answerers.append(Answerer(bind_vote(model.forest, confidence=confidence), voted))
    return tuple(answerers)


def _further(left: Sequence[str], s: float) -> dict[str, tuple[Combiner, tuple[str, ...]]]:
    """Rules for what the model's own does not answer, and what they do."""
    rules: dict[str, tuple[Combiner, tuple[str, ...]]] = {}
    if "uncertainty" in left:
        rules["uncertainty"] = UncertaintyDecomposition(), ("uncertainty",)
    if cautious := tuple(name for name in ("interval", "set") if name in left):
        rules["cautious"] = CautiousReport(s), cautious
    return rules


def _routed(model: Answering, own: list, further: dict[str, tuple[Combiner, tuple[str, ...]]]) -> list[Answerer]:
    rules = {name: rule for name, (rule, _) in further.items()}
    answerers = [Answerer(model, names, part, f"{part}_" if part else "") for part, names in own]
    if not rules:
        return answerers
    if model.combiner is not None and [part for part, _ in own] == [None]:
        model = model.with_rule(Together(own=model.combiner, **rules))
        answerers = [Answerer(model, own[0][1], "own")]
    else:
        model = model.with_rule(Together(**rules))
    return answerers + [Answerer(model, names, part) for part, (_, names) in further.items()]


def _parts(answer: Any) -> Parts:
    of = lambda one: tuple(getattr(one, "outputs", ()))  # noqa: E731
    return {name: of(one) for name, one in answer.items()} if isinstance(answer, dict) else {None: of(answer)}


def _default(parts: Parts, model: Answering) -> tuple[str, ...]:
    found = {name for names in parts.values() for name in names} - {"score"}
    if not found:
        raise ValueError(f"{model!r} answers nothing of {OUTPUTS}; bind another rule.")
    return tuple(name for name in OUTPUTS if name in found)
