"""Display of how many trees settle the vote, over a plane of two features."""

from typing import Any

import numpy as np

from ._style import GREY, axes_of


class TreesNeededDisplay:
    """Map of the number of trees polled until the vote is settled, on a regular grid of two features.

    Parameters
    ----------
    horizontal, vertical
        The values of the two features, evenly spaced and increasing.
    values
        ``[vertical horizontal]``: trees polled, or their mean; NaN where no vote was settled.
    measure
        Name of what the colours show.

    Attributes
    ----------
    ax_, figure_, image_, colorbar_
        The drawn parts (after `plot`).

    Raises
    ------
    ValueError
        If the values are not one for each pair, or a feature has fewer than two.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011, figure 4.
    """

    def __init__(self, horizontal: Any, vertical: Any, values: Any, *, measure: str = "trees polled"):
        self.horizontal, self.vertical = np.asarray(horizontal, float), np.asarray(vertical, float)
        self.values, self.measure = np.asarray(values, float), measure
        expected = (len(self.vertical), len(self.horizontal))
        if self.values.shape != expected or min(expected) < 2:
            raise ValueError(
                f"values has shape {self.values.shape}; expected [vertical horizontal] = {expected}, with two or more "
                "of each."
            )

    @classmethod
    def from_values(
        cls,
        horizontal: Any,
        vertical: Any,
        values: Any,
        *,
        measure: str = "trees polled",
        ax: Any = None,
        **kwargs: Any,
    ) -> "TreesNeededDisplay":
        """Make and plot a map from the two axes of the grid and a value for each of its points."""
        return cls(horizontal, vertical, values, measure=measure).plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, cmap: str = "cividis_r", logarithmic: bool = True, colorbar: bool = True
    ) -> "TreesNeededDisplay":
        """Draw the map, more trees the darker; grey where there is no value. ``logarithmic`` is about the colours."""
        import matplotlib
        from matplotlib.colors import LogNorm, Normalize

        ax = axes_of(ax)
        steps = [axis[1] - axis[0] for axis in (self.horizontal, self.vertical)]
        sides = [
            end + sign * step / 2
            for axis, step in zip((self.horizontal, self.vertical), steps, strict=True)
            for end, sign in ((axis[0], -1), (axis[-1], 1))
        ]
        colours = matplotlib.colormaps[cmap].with_extremes(bad=GREY)
        self.image_ = ax.imshow(
            np.ma.masked_invalid(self.values),
            origin="lower",
            extent=tuple(sides),
            cmap=colours,
            norm=LogNorm() if logarithmic else Normalize(),
            interpolation="nearest",
            aspect="auto",
        )
        self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax) if colorbar else None
        if self.colorbar_ is not None:
            self.colorbar_.set_label(self.measure)
        self.ax_, self.figure_ = ax, ax.figure
        return self
