"""Rows through a model into the columns of its outputs.

`load_model` reads a model. A `Scoring` finds for each output who answers it (`answerers_of`): the model itself, or
a combiner for other outputs. Those combiners are bound together, so that rows go through the trees once. Columns of one
row agree: sets and intervals are made of the probabilities beside them (`Consistent`, `Reported`).
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import pyarrow as pa

from jaxunc._checks import check_confidence, check_one_of, check_within
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner, Mean, Together, UncertaintyDecomposition
from jaxunc.decisions import (
    Calibration,
    CautiousAnswer,
    CautiousReport,
    best_sets,
    check_coverage,
    cost_matrix,
    decided,
    plain_costs,
    promised_sets,
)
from jaxunc.explanations import explain
from jaxunc.forest import Forest
from jaxunc.inference import Answering, OfForest, bind
from jaxunc.interop import is_model_file, read_model_file
from jaxunc.intervals import Interval, check_strength
from jaxunc.regression import BoundLaw, checked_levels
from jaxunc.storage import Description, StoredEstimator, describe, load_answering
from jaxunc.tables import Columns, Encoded

from ._in_memory import arrow_labels, arrow_numbers
from ._sources import DataChunk

OUTPUTS = (
    *("mean", "std", "class", "probability", "score", "uncertainty", "interval"),
    *("set", "decision", "idm_interval", "cautious_set", "trees_polled", "explanation", "quantile"),
)
"""Names of the outputs that `stream` and `predict_files` write."""
QUANTILES = (0.05, 0.5, 0.95)
"""Levels of quantiles where none are named."""
Named = dict[str, Any]
"""Arrays by the names of their columns."""
Parts = dict[str | None, tuple[str, ...]]
"""The outputs that a model's answer has; by the names of combiners where several answer together."""


def load_model(path: str | Path, *, known: Sequence[Any] = ()) -> Any:
    """Load a model that answers, as `jaxunc.load` and `jaxunc.from_any` do; also a ValueError for regressors."""
    if not is_model_file(path):
        return load_answering(path, known=known)
    model = read_model_file(path).model
    if isinstance(model, AdditiveTrees) and model.class_labels is None:
        raise ValueError(
            f"{path} holds a model that predicts numbers, without what they may be off by: ask "
            "jaxunc.from_any(path).predict(X), or fit a jaxunc.estimators.UncertainForestRegressor to rows and save it."
        )
    return model


def describe_model(path: str | Path) -> Description:
    """Describe a model file: of `jaxunc.save` by its header, of another library (its ``kind``) by reading it."""
    if not is_model_file(path):
        return describe(path)
    library, model = read_model_file(path)
    columns, trees = model.trees.columns, model.trees
    values = {"outputs": model.n_outputs, "link": model.link} if isinstance(model, AdditiveTrees) else {}
    boosted = isinstance(model, AdditiveTrees) and not model.is_forest
    return Description(
        kind=f"{type(model).__name__}, from {library}",
        version="",
        combiner=None,
        n_trees=trees.n_trees,
        n_nodes=trees.n_nodes,
        columns=columns.number,
        column_names=columns.names,
        class_labels=model.class_labels,
        arrays={},
        n_bytes=Path(path).stat().st_size,
        parameters={**values, "trees": "boosted" if boosted else "a forest"},
    )


