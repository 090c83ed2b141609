"""Which model answers each output: the model itself, its forest with further combiners, or a further model.

The columns of a row agree: sets and intervals suit the row's probabilities and class (`Consistent`, `Reported`).
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

OutputsByCombiner = dict[str | None, tuple[str, ...]]
"""{name of a combiner: outputs of its answer} if several combiners answer together, else {None: outputs}."""


class HowDecided(NamedTuple):
    """Costs and thresholds that turn probabilities into decisions and sets."""

    costs: np.ndarray | None = None  # costs of decisions, ``[truth decision]``; None if each error costs 1
    reject: float | None = None  # the cost of a rejection; None for no rejections
    thresholds: np.ndarray | None = None
    """Smallest probability with which each class is in a set, ``[classes]``; None for sets of largest utility."""


class Answerer(NamedTuple):
    """A model, and the outputs that are read from its answer."""

    model: Any  # a bound model
    outputs: tuple[str, ...]
    combiner_name: str | None = None  # name of the combiner whose answer is read, if several combiners answer together
    prefix: str = ""  # prefix of the names of columns
    beside: "Answerer | None" = None
    """Another answerer whose answer is used, too; None if there is no need.

    It gives intervals, which are widened to hold this model's probabilities; or, for a cautious report, the class that
    the report's sets must hold.
    """
    is_report: bool = False  # whether the answer is a cautious report
    deciding: HowDecided = HowDecided()  # costs and thresholds for decisions and sets from the answer's probabilities

    @property
    def models(self) -> tuple[Any, ...]:
        """The bound models whose answers are needed: this one, and that of ``beside``."""
        return (self.model,) if self.beside is None else (self.model, self.beside.model)

    def read(self, answers: dict[int, Any]) -> Any:
        """Return the answer that has the columns of ``outputs``; ``answers`` is {id of a model: the model's answer}."""
        answer = answers[id(self.model)]
        if self.combiner_name is not None:
            answer = answer[self.combiner_name]
        answer_beside = None if self.beside is None else self.beside.read(answers).answer
        if self.is_report:
            return Reported(answer, answer_beside)
        interval = None if answer_beside is None else answer_beside.interval
        return Consistent(answer, interval, self.deciding)


def answerers_of(
    model: Answering,
    outputs: Outputs,
    deciding: HowDecided = HowDecided(),  # noqa: B008
    column_names: tuple[str, ...] | None = None,
    training: TrainingRows | None = None,
) -> tuple[Answerer, ...]:
    """Return the answerers of all outputs that ``outputs`` names; raise a ValueError for an output without one.

    If ``outputs`` names none, the outputs of the model's own answer are meant, without "score". ``column_names`` name
    the columns of explanations; None stands for the forest's names. ``training`` is None if no training rows are given.
    """
    by_combiner = _list_outputs(model.blank_answer())
    combiner = getattr(model, "combiner", None)
    kind = type(model if combiner is None else combiner).__name__
    names = _default_outputs(by_combiner, model) if outputs.names is None else tuple(dict.fromkeys(outputs.names))
    # Sets that promise a coverage, by thresholds, are made of probabilities; other sets may be a combiner's own.
    made_of_probability = {"decision"} if deciding.thresholds is None else {"decision", "set"}
    need_probability = made_of_probability & {*names}
    if need_probability and not any("probability" in answered for answered in by_combiner.values()):
        raise ValueError(f"outputs {sorted(need_probability)} are made of probabilities, and {kind} answers none.")
    # First the model's own answer is asked for each output, then further combiners and models.
    has_counts = isinstance(model, OfForest)
    derived_outputs = _list_derived_outputs(by_combiner, has_counts=has_counts)
    direct_outputs = _list_direct_outputs(by_combiner, names, derived_outputs)
    unanswered = [name for name in names if not any(name in answered for _, answered in direct_outputs)]
    outputs_to_combine = list(unanswered)
    if "interval" in derived_outputs and "interval" in names:
        outputs_to_combine.append("interval")  # of the cautious report, which is widened to hold the probability
    further_combiners = _make_combiners(outputs_to_combine, outputs) if has_counts else {}
    further_models = _make_models(unanswered, Request(model, outputs, column_names, training))
    if refused := {*unanswered}.difference(further_models, *(answered for _, answered in further_combiners.values())):
        possible = sorted({name for answered in by_combiner.values() for name in answered})
        raise ValueError(f"outputs {sorted(refused)} are not what {kind} answers; it has {possible}.")
    answerers = _route(model, direct_outputs, further_combiners, unanswered)
    if "set" in unanswered:
        answerers = _with_class(answerers, model, by_combiner)
    answerers += [Answerer(other, (name,)) for name, other in further_models.items()]
    return tuple(answerer._replace(deciding=deciding) for answerer in answerers)


def _list_direct_outputs(
    by_combiner: OutputsByCombiner, names: tuple[str, ...], derived: tuple[str, ...]
) -> list[tuple[str | None, tuple[str, ...]]]:
    """Return pairs (combiner's name, those of the outputs ``names`` that its answer gives) for combiners that give any.

    ``by_combiner`` has the outputs of the model's answer. One with probabilities gives the ``derived`` outputs, too.
    """
    direct_outputs = []
    for combiner_name, answered in by_combiner.items():
        possible = (*answered, *derived) if "probability" in answered else answered
        if chosen_outputs := tuple(name for name in names if name in possible):
            direct_outputs.append((combiner_name, chosen_outputs))
    return direct_outputs


def _make_models(unanswered: list[str], request: "Request") -> dict[str, Any]:
    """Return {output: model} of those ``unanswered`` outputs for which a function in `MODELS` makes a model."""
    models = {}
    for name in unanswered:
        if name in MODELS and (model := MODELS[name](request)) is not None:
            models[name] = model
    return models


def _make_combiners(needed: list[str], outputs: Outputs) -> dict[str, tuple[Combiner, tuple[str, ...]]]:
    """Return {name: (combiner, those of the ``needed`` outputs that it answers)} of further combiners that answer any.

    ``outputs`` has the settings of the combiners.
    """
    combiners = {}
    for combiner_name, (answered, make) in FURTHER_COMBINERS.items():
        if names := tuple(name for name in answered if name in needed):
            combiners[combiner_name] = (make(outputs), names)
    return combiners


def _list_derived_outputs(by_combiner: OutputsByCombiner, *, has_counts: bool) -> tuple[str, ...]:
    """Return the outputs that are made of a model's probabilities: "decision", and perhaps "interval" and "set".

    The latter two are made if the model's own answer, with the outputs ``by_combiner``, lacks them. Intervals come from
    a cautious report, which needs the leaf counts of a forest, ``has_counts``.
    """
    answered = {name for names in by_combiner.values() for name in names}
    derived = ["decision"]
    if has_counts and "interval" not in answered:
        derived.append("interval")
    if "set" not in answered:
        derived.append("set")
    return tuple(derived)


def _route(
    model: Any, direct: list, further_combiners: dict[str, tuple[Combiner, tuple[str, ...]]], unanswered: list[str]
) -> list[Answerer]:
    """Return one list of answerers: those of the model's own answer, then those of further combiners for its forest.

    ``direct`` has pairs (combiner's name or None, outputs) of the model's own answer. ``further_combiners`` is
    {name: (combiner, outputs)}. ``unanswered`` are the outputs that the model's own answer does not give.
    """
    answerers = [
        Answerer(model, names, combiner_name, prefix=f"{combiner_name}_" if combiner_name else "")
        for combiner_name, names in direct
    ]
    if not further_combiners:
        return answerers
    # Combiners that are bound together walk the trees once. The model's own joins them if its answer is read, and is
    # that of a single combiner.
    has_single_combiner = [combiner_name for combiner_name, _ in direct] == [None]
    joins_model = model.combiner is not None and has_single_combiner
    combiners: dict[str, Any] = {"model": model.combiner} if joins_model else {}
    combiners |= {combiner_name: combiner for combiner_name, (combiner, _) in further_combiners.items()}
    joint_model = model.with_rule(Together(**combiners))
    if joins_model:
        _, direct_names = direct[0]
        answerers = [Answerer(joint_model, direct_names, "model")]
    _, outputs_of_report = further_combiners.get("cautious", (None, ()))
    if "interval" in outputs_of_report and "interval" not in unanswered:
        # Intervals that are made of the model's probabilities are the report's, widened to hold these.
        report = Answerer(joint_model, (), "cautious", is_report=True)
        answerers = [entry._replace(beside=report) if "interval" in entry.outputs else entry for entry in answerers]
    for combiner_name, (_, names) in further_combiners.items():
        if chosen_outputs := tuple(name for name in names if name in unanswered):
            answerers.append(
                Answerer(joint_model, chosen_outputs, combiner_name, is_report=combiner_name == "cautious")
            )
    return answerers


def _with_class(answerers: list[Answerer], model: Answering, by_combiner: OutputsByCombiner) -> list[Answerer]:
    """Return the answerers, changed so that the sets of a cautious report hold the class that the model names.

    Nothing changes unless exactly one combiner in ``by_combiner``, the outputs of the model's answer, names a class.
    """
    class_answerers = [
        Answerer(model, ("class",), combiner_name) for combiner_name, names in by_combiner.items() if "class" in names
    ]
    if len(class_answerers) != 1:
        return answerers
    with_class = []
    for answerer in answerers:
        reports_set = answerer.is_report and "set" in answerer.outputs
        with_class.append(answerer._replace(beside=class_answerers[0]) if reports_set else answerer)
    return with_class


def _list_outputs(answer: Any) -> OutputsByCombiner:
    """Return the outputs of an answer: {combiner's name: outputs} if several answer together, else {None: outputs}."""
    answers = answer if isinstance(answer, dict) else {None: answer}
    return {name: tuple(getattr(single_answer, "outputs", ())) for name, single_answer in answers.items()}


def _default_outputs(by_combiner: OutputsByCombiner, model: Answering) -> tuple[str, ...]:
    """Return the outputs in ``by_combiner`` except "score", in the order of `OUTPUTS`; raise a ValueError for none."""
    answered = {name for names in by_combiner.values() for name in names} - {"score"}
    if not answered:
        raise ValueError(f"{model!r} answers nothing of {OUTPUTS}; bind another combiner.")
    return tuple(name for name in OUTPUTS if name in answered)


class Consistent(NamedTuple):
    """A model's answer, with further outputs that are made of its probabilities: decisions, sets and intervals."""

    answer: Any
    interval: Interval | None
    """Bounds of a cautious report, which need not hold the model's probabilities; None if they are not needed."""
    deciding: HowDecided = HowDecided()

    def columns(self, output: str) -> dict[str, Any]:
        """Return {name: array} of an output: columns of the answer, or made of its class and probabilities.

        Arrays are ``[instances]`` or ``[instances classes]``.
        """
        costs, reject, thresholds = self.deciding
        # Sets that promise a coverage are made of probabilities, even if the answer has sets of its own.
        is_promised_set = output == "set" and thresholds is not None and "probability" in self.answer.outputs
        if output in self.answer.outputs and not is_promised_set:
            return self.answer.columns(output)
        probability = np.asarray(self.answer.columns("probability")["probability"])
        if output == "interval":
            assert self.interval is not None
            return Interval(*map(np.asarray, self.interval)).around(probability).columns(output)
        named_class = np.asarray(self.answer.columns("class")["class"])
        if output == "decision":
            return {output: decided(probability, named_class, costs, reject)}
        if thresholds is None:
            return {output: best_sets(probability, named_class)}
        return {output: promised_sets(probability, named_class, thresholds)}


class Reported(NamedTuple):
    """The answer of a cautious report; its intervals and sets are also the outputs "idm_interval", "cautious_set"."""

    answer: CautiousAnswer
    beside: Any = None  # an answer with the class that the report's sets are to hold; None without such a class

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return {name: array} of an output of the report; arrays are ``[instances]`` or ``[instances classes]``.

        "idm_interval" and "cautious_set" are what the report's answer calls "interval" and "set". The output "set" is
        the report's set, with the class of the answer ``beside`` added if there is such an answer.
        """
        if output == "set" and self.beside is not None:
            sets = np.asarray(self.answer.columns("set")["set"])
            named_class = np.asarray(self.beside.columns("class")["class"])
            is_named = np.arange(sets.shape[1]) == named_class[:, None]
            return {output: sets | is_named}
        if output == "idm_interval":
            return {f"idm_{name}": array for name, array in self.answer.columns("interval").items()}
        if output == "cautious_set":
            return {output: self.answer.columns("set")["set"]}
        return self.answer.columns(output)


class ExplanationAnswer(eqx.Module):
    """Shares of the data's columns in the answers of a model (`jaxunc.explain`), as an answer itself."""

    arrays: tuple[Any, ...]  # what `explain` calls the base, and then the share of each column, each ``[instances]``
    names: tuple[str, ...] = eqx.field(static=True)  # name of each array
    outputs = ("explanation",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return {name: array ``[instances]``}; the only ``output`` is "explanation"."""
        return dict(zip(self.names, self.arrays, strict=True))


class ExplanationModel(OfForest):
    """A model whose answer is the share of each data column in what ``combiner`` answers of ``forest``.

    ``names`` are the names of the columns; None for the names that the forest has.
    """

    def __init__(self, forest: Forest, combiner: Combiner, names: tuple[str, ...] | None = None):
        self.forest, self.combiner, self._names = forest, combiner, names

    def answer(self, X: Any) -> ExplanationAnswer:
        """Return the share of each column for the instances ``X``, ``[instances features]``."""
        shares = explain(self.forest, self.combiner, X)
        columns = shares._replace(features=self._names or shares.features).columns()
        return ExplanationAnswer(tuple(columns.values()), tuple(columns))

    def blank_answer(self) -> ExplanationAnswer:
        """Return an answer of zeros for one instance; raise the error of `explain` for a combiner without shares."""
        no_rows = Encoded(np.zeros((0, self.forest.n_features), np.float32), missing=False)
        empty_answer = self.answer(no_rows)
        zeros = tuple(np.zeros(1, array.dtype) for array in empty_answer.arrays)
        return ExplanationAnswer(zeros, empty_answer.names)


class Request(NamedTuple):
    """Arguments of the functions in `MODELS`, each of which makes a model for an output that no combiner answers."""

    model: Any  # the bound model that is asked
    outputs: Outputs
    column_names: tuple[str, ...] | None  # names for explanations; None for those of the forest
    training: TrainingRows | None


def _make_vote(request: Request) -> Any:
    """Return the model's forest bound to a vote, which counts the trees that it polls; None without a forest."""
    from jaxunc.voting import bind_vote  # imported here, since it imports SciPy's statistics

    model = request.model
    return bind_vote(model.forest, confidence=request.outputs.confidence) if isinstance(model, OfForest) else None


def _make_explanation(request: Request) -> Any:
    """Return an `ExplanationModel` of the model's forest and combiner; None for a model that lacks one of these."""
    model = request.model
    if not isinstance(model, OfForest) or model.combiner is None:
        return None
    return ExplanationModel(model.forest, model.combiner, request.column_names)


def _make_neighbours(request: Request) -> Any:
    """Return a `NeighbourModel` of the training rows; None without training rows."""
    if request.training is None:
        return None
    outputs = request.outputs
    return NeighbourModel(request.training, outputs.k or 10, outputs.kind or "prediction")


def _make_outside(request: Request) -> Any:
    """Return an `OutsideModel` of the training rows; None without training rows."""
    return None if request.training is None else OutsideModel(request.training)


FURTHER_COMBINERS: dict[str, tuple[tuple[str, ...], Callable[[Outputs], Combiner]]] = {
    "uncertainty": (("uncertainty",), lambda _: UncertaintyDecomposition()),
    "cautious": (("interval", "set", "idm_interval", "cautious_set"), lambda outputs: CautiousReport(outputs.s)),
}
"""{name: (outputs, function that makes the combiner)} of further combiners for the model's forest."""
MODELS: dict[str, Callable[[Request], Any]] = {
    "trees_polled": _make_vote,
    "explanation": _make_explanation,
    "neighbours": _make_neighbours,
    "outside_share": _make_outside,
}
"""{output: function that makes a model for it} of outputs that no combiner answers; it returns None if it cannot."""
