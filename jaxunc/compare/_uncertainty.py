"""Aleatoric against epistemic uncertainty, and where the errors are."""

from typing import Any

import numpy as np

from jaxunc import metrics

from ._style import axes_of, plain


class UncertaintyDisplay:
    """Instances by their two uncertainties, in bins: a larger square holds more instances, a darker one more errors.

    Its cost does not depend on the number of instances.

    Parameters
    ----------
    counted
        The result of `jaxunc.metrics.uncertainty_map`.

    Attributes
    ----------
    ax_, figure_, squares_, colorbar_
        The drawn parts (after `plot`).
    """

    def __init__(self, counted: metrics.UncertaintyMap):
        self.counted = counted

    @classmethod
    def from_predictions(
        cls,
        aleatoric: Any,
        epistemic: Any,
        correct: Any,
        *,
        n_bins: int = 20,
        upper: Any = (1.0, 1.0),
        ax: Any = None,
        **kwargs: Any,
    ) -> "UncertaintyDisplay":
        """Make and plot a display from two uncertainties and a hit or miss for each instance.

        `jaxunc.UncertaintyDecomposition` tells both uncertainties.

        Parameters
        ----------
        aleatoric, epistemic, correct, n_bins, upper
            See `jaxunc.metrics.uncertainty_map`.
        ax
            Axes to draw on; default: those of a new figure.
        **kwargs
            As for `plot`.

        Returns
        -------
        UncertaintyDisplay
            The display, drawn.
        """
        counted = metrics.uncertainty_map(aleatoric, epistemic, correct, n_bins=n_bins, upper=upper)
        return cls(counted).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, cmap: Any = "cividis_r", colorbar: bool = True) -> "UncertaintyDisplay":
        """Draw the squares; ``cmap`` colours the share of errors from 0 to 1/2 and more."""
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle

        ax = axes_of(ax)
        size, errors, *edges = (np.asarray(part, float) for part in self.counted)
        steps = [e[1] - e[0] for e in edges]
        places = np.argwhere(size > 0)
        filled = size[size > 0]
        # The area shows the number of instances; a floor keeps single ones visible.
        sides = np.sqrt(np.maximum(filled / filled.max(initial=1), 0.02))
        squares = []
        for (i, j), side in zip(places, sides, strict=True):
            low = [edge[k] + step * (1 - side) / 2 for edge, step, k in zip(edges, steps, (i, j), strict=True)]
            squares.append(Rectangle((low[0], low[1]), steps[0] * side, steps[1] * side))
        self.squares_ = PatchCollection(squares, cmap=cmap, edgecolor="#444444", linewidth=0.3)
        self.squares_.set_array(errors[size > 0] / filled)
        self.squares_.set_clim(0, 0.5)
        plain(ax)
        ax.add_collection(self.squares_)
        self.colorbar_ = ax.figure.colorbar(self.squares_, ax=ax, extend="max") if colorbar else None
        if self.colorbar_ is not None:
            self.colorbar_.set_label("share of errors")
        # All that is used, and half of the axis at least: squares stay squares.
        used = [max(edge[places[:, k].max(initial=0) + 1], edge[-1] / 2) for k, edge in enumerate(edges)]
        ax.set(xlabel="aleatoric uncertainty (bits)", ylabel="epistemic (bits)", xlim=(0, used[0]), ylim=(0, used[1]))
        self.ax_, self.figure_ = ax, ax.figure
        return self