class Scoring:
    """The outputs that are asked of a model: `ask` answers rows, `columns` makes columns of the answers."""

    def __init__(
        self, model: Any, outputs: Sequence[str] | None, *, s: float = 1.0, confidence: float = 0.99, **decisions: Any
    ):
        answering_model = answering(model)
        region = "intervals" if isinstance(answering_model, BoundLaw) else "sets"
        check_outputs(outputs, s, confidence, **decisions, region=region)
        self.raw_rows: Callable[[DataChunk], Encoded] | None = None
        if getattr(model, "_steps", None):  # a pipeline makes the rows of the forest of raw columns
            from ._raw_rows import RawRows  # here, since it takes scikit-learn

            self.raw_rows = RawRows(model)
            self.columns_read = self.raw_rows.columns
        else:
            self.columns_read = _named(answering_model.columns, getattr(model, "feature_names_in_", None))
        self.labels = getattr(answering_model, "class_labels", None) or ()
        self._model = model
        coverage, quantiles = decisions.get("coverage"), decisions.pop("quantiles", None)
        if isinstance(answering_model, BoundLaw):
            outputs = _numbers_asked(answering_model, outputs, coverage, quantiles, decisions.get("by_class"))
            answering_model = _asking(answering_model, outputs, coverage, quantiles)
            deciding = HowDecided()
        else:
            _check_asked_of_classes(outputs, coverage, quantiles)
            deciding = _deciding(model, self.labels, **decisions)
        names = self.columns_read.names if self.raw_rows is None else None
        self.answerers = answerers_of(answering_model, outputs, s, confidence, deciding, names)
        self._models = {id(model): model for answerer in self.answerers for model in answerer.models}
        blank = {place: model.blank_answer() for place, model in self._models.items()}
        self.blank = self.columns([answerer.read(blank) for answerer in self.answerers])

    @cached_property
    def takes_missing(self) -> bool:
        """Whether the model takes missing values; read only where there are any, since it may import scikit-learn."""
        if isinstance(self._model, StoredEstimator):
            return self._model.takes_missing
        if not hasattr(self._model, "get_params"):
            return True
        from sklearn.utils import get_tags

        return get_tags(self._model).input_tags.allow_nan

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.blank)

    def ask(self, rows: Encoded) -> list[Any]:
        """Return the answers for rows, which go through the trees of each bound model once."""
        # On the host, where later steps compile nothing.
        answers = {place: jax.tree.map(np.asarray, model.answer(rows)) for place, model in self._models.items()}
        return [answerer.read(answers) for answerer in self.answerers]

    def columns(self, answers: list[Any]) -> Named:
        """Return the columns of answers, in the order of `OUTPUTS`."""
        columns = {}
        for answerer, answer in zip(self.answerers, answers, strict=True):
            for output in answerer.outputs:
                made = _rendered(answer.columns(output), self.labels)
                columns |= {(OUTPUTS.index(output), answerer.prefix + name): array for name, array in made}
        order = sorted(columns, key=lambda key: key[0])  # stable: classes stay in their order
        return {name: columns[place, name] for place, name in order}


class HowDecided(NamedTuple):
    """How decisions and sets are made of probabilities."""

    costs: np.ndarray | None = None
    """Cost of each decision by the true class, ``[classes classes]``; None where each error costs 1."""
    reject: float | None = None
    """The cost of a rejection; None for no rejections."""
    thresholds: np.ndarray | None = None
    """Smallest probability with which each class is in a set; None for the sets of largest utility."""


def _deciding(
    model: Any, labels: tuple, costs: Any = None, reject: Any = None, coverage: Any = None, by_class: bool = False
) -> HowDecided:
    """Return how a model with these labels decides; raises a ValueError for what it cannot."""
    thresholds, calibration = None, getattr(model, "calibration_", None)
    if coverage is not None:
        if calibration is None:
            raise ValueError(
                f"coverage={coverage:g} needs rows that the model was not fitted to, and this {type(model).__name__} "
                "keeps none. Save a CombinedForestClassifier with combiner='learned', or one that was fitted with "
                "counts='oob' or 'held_out'."
            )
        thresholds = Calibration(calibration).least(coverage, by_class, labels)
    return HowDecided(cost_matrix(costs, labels), reject, thresholds)


def plain_levels(quantiles: Any) -> list[float] | None:
    """Return levels as a list; raises what `checked_levels` does."""
    return None if quantiles is None else checked_levels(quantiles, "quantiles").tolist()


def _numbers_asked(
    model: BoundLaw, outputs: Sequence[str] | None, coverage: Any, quantiles: Any, by_class: Any
) -> tuple[str, ...]:
    """Return the outputs that are asked of a model that predicts numbers; a ValueError for others."""
    if by_class:
        raise ValueError("by_class=True is of models of classes, and this one predicts numbers; leave it out.")
    if outputs is None:
        usual = ("mean", "std", "interval", "uncertainty", *("quantile",) * (quantiles is not None))
        return tuple(name for name in usual if name in model.outputs)
    if others := sorted({*outputs} - {*model.outputs}):
        what = "boosted models do not tell" if others == ["uncertainty"] else "are of models of classes"
        raise ValueError(f"outputs {others} {what}, and this one predicts numbers: it has {model.outputs}.")
    if coverage is not None and "interval" not in outputs:
        raise ValueError(f"coverage={coverage:g} would change nothing: ask for outputs=interval, or leave it out.")
    return tuple(outputs)


def _asking(model: BoundLaw, outputs: tuple[str, ...], coverage: Any, quantiles: Any) -> BoundLaw:
    """Return the model that answers these outputs alone: a conformal law may lack others."""
    coverage = (0.9 if coverage is None else coverage) if "interval" in outputs else None
    return model.asking(coverage, (quantiles or QUANTILES) if "quantile" in outputs else None)


