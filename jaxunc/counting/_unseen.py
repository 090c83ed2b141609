"""Whether rows of every class are out of bag often enough to speak for it, and as often as those of the others."""

import math

import numpy as np

FEWEST = 5
"""Number of trees without a row, in the mean over the rows of a class, below which they say too little of it."""
MOST = 2000
"""Number of trees up to which more are advised."""
UNEQUAL = 0.8
"""Share of the trees without a row of the class that is out of bag most often, below which classes differ."""


class TooFewUnseenError(ValueError):
    """Rows of some class are in nearly every bag."""


def shares_of_classes(mask: np.ndarray, position: np.ndarray, n_classes: int) -> np.ndarray:
    """Return how often rows of each class are out of bag, ``[classes]``; NaN for classes without rows."""
    numbers = np.bincount(position, minlength=n_classes)
    return np.bincount(position, mask.mean(axis=1), n_classes) / np.where(numbers > 0, numbers, np.nan)


def check_unseen(mask: np.ndarray, alone: np.ndarray, position: np.ndarray, labels: tuple) -> None:
    """Raise a ValueError if rows of some class are in nearly every bag, and rows as such are not.

    ``alone`` is the mask of rows that are not kept together with others of their group.
    """
    shares, n_trees = shares_of_classes(mask, position, len(labels)), mask.shape[1]
    own_shares = shares_of_classes(alone, position, len(labels))
    usual = max(np.nanmax(own_shares), np.nanmax(shares))
    numbers = np.bincount(position, minlength=len(labels))
    # Beyond chance, which is large for few rows and few trees: five standard deviations of a class's share.
    least = usual / 2 - 5 * np.sqrt(usual * (1 - usual) / np.maximum(numbers * n_trees, 1))
    few = [c for c, share in enumerate(shares) if share < least[c] and share * n_trees < FEWEST]
    if not few:
        return
    never, own = ~mask.any(axis=1), position == few[0]
    by_weight = _BY_WEIGHT if own_shares[few[0]] < UNEQUAL * usual else ""
    together = _TOGETHER if shares[few[0]] < own_shares[few[0]] else ""
    raise TooFewUnseenError(
        f"rows of class {labels[few[0]]!r} are out of {shares[few[0]] * n_trees:.2g} of {n_trees} bags in the mean "
        f"({np.sum(never & own)} of {np.sum(own)} of none), where {usual * n_trees:.2g} are usual: too few to say how "
        f"its rows are answered by trees that have not seen them.{by_weight}{together} "
        f"{_more_trees(shares[few[0]])} Rows that were held out ('held_out') need no bags."
    )


_BY_WEIGHT = (
    " Bags are drawn by weight (class_weight='balanced' or sample_weight, since scikit-learn 1.9): take "
    "class_weight='balanced_subsample', which draws all rows alike, or no weights."
)
_TOGETHER = (
    " Rows of one group are out of bag only together, the more rarely the larger it is: those that groups= puts "
    "together, and without groups= rows that repeat others. Pass smaller groups, and each row once."
)


def _more_trees(share: float) -> str:
    """Return how many trees give rows enough of them without the row, with a margin for chance, where so many do."""
    needed = math.ceil(1.2 * FEWEST / share / 50) * 50 if share > 0 else math.inf
    return f"Or grow more trees: about {needed}." if needed <= MOST else "More trees would hardly help."


def as_many_trees(mask: np.ndarray, position: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the mask with fewer trees for rows of classes that are out of bag more often: as many as for the others.

    Where their number tells the class, rules learn to read it: the largest of many probabilities is larger.
    """
    shares = shares_of_classes(mask, position, n_classes)
    numbers = np.bincount(position, minlength=n_classes)
    # Beyond chance: five standard deviations of a class's share.
    chance = 5 * np.sqrt(shares * (1 - shares) / np.maximum(numbers * mask.shape[1], 1))
    least, most = np.nanargmin(shares), np.nanargmax(shares)
    if shares[least] + chance[least] >= UNEQUAL * shares[most]:
        return mask
    kept = shares[least] / shares
    return mask & (np.random.default_rng(0).random(mask.shape) < kept[position, None])


def of_classes(kept: np.ndarray, position: np.ndarray, labels: tuple) -> str:
    """Return how many rows of each class are not kept, in brackets; nothing if classes differ by chance alone."""
    sizes, lost = (np.bincount(which, minlength=len(labels)) for which in (position, position[~kept]))
    if lost.max() < 3 or np.all(lost <= 2 * sizes * lost.sum() / sizes.sum()):
        return ""
    return f" ({', '.join(f'{lost[c]} of {sizes[c]} of class {labels[c]!r}' for c in np.argsort(-lost)[:5])})"
