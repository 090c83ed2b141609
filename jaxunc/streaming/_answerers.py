"""Which bound model answers what: its own rule where that can, rules made for the rest, in few routings."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxunc.combiners import Combiner, Mean, Together, UncertaintyDecomposition
from jaxunc.decisions import CautiousReport
from jaxunc.forest import Forest
from jaxunc.inference import Answering, bind

from ._consistent import Consistent, Reported

OUTPUTS = (
    "class",
    "probability",
    "score",
    "uncertainty",
    "interval",
    "set",
    "idm_interval",
    "cautious_set",
    "trees_polled",
)
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
    beside: "Answerer | None" = None
    """Who answers the intervals that are to hold the model's probabilities, or the class that a report's set holds."""
    is_report: bool = False
    """Whether it is a cautious report beside the model's own answer."""

    @property
    def models(self) -> tuple[Answering, ...]:
        """Those that it reads from."""
        return (self.model,) if self.beside is None else (self.model, self.beside.model)

    def read(self, answers: dict[int, Any]) -> Any:
        """What it reads from the models' answers, by their identity."""
        answer = answers[id(self.model)]
        answer = answer if self.part is None else answer[self.part]
        if self.is_report:
            return Reported(answer, None if self.beside is None else self.beside.read(answers).answer)
        return Consistent(answer, None if self.beside is None else self.beside.read(answers).answer.interval)


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
    derived = _derived(parts, has_counts=model.forest is not None)
    own = [
        (part, tuple(name for name in outputs if name in (*names, *derived * ("probability" in names))))
        for part, names in parts.items()
    ]
    own = [(part, names) for part, names in own if names]
    left = [name for name in outputs if not any(name in names for _, names in own)]
    # An interval of the model's probability is made of the report's, which has it beside nobody's probability, too.
    needed = left + ["interval"] * ("interval" in derived and "interval" in outputs)
    further = _further(needed, s) if model.forest is not None else {}
    voted = tuple(name for name in left if name == "trees_polled" and model.forest is not None)
    if unanswered := set(left) - {name for _, names in further.values() for name in names} - set(voted):
        who = type(model if model.combiner is None else model.combiner).__name__
        can = sorted({name for names in parts.values() for name in names})
        raise ValueError(f"outputs {sorted(unanswered)} are not what {who} answers; it has {can}.")
    answerers = _routed(model, own, further, left)
    if "set" in left:
        answerers = _with_class(answerers, model, parts)
    if voted and model.forest is not None:
        # Here, since the room's tables of votes take SciPy.
        from jaxunc.voting import bind_vote

        answerers.append(Answerer(bind_vote(model.forest, confidence=confidence), voted))
    return tuple(answerers)


def _further(left: Sequence[str], s: float) -> dict[str, tuple[Combiner, tuple[str, ...]]]:
    """Rules for what the model's own does not answer, and what they do."""
    rules: dict[str, tuple[Combiner, tuple[str, ...]]] = {}
    if "uncertainty" in left:
        rules["uncertainty"] = UncertaintyDecomposition(), ("uncertainty",)
    if cautious := tuple(name for name in ("interval", "set", "idm_interval", "cautious_set") if name in left):
        rules["cautious"] = CautiousReport(s), cautious
    return rules


def _derived(parts: Parts, *, has_counts: bool) -> tuple[str, ...]:
    """Outputs that no part answers by itself, and that are made of its probabilities: so they agree with these."""
    can = {name for names in parts.values() for name in names}
    return tuple(name for name in ("interval", "set") if name not in can and (name == "set" or has_counts))


def _routed(
    model: Answering, own: list, further: dict[str, tuple[Combiner, tuple[str, ...]]], left: list[str]
) -> list[Answerer]:
    rules = {name: rule for name, (rule, _) in further.items()}
    answerers = [Answerer(model, names, part, f"{part}_" if part else "") for part, names in own]
    if not rules:
        return answerers
    if model.combiner is not None and [part for part, _ in own] == [None]:
        model = model.with_rule(Together(own=model.combiner, **rules))
        answerers = [Answerer(model, own[0][1], "own")]
    else:
        model = model.with_rule(Together(**rules))
    report = Answerer(model, (), "cautious", is_report=True)
    made = "interval" in further.get("cautious", (None, ()))[1] and "interval" not in left
    answerers = [one._replace(beside=report) if made and "interval" in one.outputs else one for one in answerers]
    shown = {part: tuple(name for name in names if name in left) for part, (_, names) in further.items()}
    return answerers + [
        Answerer(model, names, part, is_report=part == "cautious") for part, names in shown.items() if names
    ]


def _with_class(answerers: list[Answerer], model: Answering, parts: Parts) -> list[Answerer]:
    """Have the report's sets hold the class that the model names without probabilities, as a vote does."""
    naming = [Answerer(model, ("class",), part) for part, names in parts.items() if "class" in names]
    if len(naming) != 1:
        return answerers
    return [one._replace(beside=naming[0]) if one.is_report and "set" in one.outputs else one for one in answerers]


def reads_s(model: Any, outputs: Sequence[str] | None) -> bool:
    """Whether the setting ``s`` of `stream` changes the outputs: where a cautious report is made for them."""
    answerers = answerers_of(answering(model), outputs, 1.0, 0.99)
    return any(one.is_report or one.beside is not None for one in answerers)


def _parts(answer: Any) -> Parts:
    of = lambda one: tuple(getattr(one, "outputs", ()))  # noqa: E731
    return {name: of(one) for name, one in answer.items()} if isinstance(answer, dict) else {None: of(answer)}


def _default(parts: Parts, model: Answering) -> tuple[str, ...]:
    found = {name for names in parts.values() for name in names} - {"score"}
    if not found:
        raise ValueError(f"{model!r} answers nothing of {OUTPUTS}; bind another rule.")
    return tuple(name for name in OUTPUTS if name in found)
