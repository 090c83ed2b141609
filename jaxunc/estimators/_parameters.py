"""Checks of parameters that several classifiers have: by ``fit``, and when a file is written or read."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils.validation import _check_sample_weight

from jaxunc._checks import as_weights, refuse_masked
from jaxunc.combiners import COMBINERS, CONFIGURED, Answer, Combiner, check_name, kind_of


def check_rule(combiner: Any, options: Any = None, *, further: Iterable[str] = ()) -> None:
    """Raise a TypeError or a ValueError unless it may be a rule and its options: None, a rule, or a name."""
    if isinstance(combiner, str):
        check_name("combiner", combiner, (*further, *COMBINERS, *CONFIGURED))
    elif not isinstance(combiner, Combiner | None):
        raise TypeError(f"combiner={combiner!r:.60} is a {type(combiner).__name__}; pass a rule, its name, or None.")
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(name, str) for name in options)):
        raise TypeError(
            f"combiner_options={options!r:.60} must be options of the rule by name, such as {{'smoothing': 0.5}}."
        )


BIND_IT = "bind it to forest_ instead: jaxunc.bind(model.forest_, rule)."


def check_class_scores(rule: Combiner, n_trees: int, n_classes: int, advice: str = BIND_IT) -> Answer:
    """The shapes that the rule answers one instance with; a TypeError unless it answers with class scores."""
    answer = jax.eval_shape(rule.answer, jax.ShapeDtypeStruct((1, n_trees, n_classes), jnp.result_type(float)))
    if not isinstance(answer, Answer):
        raise TypeError(
            f"combiner {type(rule).__name__} answers with {kind_of(answer)}, not with class scores; {advice}"
        )
    return answer


def check_nominal(nominal: Any) -> None:
    """Raise a TypeError unless it may say which columns are nominal; `fit_columns` compares it with the data."""
    if nominal is None or isinstance(nominal, str):
        return
    plain = isinstance(nominal, list | tuple) or hasattr(nominal, "dtype")
    if not plain or any(not isinstance(part, str | bool | int | np.bool_ | np.integer) for part in nominal):
        raise TypeError(f"nominal={nominal!r:.60} must be 'auto', None, or names, positions or booleans of columns.")


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """A number ≥ 0 for each instance; None stays None, as weights of one are. Raises a ValueError for others."""
    if sample_weight is None:
        return None
    refuse_masked("sample_weight", sample_weight)  # first, since scikit-learn takes what lies under a mask
    weights = _check_sample_weight(sample_weight, X)
    as_weights(weights, len(weights))
    return None if np.all(weights == 1) else weights
