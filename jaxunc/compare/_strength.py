"""Display of what caution costs and brings, over the strength s of the imprecise Dirichlet model."""

from collections.abc import Mapping, Sequence
from typing import Any

from ._style import axes_of, lines_for, plain


class StrengthDisplay:
    """A measure of sets of classes (their utility, determinacy, accuracy where single) of each rule against s.

    Parameters
    ----------
    strengths
        The values of s, increasing.
    values
        {rule: a value for each s}.
    measure
        Name of the values on the axis.
    reference
        {name: the value} of what does not depend on s, such as a forest that always names one class: dotted lines.

    Attributes
    ----------
    ax_, figure_, lines_, references_
        The drawn parts (after `plot`).

    Raises
    ------
    ValueError
        If a rule does not have a value for each s.
    """

    def __init__(
        self,
        strengths: Sequence[float | int],
        values: Mapping[str, Sequence[float]],
        *,
        measure: str,
        reference: Mapping[str, float] | None = None,
    ):
        self.strengths = [float(s) for s in strengths]
        self.values = {name: [float(v) for v in line] for name, line in values.items()}
        self.measure, self.reference = measure, dict(reference or {})
        for name, line in self.values.items():
            if len(line) != len(self.strengths):
                raise ValueError(f"{name} has {len(line)} values; expected one for each of {len(self.strengths)} s.")

    @classmethod
    def from_values(
        cls,
        strengths: Sequence[float | int],
        values: Mapping[str, Sequence[float]],
        *,
        measure: str,
        reference: Mapping[str, float] | None = None,
        ax: Any = None,
    ) -> "StrengthDisplay":
        """Make and plot a display from a value for each rule and s."""
        return cls(strengths, values, measure=measure, reference=reference).plot(ax)

    def plot(self, ax: Any = None) -> "StrengthDisplay":
        """Draw a line for each rule, at equal steps: s matters by its ratio."""
        ax = axes_of(ax)
        places = list(range(len(self.strengths)))
        self.lines_, self.references_ = {}, {}
        for name, value in self.reference.items():
            self.references_[name] = ax.axhline(value, color="#777777", linestyle=":", linewidth=1.2, label=name)
        for name, look in lines_for(list(self.values)).items():
            (self.lines_[name],) = ax.plot(
                places, self.values[name], label=name, linewidth=1.6, zorder=3, **look.keywords()
            )
        plain(ax)
        ax.set_xticks(places, [f"{s:g}" for s in self.strengths])
        ax.set(xlabel="s", ylabel=self.measure)
        self.ax_, self.figure_ = ax, ax.figure
        return self
