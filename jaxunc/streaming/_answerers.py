"""Which model answers each output: the model's combiner, further combiners bound with it, or a further model.

The columns of a row agree: sets and intervals are made of the row's probabilities (`Consistent`, `Reported`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from jaxunc.combiners import Combiner, Together, UncertaintyDecomposition
from jaxunc.decisions import CautiousAnswer, CautiousReport, best_sets, decided, promised_sets
from jaxunc.explanations import explain
from jaxunc.forest import Forest
from jaxunc.inference import Answering, OfForest
from jaxunc.scorers import Interval
from jaxunc.tables import Encoded

from ._outputs import OUTPUTS, Outputs
from ._training_rows import NeighbourModel, OutsideModel, TrainingRows

Parts = dict[str | None, tuple[str, ...]]
"""The outputs that a model's answer has, by the name of the combiner if several answer together, else by None."""


class HowDecided(NamedTuple):
    """Costs and thresholds that turn probabilities into decisions and sets."""

    costs: np.ndarray | None = None  # costs of decisions, ``[truth decision]``; None if each error costs 1
    reject: float | None = None  # the cost of a rejection; None for no rejections
    thresholds: np.ndarray | None = None
    """Smallest probability with which each class is in a set, ``[classes]``; None for sets of largest utility."""


class Answerer(NamedTuple):
    """A model, and the outputs that are read from its answer."""

    model: Any
    outputs: tuple[str, ...]
    part: str | None = None  # name of the combiner whose answer is read, if several combiners answer together
    prefix: str = ""  # prefix of the names of columns
    beside: "Answerer | None" = None
    """Another answerer whose answer is used, too; None if there is no need.

    It gives intervals, which are widened to hold this model's probabilities; or, for a report, the class that the
    report's sets must hold.
    """
    is_report: bool = False
    """Whether the answer is a cautious report: sets and intervals are read from it, the class from ``beside``."""
    deciding: HowDecided = HowDecided()  # costs and thresholds for decisions and sets from the answer's probabilities

    @property
    def models(self) -> tuple[Any, ...]:
        """The bound models whose answers are read."""
        return (self.model,) if self.beside is None else (self.model, self.beside.model)

    def read(self, answers: dict[int, Any]) -> Any:
        """Return an answer with the columns of ``outputs``; ``answers`` are those of the models, by their ``id``."""
        answer = answers[id(self.model)]
        answer = answer if self.part is None else answer[self.part]
        if self.is_report:
            return Reported(answer, None if self.beside is None else self.beside.read(answers).answer)
        interval = None if self.beside is None else self.beside.read(answers).answer.interval
        return Consistent(answer, interval, self.deciding)


def answerers_of(
    model: Answering,
    outputs: Outputs,
    deciding: HowDecided = HowDecided(),  # noqa: B008
    column_names: tuple[str, ...] | None = None,
    training: TrainingRows | None = None,
) -> tuple[Answerer, ...]:
    """Return the answerers of the named outputs; raise a ValueError for an output that nothing can answer.

    If ``outputs`` names none, all outputs of the model's own answer are meant, but for "score". ``deciding`` has costs
    and thresholds for decisions and sets. ``column_names`` name the columns of explanations; None for the forest's
    names. ``training`` has the training rows, for outputs that compare with them; None without rows.
    """
    parts = _parts(model.blank_answer())
    combiner = getattr(model, "combiner", None)
    kind = type(model if combiner is None else combiner).__name__
    names = _default(parts, model) if outputs.names is None else tuple(dict.fromkeys(outputs.names))
    decided_outputs = {"decision", *("set",) * (deciding.thresholds is not None)} & {*names}
    if decided_outputs and not any("probability" in part for part in parts.values()):
        raise ValueError(f"outputs {sorted(decided_outputs)} are made of probabilities, and {kind} answers none.")
    has_counts = isinstance(model, OfForest)
    derived = _derived_outputs(parts, has_counts=has_counts)
    direct_outputs = [
        (part, tuple(name for name in names if name in (*answered, *derived * ("probability" in answered))))
        for part, answered in parts.items()
    ]
    direct_outputs = [(part, answered) for part, answered in direct_outputs if answered]
    unanswered = [name for name in names if not any(name in answered for _, answered in direct_outputs)]
    # The interval of the model's probability is that of the report, widened to hold it.
    needed = unanswered + ["interval"] * ("interval" in derived and "interval" in names)
    further_combiners = _make_combiners(needed, outputs) if has_counts else {}
    makers = {name: MODELS[name] for name in unanswered if name in MODELS}
    request = Request(model, outputs, column_names, training)
    further_models = {name: other for name, make in makers.items() if (other := make(request)) is not None}
    if refused := {*unanswered}.difference(further_models, *(answered for _, answered in further_combiners.values())):
        possible = sorted({name for part in parts.values() for name in part})
        raise ValueError(f"outputs {sorted(refused)} are not what {kind} answers; it has {possible}.")
    answerers = _route(model, direct_outputs, further_combiners, unanswered)
    if "set" in unanswered:
        answerers = _with_class(answerers, model, parts)
    answerers += [Answerer(other, (name,)) for name, other in further_models.items()]
    return tuple(answerer._replace(deciding=deciding) for answerer in answerers)


