"""Combiners by name, for estimators, option files and tables."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from jax.tree_util import Partial

from jaxunc._checks import check_numbers, check_one_of, check_probability_vector, check_within, suggest
from jaxunc.scorers import SCORERS, ucb
from jaxunc.tables import NumbersLike

from ._belief_rules import CautiousRule, DempsterRule
from ._combiner import Combiner
from ._generalized_vote import GeneralizedVote
from ._one_vs_rest import OneVsRest
from ._score_combiners import BetaAggregation, EpistemicWeighting, GeneralizedMixture, Maximum, Mean, Median
from ._sums import EvidenceAccumulation, Pooling, Vote
from ._uncertainty import AveragedIntervals

COMBINERS: dict[str, type[Combiner]] = {
    "mean": Mean,
    "vote": Vote,
    "median": Median,
    "maximum": Maximum,
    "generalized_mixture": GeneralizedMixture,
    "pooling": Pooling,
    "evidence": EvidenceAccumulation,
    "dempster": DempsterRule,
    "cautious": CautiousRule,
    "epistemic_weighting": EpistemicWeighting,
    "beta_aggregation": BetaAggregation,
    "one_vs_rest": OneVsRest,
    "generalized_vote": GeneralizedVote,
    "averaged_intervals": AveragedIntervals,
}
"""The combiners that have a name. The last two answer with a preference and with intervals, not with class scores."""

_PRIOR = {"prior": "forest"}

CONFIGURED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "probability": ("mean", {}),
    "laplace": ("mean", {"scorer": "laplace"}),
    "m-estimate": ("mean", {"scorer": "m_estimate", "scorer_options": {"m": 2.0, **_PRIOR}}),
    "plausibility": ("mean", {"scorer": "plausibility"}),
    "plausibility-p": ("mean", {"scorer": "plausibility", "scorer_options": _PRIOR}),
    "confidence": ("mean", {"scorer": "confidence_bounds"}),
    "median-pls": ("median", {"scorer": "plausibility"}),
    "maximum-pls": ("maximum", {"scorer": "plausibility"}),
    "mixture": ("generalized_mixture", {}),
    "epistemic": ("epistemic_weighting", {}),
    "beta": ("beta_aggregation", {"statistic": "exact"}),
    "dempster-p": ("dempster", _PRIOR),
    "cautious-p": ("cautious", _PRIOR),
}
"""Combiners with preset options: a key of `COMBINERS` and the options, by the names that comparisons show. The ending
-p stands for the forest's prior instead of one half, -pls for plausibility scores."""


def combiner_by_name(
    name: str | Combiner,
    options: Mapping[str, Any] | None = None,
    *,
    prior: NumbersLike,
    n_samples: NumbersLike | None = None,
) -> Combiner:
    """Return a combiner, made by its name and its options.

    Parameters
    ----------
    name
        A key of `COMBINERS` or of `CONFIGURED`; or a combiner, which is returned as it is.
    options
        Arguments of the combiner; they replace those that a name in `CONFIGURED` sets. ``scorer`` may be a key of
        `SCORERS`, with its settings in ``scorer_options``. ``prior`` may be ``"forest"``, which evidence accumulation
        takes by default. For ``"one_vs_rest"``, ``rule`` may name the combiner of each class against all others, and
        further options are that combiner's. There ``priors`` are the probabilities of the single classes: ``"even"``,
        1/C each (the default); ``"forest"``, the forest's prior; or numbers ``[classes]``.
    prior
        The forest's prior ``[classes]``.
    n_samples
        The number of instances in the forest's sample, which the scorer ``"ucb"`` needs.

    Raises
    ------
    ValueError
        If a name is unknown (the nearest is suggested), or if the combiner does not have an option, or lacks one that
        it needs.
    """
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(
            f"options={options!r} is no dict; pass arguments of the combiner by name, such as {{'smoothing': 1}}."
        )
    options = dict(options or {})
    if isinstance(name, Combiner):
        if options:
            raise ValueError(
                f"options {sorted(options)} need a combiner's name; this is a {type(name).__name__} already."
            )
        return name
    if prior is not None:
        check_numbers("prior", prior)
    if n_samples is not None:
        check_within("n_samples", n_samples, "(0, inf)")
    kind, preset = CONFIGURED.get(check_name("name", name, (*COMBINERS, *CONFIGURED)), (name, {}))
    combiner_class = COMBINERS[kind]
    options = {**preset, **options}
    if combiner_class is OneVsRest:
        if prior is None:
            raise TypeError(f"prior=None, but combiner {name!r} needs the forest's prior [classes]; pass forest.prior.")
        return _one_vs_rest(options, np.asarray(prior, float), n_samples)
    if isinstance(options.get("scorer"), str):
        options["scorer"] = _scorer(options.pop("scorer"), options.pop("scorer_options", {}), prior, n_samples)
    parameters = inspect.signature(combiner_class).parameters
    accepted = sorted(parameters)
    if unknown := sorted(set(options) - set(accepted)):
        raise ValueError(f"combiner {name!r} has no option {', '.join(map(repr, unknown))}; it has {accepted}.")
    # Evidence accumulation needs a prior, so the forest's is its default; belief rules count from one half by default.
    if "prior" in accepted and (combiner_class is EvidenceAccumulation or options.get("prior") is not None):
        prior_option = options.get("prior", "forest")
        options["prior"] = prior if isinstance(prior_option, str) and prior_option == "forest" else prior_option
    if missing := _missing(parameters, options):
        raise ValueError(f"combiner {name!r} needs the option {', '.join(map(repr, missing))}.")
    return combiner_class(**options)