def _check_asked_of_classes(outputs: Sequence[str] | None, coverage: Any, quantiles: Any) -> None:
    """Raise a ValueError for settings of models of numbers, and for settings that change nothing."""
    if quantiles is not None:
        raise ValueError("quantiles are of models that predict numbers, and this one names classes; leave them out.")
    if coverage is not None and "set" not in (outputs or ()):
        raise ValueError(f"coverage={coverage:g} would change nothing: ask for outputs=set, or leave it out.")


def check_outputs(
    outputs: Any,
    s: Any,
    confidence: Any,
    costs: Any = None,
    reject: Any = None,
    coverage: Any = None,
    by_class: Any = False,
    quantiles: Any = None,
    region: str = "sets or intervals",
) -> None:
    """Raise a TypeError or a ValueError unless these are outputs and sound settings of them.

    ``region`` is what holds the truth as often as the coverage says: a model that is not loaded yet may have either.
    """
    check_lists(outputs=outputs)
    if outputs is not None and not len(outputs):
        raise ValueError(f"outputs={outputs!r} names nothing; choose some of {OUTPUTS}, or None for the default.")
    for name in outputs or ():
        check_one_of("outputs", name, OUTPUTS)
    check_strength(s)
    check_confidence(confidence)
    plain_costs(costs)
    if reject is not None:
        check_within("reject", reject, "[0, inf)", ": what a rejection costs")
    if coverage is not None:
        check_within("coverage", coverage, "(0, 1)", f": how often {region} are to hold the truth")
    check_coverage(0.9 if coverage is None else coverage, by_class)
    if plain_levels(quantiles) == []:
        raise ValueError("quantiles=[] names nothing; pass levels in [0, 1], such as [0.05, 0.95].")
    for name, value in {"costs": costs, "reject": reject}.items():
        if value is not None and "decision" not in (outputs or ()):
            shown = value if isinstance(value, str | int | float) else "…"
            raise ValueError(f"{name}={shown} would change nothing: ask for outputs=decision, or leave it out.")
    if quantiles is not None and outputs is not None and "quantile" not in outputs:
        raise ValueError("quantiles would change nothing: ask for outputs=quantile, or leave them out.")
    if by_class and coverage is None:
        raise ValueError("by_class=True would change nothing: it belongs to coverage; pass it, or leave it out.")


def check_lists(**lists: Any) -> None:
    """Raise a ValueError for one name in place of a list of names, a TypeError for anything else."""
    for name, value in lists.items():
        if isinstance(value, str):
            raise ValueError(f"{name}={value!r} is one name; pass a list of them: [{value!r}].")
        if value is not None and not isinstance(value, Collection):
            raise TypeError(f"{name}={value!r} is no list of names; pass one, such as ['a', 'b'].")


def _named(columns: Columns, names: Any) -> Columns:
    """Return the columns with the names that a classifier was fitted on, which its forest may not know."""
    if columns.names is not None or names is None:
        return columns
    return dataclasses.replace(columns, names=tuple(map(str, names)))


def _rendered(columns: Named, labels: tuple) -> Iterator[tuple[str, Any]]:
    """Yield the columns of an answer as Arrow's, one for each class where they have two axes."""
    of_classes = arrow_labels(labels)
    for name, array in columns.items():
        if name == "class":
            yield name, of_classes.take(arrow_numbers(array))
        elif name == "decision":
            yield name, of_classes.take(pa.array(array, mask=array < 0))
        elif array.ndim == 1:
            yield name, arrow_numbers(array)
        elif array.dtype == bool:
            ends = np.concatenate([[0], np.cumsum(array.sum(axis=1))]).astype(np.int32)
            inside = of_classes.take(arrow_numbers(np.nonzero(array)[1]))
            yield name, pa.ListArray.from_arrays(arrow_numbers(ends), inside)
        else:
            for c, label in enumerate(labels):
                yield f"{name}_{label}", arrow_numbers(array[:, c])


class Answerer(NamedTuple):
    """A model, and the outputs that are read from its answer."""

    model: Answering
    outputs: tuple[str, ...]
    part: str | None = None
    """Name of the combiner whose answer it is, where several answer together."""
    prefix: str = ""
    """Put before the names of columns."""
    beside: "Answerer | None" = None
    """Another answerer: its intervals are widened to the model's probabilities, or a report's set holds its class."""
    is_report: bool = False
    """Whether it is a cautious report beside the answer of the model's own combiner."""
    deciding: HowDecided = HowDecided()
    """How decisions and sets are made of its probabilities."""

    @property
    def models(self) -> tuple[Answering, ...]:
        """The bound models whose answers it reads."""
        return (self.model,) if self.beside is None else (self.model, self.beside.model)

    def read(self, answers: dict[int, Any]) -> Any:
        """Return its part of the models' answers, which are given by the models' identities."""
        answer = answers[id(self.model)]
        answer = answer if self.part is None else answer[self.part]
        if self.is_report:
            return Reported(answer, None if self.beside is None else self.beside.read(answers).answer)
        interval = None if self.beside is None else self.beside.read(answers).answer.interval
        return Consistent(answer, interval, self.deciding)