def _make_combiners(needed: list[str], outputs: Outputs) -> dict[str, tuple[Combiner, tuple[str, ...]]]:
    """Return {name: (combiner, its outputs in ``needed``)} of those `FURTHER_COMBINERS` that answer such outputs.

    ``outputs`` has the settings of the combiners.
    """
    by_part = {part: tuple(name for name in names if name in needed) for part, (names, _) in FURTHER_COMBINERS.items()}
    return {part: (FURTHER_COMBINERS[part][1](outputs), names) for part, names in by_part.items() if names}


def _derived_outputs(parts: Parts, *, has_counts: bool) -> tuple[str, ...]:
    """Return the outputs that are made of probabilities: "decision", and "set" and "interval" if ``parts`` lack them.

    ``parts`` are the outputs of the model's answer. Intervals are made only with ``has_counts``, of a model with a
    forest, whose leaf counts a cautious report reads.
    """
    answered = {name for names in parts.values() for name in names}
    return "decision", *(name for name in ("interval", "set") if name not in answered and (name == "set" or has_counts))


def _route(
    model: Any, direct: list, further_combiners: dict[str, tuple[Combiner, tuple[str, ...]]], unanswered: list[str]
) -> list[Answerer]:
    """Return the answerers of the model's combiner and of all further ones.

    Further combiners (name: combiner, its outputs) are bound together, for one walk of the trees; the model's combiner
    joins them if it is the only one. ``direct`` has pairs of a combiner's name in the model's answer, None for a single
    one, and its outputs. ``unanswered`` are the outputs that none of these answers.
    """
    answerers = [Answerer(model, names, part, f"{part}_" if part else "") for part, names in direct]
    if not further_combiners:
        return answerers
    has_single_part = [part for part, _ in direct] == [None]
    joins_model = model.combiner is not None and has_single_part
    combiners: dict[str, Any] = {"model": model.combiner} if joins_model else {}
    combiners |= {part: combiner for part, (combiner, _) in further_combiners.items()}
    joint_model = model.with_rule(Together(**combiners))
    if joins_model:
        answerers = [Answerer(joint_model, direct[0][1], "model")]
    report_has_interval = "interval" in further_combiners.get("cautious", (None, ()))[1]
    if report_has_interval and "interval" not in unanswered:
        report = Answerer(joint_model, (), "cautious", is_report=True)  # its interval is widened to hold probabilities
        answerers = [entry._replace(beside=report) if "interval" in entry.outputs else entry for entry in answerers]
    for part, (_, names) in further_combiners.items():
        if part_outputs := tuple(name for name in names if name in unanswered):
            answerers.append(Answerer(joint_model, part_outputs, part, is_report=part == "cautious"))
    return answerers


def _with_class(answerers: list[Answerer], model: Answering, parts: Parts) -> list[Answerer]:
    """Return the answerers, with those of a cautious report's sets changed so that the sets hold the model's class.

    ``parts`` are the outputs of the model's answer. Nothing changes unless exactly one combiner in it names a class.
    """
    naming = [Answerer(model, ("class",), part) for part, names in parts.items() if "class" in names]
    if len(naming) != 1:
        return answerers
    reports_set = lambda answerer: answerer.is_report and "set" in answerer.outputs
    return [each._replace(beside=naming[0]) if reports_set(each) else each for each in answerers]


def _parts(answer: Any) -> Parts:
    """Return the outputs of an answer: {combiner's name: outputs} if several answer together, else {None: outputs}."""
    list_outputs = lambda part: tuple(getattr(part, "outputs", ()))
    parts = answer if isinstance(answer, dict) else {None: answer}
    return {name: list_outputs(part) for name, part in parts.items()}


def _default(parts: Parts, model: Answering) -> tuple[str, ...]:
    answered = {name for names in parts.values() for name in names} - {"score"}
    if not answered:
        raise ValueError(f"{model!r} answers nothing of {OUTPUTS}; bind another combiner.")
    return tuple(name for name in OUTPUTS if name in answered)


