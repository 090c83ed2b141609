"""Display of how large sets of classes are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._style import axes_of, plain


class SetSizeDisplay:
    """Share of instances by the size of their set, a bar for each s: single classes below, larger sets above.

    Parameters
    ----------
    strengths
        The values of s, increasing.
    shares
        ``[strengths sizes]``: of the sets for an s, the share that hold 1, 2, … classes.

    Attributes
    ----------
    ax_, figure_, bars_
        The drawn parts (after `plot`).

    Raises
    ------
    ValueError
        If there is no row of shares for each s, or a row does not add to 1.
    """

    def __init__(self, strengths: Sequence[float | int], shares: Any):
        self.strengths, self.shares = [float(s) for s in strengths], np.asarray(shares, float)
        if self.shares.ndim != 2 or len(self.shares) != len(self.strengths):
            raise ValueError(
                f"shares has shape {self.shares.shape}; expected [strengths sizes] with {len(self.strengths)} rows."
            )
        if not np.allclose(self.shares.sum(axis=1), 1, atol=1e-6):
            raise ValueError("shares has rows that do not add to 1; divide each row by the number of instances.")

    @classmethod
    def from_values(
        cls, strengths: Sequence[float | int], shares: Any, *, ax: Any = None, **kwargs: Any
    ) -> "SetSizeDisplay":
        """Make and plot a display from the share of each size, for each s."""
        return cls(strengths, shares).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, cmap: str = "cividis_r") -> "SetSizeDisplay":
        """Draw the bars, a larger set the darker; colours are evenly spaced in ``cmap``."""
        import matplotlib

        ax = axes_of(ax)
        places = np.arange(len(self.strengths))
        n_sizes = self.shares.shape[1]
        colours = matplotlib.colormaps[cmap](np.linspace(0.1, 0.95, n_sizes))
        floors = np.cumsum(self.shares, axis=1) - self.shares
        self.bars_ = [
            ax.bar(
                places,
                self.shares[:, k],
                bottom=floors[:, k],
                width=0.8,
                color=colours[k],
                edgecolor="white",
                linewidth=0.5,
                label=f"{k + 1}",
            )
            for k in range(n_sizes)
        ]
        plain(ax)
        ax.set_xticks(places, [f"{s:g}" for s in self.strengths])
        ax.set(xlabel="s", ylabel="share of instances", ylim=(0, 1))
        ax.legend(title="classes in the set", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return self