def answering(model: Any) -> Answering:
    """Return the model that answers instances; raise a TypeError for anything else."""
    bound = bind(model, Mean()) if isinstance(model, Forest) else getattr(model, "bound_", model)
    if isinstance(model, type) or not isinstance(bound, Answering):
        raise TypeError(
            f"model is a {type(model).__name__}; what streams is a bound or sharded forest, a bound vote, a forest, or "
            "a fitted classifier or regressor of jaxunc."
        )
    return bound


def answerers_of(
    model: Answering,
    outputs: Sequence[str] | None,
    s: float,
    confidence: float,
    deciding: HowDecided = HowDecided(),  # noqa: B008
    column_names: tuple[str, ...] | None = None,
) -> tuple[Answerer, ...]:
    """Find who answers each of the outputs; raises a ValueError for those that cannot be answered.

    ``column_names`` are for explanations: the model's forest may not know them.
    """
    parts = _parts(model.blank_answer())
    of_forest: Any = model if isinstance(model, OfForest) else None
    combiner = getattr(model, "combiner", None)
    who = type(model if combiner is None else combiner).__name__
    outputs = _default(parts, model) if outputs is None else tuple(dict.fromkeys(outputs))
    of_probabilities = {"decision", *("set",) * (deciding.thresholds is not None)} & {*outputs}
    if of_probabilities and not any("probability" in names for names in parts.values()):
        raise ValueError(f"outputs {sorted(of_probabilities)} are made of probabilities, and {who} answers none.")
    derived = _derived(parts, has_counts=of_forest is not None)
    direct = [
        (part, tuple(name for name in outputs if name in (*names, *derived * ("probability" in names))))
        for part, names in parts.items()
    ]
    direct = [(part, names) for part, names in direct if names]
    left = [name for name in outputs if not any(name in names for _, names in direct)]
    # The interval of the model's probability is the report's, widened to hold it.
    needed = left + ["interval"] * ("interval" in derived and "interval" in outputs)
    further = _further(needed, s) if of_forest is not None else {}
    voted = tuple(name for name in left if name == "trees_polled" and of_forest is not None)
    can_explain = of_forest is not None and combiner is not None
    explained = tuple(name for name in left if name == "explanation" and can_explain)
    if unanswered := {*left} - {name for _, names in further.values() for name in names} - {*voted, *explained}:
        can = sorted({name for names in parts.values() for name in names})
        raise ValueError(f"outputs {sorted(unanswered)} are not what {who} answers; it has {can}.")
    answerers = _routed(model, direct, further, left)
    if "set" in left:
        answerers = _with_class(answerers, model, parts)
    if voted and of_forest is not None:
        # Here, since the room's tables of votes take SciPy.
        from jaxunc.voting import bind_vote

        answerers.append(Answerer(bind_vote(of_forest.forest, confidence=confidence), voted))
    if explained and of_forest is not None:
        answerers.append(Answerer(Explaining(of_forest.forest, of_forest.combiner, column_names), explained))
    return tuple(answerer._replace(deciding=deciding) for answerer in answerers)


def _further(left: Sequence[str], s: float) -> dict[str, tuple[Combiner, tuple[str, ...]]]:
    """Return combiners for outputs that the model's own does not answer, and which each of them answers."""
    combiners: dict[str, tuple[Combiner, tuple[str, ...]]] = {}
    if "uncertainty" in left:
        combiners["uncertainty"] = UncertaintyDecomposition(), ("uncertainty",)
    if cautious := tuple(name for name in ("interval", "set", "idm_interval", "cautious_set") if name in left):
        combiners["cautious"] = CautiousReport(s), cautious
    return combiners


def _derived(parts: Parts, *, has_counts: bool) -> tuple[str, ...]:
    """Return the outputs that are made of the probabilities of a part, since no part answers them by itself."""
    can = {name for names in parts.values() for name in names}
    return "decision", *(name for name in ("interval", "set") if name not in can and (name == "set" or has_counts))


