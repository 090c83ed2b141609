"""Several combiners at once, each of which reads the counts that it asks for."""

from collections.abc import Mapping
from typing import Any, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Num

from jaxunc._types import PyTree

from ._combiner import Combiner, check_is_combiner

EachT = TypeVar("EachT")
"""The type of the answer of each of several combiners."""


class Together(Combiner[dict[str, EachT]]):
    """Several combiners at once: their planes side by side, each with its own merge.

    ``Together(mean=Mean(), eva=EvidenceAccumulation(prior))`` answers with a dictionary of their answers.
    Raises a ValueError without combiners, a TypeError for anything that is not a `Combiner`.

    Parameters
    ----------
    **rules
        Combiners by the name that each answers under.
    """

    rules: dict[str, Combiner[EachT]]

    def __init__(self, **rules: Combiner[EachT]):
        if not rules:
            raise ValueError("Together needs at least one combiner, by name: Together(mean=Mean()).")
        for name, part in rules.items():
            if not isinstance(part, Combiner):
                raise TypeError(f"{name}={part!r} is no Combiner; pass some such as Mean().")
        self.rules = rules

    @property
    def merge(self) -> PyTree:
        """The merges of the combiners, by name."""
        return {name: part.merge for name, part in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
        """Lift every combiner, each from the counts that it reads."""
        return lift_each(self, counts)

    def finish(self, stat: PyTree) -> dict[str, EachT]:
        """Return the answer of every combiner, by its name."""
        return {name: part.finish(stat[name]) for name, part in self.rules.items()}


def as_combiner(value: Any, name: str = "combiner") -> Combiner:
    """Return a combiner as it is, several by name `Together`; raises as `check_is_combiner` does."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(
                    f"{name} has the key {key!r:.60}; name combiners by strings: {{'mean': jaxunc.Mean()}}."
                )
            check_is_combiner(part, f"{name}[{key!r}]")
        return Together(**value)
    check_is_combiner(value, name)
    return value


def lift_each(several: Any, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
    """Lift each combiner of ``rules`` from the counts that it reads."""
    read = several.count_sets
    return {name: part.lift(columns_of(counts, read, part.count_sets)) for name, part in several.rules.items()}


def columns_of(
    counts: Num[Array, "... columns"], names: tuple[str, ...], wanted: tuple[str, ...]
) -> Num[Array, "... asked_columns"]:
    """Return the asked columns of counts that stand side by side in the order of the given names."""
    if names == wanted:
        return counts
    n_classes = counts.shape[-1] // len(names)
    starts = [n_classes * names.index(name) for name in wanted]
    parts = [counts[..., start : start + n_classes] for start in starts]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)