class Consistent(NamedTuple):
    """A model's answer, completed by decisions, sets and intervals that are made of its probabilities."""

    answer: Any
    interval: Interval | None
    """Bounds of a cautious report, which need not hold the model's probabilities; None if no interval is an output."""
    deciding: HowDecided = HowDecided()

    def columns(self, output: str) -> dict[str, Any]:
        """Return {name: array} of an output: the answer's columns, or else columns made of its class and probabilities.

        Arrays are ``[instances]`` or ``[instances classes]``. If the answer has probabilities, sets that promise a
        coverage are made of them in place of its own sets.
        """
        costs, reject, thresholds = self.deciding
        promised = output == "set" and thresholds is not None and "probability" in self.answer.outputs
        if output in self.answer.outputs and not promised:
            return self.answer.columns(output)
        probability = np.asarray(self.answer.columns("probability")["probability"])
        if output == "interval":
            assert self.interval is not None
            return Interval(*map(np.asarray, self.interval)).around(probability).columns(output)
        named = np.asarray(self.answer.columns("class")["class"])
        if output == "decision":
            return {output: decided(probability, named, costs, reject)}
        if thresholds is None:
            return {output: best_sets(probability, named)}
        return {output: promised_sets(probability, named, thresholds)}


class Reported(NamedTuple):
    """The answer of a cautious report, with column names that do not clash with those of another combiner's answer."""

    answer: CautiousAnswer
    beside: Any = None  # an answer whose class the report's sets are to hold; None if there is no such class

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return {name: array} of an output, as the report names it.

        "idm_interval" and "cautious_set" are the report's "interval" and "set". The output "set" is its set with the
        class added that the answer ``beside`` decides for, if there is such an answer.
        """
        if output == "set" and self.beside is not None:
            sets, chosen = self.answer.columns("set")["set"], self.beside.columns("class")["class"]
            return {output: np.asarray(sets) | (np.arange(sets.shape[1]) == np.asarray(chosen)[:, None])}
        if output == "idm_interval":
            return {f"idm_{name}": array for name, array in self.answer.columns("interval").items()}
        if output == "cautious_set":
            return {output: self.answer.columns("set")["set"]}
        return self.answer.columns(output)


class ExplanationAnswer(eqx.Module):
    """Shares of the data's columns in answers (`jaxunc.explain`), as columns of an output file."""

    arrays: tuple[Any, ...]  # the base, and the share of each column, each ``[instances]``
    names: tuple[str, ...] = eqx.field(static=True)  # name of each array
    outputs = ("explanation",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return the arrays by their names; the only ``output`` is "explanation"."""
        return dict(zip(self.names, self.arrays, strict=True))


class ExplanationModel(OfForest):
    """A model whose answer is the share of each column in the answer of a forest and a combiner.

    ``names`` are the names of the columns; None for those that the forest knows.
    """

    def __init__(self, forest: Forest, combiner: Combiner, names: tuple[str, ...] | None = None):
        self.forest, self.combiner, self._names = forest, combiner, names

    def answer(self, X: Any) -> ExplanationAnswer:
        """Return the shares of the columns for each instance."""
        shares = explain(self.forest, self.combiner, X)
        columns = shares._replace(features=self._names or shares.features).columns()
        return ExplanationAnswer(tuple(columns.values()), tuple(columns))

    def blank_answer(self) -> ExplanationAnswer:
        """Return an answer of zeros for one instance; raise the error of `explain` for a combiner without shares."""
        none = self.answer(Encoded(np.zeros((0, self.forest.n_features), np.float32), False))
        return ExplanationAnswer(tuple(np.zeros(1, array.dtype) for array in none.arrays), none.names)


class Request(NamedTuple):
    """Inputs of the functions in `MODELS`, which make a model for an output that no combiner answers."""

    model: Any
    outputs: Outputs
    column_names: tuple[str, ...] | None
    training: TrainingRows | None


def _vote(request: Request) -> Any:
    from jaxunc.voting import bind_vote  # imported here, since it imports SciPy's statistics

    model = request.model
    return bind_vote(model.forest, confidence=request.outputs.confidence) if isinstance(model, OfForest) else None


def _explanation(request: Request) -> Any:
    model = request.model
    if not isinstance(model, OfForest) or model.combiner is None:
        return None
    return ExplanationModel(model.forest, model.combiner, request.column_names)


def _neighbours(request: Request) -> Any:
    outputs = request.outputs
    return request.training and NeighbourModel(request.training, outputs.k or 10, outputs.kind or "prediction")


def _outside(request: Request) -> Any:
    return request.training and OutsideModel(request.training)


FURTHER_COMBINERS: dict[str, tuple[tuple[str, ...], Callable[[Outputs], Combiner]]] = {
    "uncertainty": (("uncertainty",), lambda _: UncertaintyDecomposition()),
    "cautious": (("interval", "set", "idm_interval", "cautious_set"), lambda outputs: CautiousReport(outputs.s)),
}
"""By name, further combiners for the model's forest: the outputs that one answers, and the function that makes it."""
MODELS: dict[str, Callable[[Request], Any]] = {
    "trees_polled": _vote,
    "explanation": _explanation,
    "neighbours": _neighbours,
    "outside_share": _outside,
}
"""Functions that make a model for an output that no combiner answers, by the output; None if they cannot."""