def _routed(
    model: Any, direct: list, further: dict[str, tuple[Combiner, tuple[str, ...]]], left: list[str]
) -> list[Answerer]:
    combiners = {name: combiner for name, (combiner, _) in further.items()}
    answerers = [Answerer(model, names, part, f"{part}_" if part else "") for part, names in direct]
    if not combiners:
        return answerers
    if model.combiner is not None and [part for part, _ in direct] == [None]:  # of a forest, as there are combiners
        model = model.with_rule(Together(own=model.combiner, **combiners))
        answerers = [Answerer(model, direct[0][1], "own")]
    else:
        model = model.with_rule(Together(**combiners))
    report = Answerer(model, (), "cautious", is_report=True)
    made = "interval" in further.get("cautious", (None, ()))[1] and "interval" not in left
    answerers = [
        answerer._replace(beside=report) if made and "interval" in answerer.outputs else answerer
        for answerer in answerers
    ]
    shown = {part: tuple(name for name in names if name in left) for part, (_, names) in further.items()}
    return answerers + [
        Answerer(model, names, part, is_report=part == "cautious") for part, names in shown.items() if names
    ]


def _with_class(answerers: list[Answerer], model: Answering, parts: Parts) -> list[Answerer]:
    """Let the report's sets hold the class of a model that names one without probabilities, as a vote does."""
    naming = [Answerer(model, ("class",), part) for part, names in parts.items() if "class" in names]
    if len(naming) != 1:
        return answerers
    return [
        answerer._replace(beside=naming[0]) if answerer.is_report and "set" in answerer.outputs else answerer
        for answerer in answerers
    ]


def reads_s(model: Any, outputs: Sequence[str] | None) -> bool:
    """Return whether the setting ``s`` of `stream` changes the outputs: where a cautious report answers one."""
    answerers = answerers_of(answering(model), outputs, 1.0, 0.99)
    return any(answerer.is_report or answerer.beside is not None for answerer in answerers)


def _parts(answer: Any) -> Parts:
    of = lambda part: tuple(getattr(part, "outputs", ()))
    return {name: of(part) for name, part in answer.items()} if isinstance(answer, dict) else {None: of(answer)}


def _default(parts: Parts, model: Answering) -> tuple[str, ...]:
    answered = {name for names in parts.values() for name in names} - {"score"}
    if not answered:
        raise ValueError(f"{model!r} answers nothing of {OUTPUTS}; bind another combiner.")
    return tuple(name for name in OUTPUTS if name in answered)


class Consistent(NamedTuple):
    """A model's answer, with sets and intervals made of its probabilities where it has none of its own."""

    answer: Any
    interval: Interval | None
    """Bounds by leaf sizes, which need not hold the model's probabilities; None if they are not asked for."""
    deciding: HowDecided = HowDecided()

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the columns of an output: the answer's own, or made of its probabilities and its class."""
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
        return {
            output: best_sets(probability, named)
            if thresholds is None
            else promised_sets(probability, named, thresholds)
        }


class Reported(NamedTuple):
    """A cautious report beside the answer of another combiner; its columns have names of their own."""

    answer: CautiousAnswer
    own: Any = None
    """The other answer, whose class is to be in the set; None if it has no class."""

    def columns(self, output: str) -> dict[str, np.ndarray]:
        if output == "set" and self.own is not None:
            sets, chosen = self.answer.columns("set")["set"], self.own.columns("class")["class"]
            return {output: np.asarray(sets) | (np.arange(sets.shape[1]) == np.asarray(chosen)[:, None])}
        if output == "idm_interval":
            return {f"idm_{name}": array for name, array in self.answer.columns("interval").items()}
        if output == "cautious_set":
            return {output: self.answer.columns("set")["set"]}
        return self.answer.columns(output)


class Explained(eqx.Module):
    """Shares as columns of files."""

    arrays: tuple[Any, ...]
    names: tuple[str, ...] = eqx.field(static=True)
    outputs = ("explanation",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return the arrays by their names."""
        return dict(zip(self.names, self.arrays, strict=True))


class Explaining(OfForest):
    """A forest and a combiner that answer with shares."""

    def __init__(self, forest: Forest, combiner: Combiner, names: tuple[str, ...] | None = None):
        self.forest, self.combiner, self._names = forest, combiner, names

    def answer(self, X: Any) -> Explained:
        """Return the shares for instances."""
        shares = explain(self.forest, self.combiner, X)
        columns = shares._replace(features=self._names or shares.features).columns()
        return Explained(tuple(columns.values()), tuple(columns))

    def blank_answer(self) -> Explained:
        """Return an answer for one instance, all zeros; raise what `explain` does of a combiner."""
        none = self.answer(Encoded(np.zeros((0, self.forest.n_features), np.float32), False))
        return Explained(tuple(np.zeros(1, array.dtype) for array in none.arrays), none.names)