def _one_vs_rest(options: dict[str, Any], prior: np.ndarray, n_samples) -> OneVsRest:
    """Return the `OneVsRest` that the ``options`` of `combiner_by_name` describe; pop "rule" and "priors" from them.

    ``prior`` is the forest's prior ``[classes]``, and ``n_samples`` is as for `combiner_by_name`.
    """
    rule_name = options.pop("rule", "dempster")
    priors = options.pop("priors", "even")

    def binary_rule(class_prior: float) -> Combiner:
        """Return the combiner of a class with this prior against all others."""
        pair = [1 - class_prior, class_prior]
        return combiner_by_name(rule_name, options, prior=pair, n_samples=n_samples)

    if isinstance(priors, str):
        check_one_of("priors", priors, ("even", "forest"))
        if priors == "even":  # a single combiner serves all classes
            return OneVsRest(binary_rule(1 / len(prior)))
        priors = prior
    priors = np.asarray(priors, float)
    check_probability_vector(priors, len(prior), "priors")
    return OneVsRest([binary_rule(class_prior) for class_prior in priors.tolist()])


def _missing(parameters: Mapping[str, inspect.Parameter], options: Mapping[str, Any]) -> list[str]:
    """Return the names of those ``parameters`` that have no default and are not among ``options``."""
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    return [name for name in required if name not in options]


def _scorer(name: str, settings: Mapping[str, Any], prior, n_samples) -> Callable:
    """Return the scorer ``name`` as a `Partial` with its ``settings``, or raise a ValueError if they do not fit.

    A setting that is the word "forest" becomes ``prior``, and the scorer `ucb` gets ``n_samples``, too.
    """
    scorer = SCORERS[check_name("scorer", name, SCORERS)]
    parameters = dict(inspect.signature(scorer).parameters)
    parameters.pop("counts", None)
    if unknown := sorted(set(settings) - set(parameters)):
        raise ValueError(
            f"scorer {name!r} has no setting {', '.join(map(repr, unknown))}; it has {sorted(parameters)}."
        )
    if scorer is ucb:
        settings = {"n_samples": n_samples, **settings}
    settings = {
        key: prior if isinstance(value, str) and value == "forest" else value for key, value in settings.items()
    }
    if missing := _missing(parameters, settings):
        raise ValueError(f"scorer {name!r} needs scorer_options with {', '.join(map(repr, missing))}.")
    return Partial(scorer, **settings)


def check_name(argument: str, name, names: Iterable[str]) -> str:
    """Return ``name`` if it is one of ``names``; else raise a ValueError that suggests the nearest and lists all."""
    names = list(names)
    if isinstance(name, str) and name in names:
        return name
    raise ValueError(f"{argument}={name!r} is unknown.{suggest(name, names)} Known are {', '.join(names)}.")
