"""What Costa, Verwer and Blockeel 2013 print: Tables 1 to 3."""

from typing import NamedTuple


class Printed(NamedTuple):
    """TPCE against a method: on how many of 48 sets it wins, ties and loses, and the p-value (``<`` if so printed)."""

    wins: int
    ties: int
    losses: int
    p: str


DUELS = {
    ("brier", "tree"): Printed(36, 0, 12, "< 0.0001"),
    ("brier", "bag"): Printed(21, 0, 27, "0.5686"),
    ("auc", "tree"): Printed(37, 3, 8, "< 0.0001"),
    ("auc", "bag"): Printed(29, 1, 18, "0.1706"),
    ("reliability", "tree"): Printed(39, 3, 6, "< 0.0001"),
    ("reliability", "bag"): Printed(33, 1, 14, "0.0208"),
    ("reliability", "kk"): Printed(33, 2, 13, "< 0.0001"),
}
"""{(measure, method): Clus-TPCE against it}: Tables 1, 2, 3."""
AVERAGES = {
    "brier": {"tpce": 0.087, "tree": 0.109, "bag": 0.096},
    "auc": {"tpce": 0.868, "tree": 0.814, "bag": 0.849},
    "reliability": {"tpce": 0.7969, "tree": 0.6498, "bag": 0.7681, "kk": 0.6836},
}
"""{measure: {method: the average over the sets}}."""
