"""What `explain` returns, as numbers, bars and columns of files."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import check_integer


def axes_of(ax: Any, **figure: Any) -> Any:
    """Return the axes to draw on: those given, pyplot's current ones if they are empty, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt  # chooses how to show, only now

    if plt.get_fignums() and not plt.gca().has_data():
        return plt.gca()
    return plt.subplots(layout="constrained", **figure)[1]


class Attributions(NamedTuple):
    """Shares of each column in a sum: ``values.sum(1) + base`` is what is explained, for each instance."""

    values: Float[Array, "instances features stat"]
    base: Float[Array, "stat"] | Float[Array, "instances stat"]
    """What is expected of an instance of which nothing is known; of each one where trees are masked."""
    of: str
    """What is explained: "probability", "class scores", "pooled counts", "uncertainty", …"""
    names: tuple[Any, ...]
    """What each number of ``stat`` is about: class labels, or kinds of uncertainty."""
    features: tuple[str, ...]
    """The names of the columns."""

    def plot(self, instance: int = 0, stat: int = -1, *, most: int = 10, ax: Any = None) -> Any:
        """Draw one instance's shares as bars, the largest on top, and return the axes; needs matplotlib.

        Parameters
        ----------
        instance
            Which instance.
        stat
            Which number of ``names``; default the last.
        most
            Bars at most; the other columns are one together.
        ax
            Axes of matplotlib; default pyplot's current ones if nothing is drawn on them, else those of a new figure.
        """
        shares, base = self._one(instance, stat)
        check_integer("most", most, 1)
        order = np.argsort(-np.abs(shares), kind="stable")
        names, sizes = [self.features[i] for i in order[:most]], shares[order[:most]]
        if len(order) > most:
            names, sizes = [*names, f"{len(order) - most} others"], np.append(sizes, shares[order[most:]].sum())
        ax = axes_of(ax, figsize=(6, 0.6 + 0.3 * len(names)))
        ax.barh(range(len(names)), sizes, color=np.where(sizes < 0, "tab:blue", "tab:red"))
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_xlabel(f"{self.of}, {self.names[stat]}: {base + shares.sum():.3g}, of which {base:.3g} for all")
        return ax

    def for_shap(self, stat: int = -1, data: Any = None) -> Any:
        """Return one number's shares as ``shap.Explanation``, for the plots of shap; needs shap.

        Parameters
        ----------
        stat
            Which number of ``names``; default the last.
        data
            The instances, whose values colour the plots.
        """
        import shap  # pyright: ignore[reportMissingImports]

        values = np.asarray(self.values)
        base = np.broadcast_to(np.asarray(self.base)[..., stat], len(values))
        data = None if data is None else np.asarray(data)
        return shap.Explanation(values[..., stat], base, data, feature_names=list(self.features))

    def columns(self) -> dict[str, np.ndarray]:
        """Return arrays ``[instances]`` by names of columns: what is expected of all, and the share of each column.

        Where ``of`` is ``"probability"`` and there are two classes, they are of the second one.
        """
        values, arrays = np.asarray(self.values), {}
        base = np.broadcast_to(np.asarray(self.base), (len(values), values.shape[2]))
        is_single = values.shape[2] == 1 or (values.shape[2] == 2 and self.of == "probability")
        for s, name in enumerate(self.names):
            if not is_single or s == len(self.names) - 1:
                start = "explanation" if is_single else f"explanation_{name}".replace(" ", "_")
                arrays[f"{start}_base"] = base[:, s]
                arrays |= {f"{start}_{feature}": values[:, i, s] for i, feature in enumerate(self.features)}
        return arrays

    def _one(self, instance: int, stat: int) -> tuple[np.ndarray, float]:
        """The shares of an instance, and what is expected of all."""
        check_integer("instance", instance)
        check_integer("stat", stat)
        n, _, n_stats = self.values.shape
        for name, place, size in (("instance", instance, n), ("stat", stat, n_stats)):
            if not -size <= place < size:
                raise IndexError(f"{name}={place} is none of {size}.")
        base = np.asarray(self.base)
        return np.asarray(self.values)[instance, :, stat], float((base if base.ndim == 1 else base[instance])[stat])
