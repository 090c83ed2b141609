"""The page of the study of doubt: tables and verdicts made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("page.md")
EXPECTED = (
    ("answers", "learned p//1", "1 - p/in-bag/1"),
    ("answers", "learned p//1", "RF-ICE//1"),
    ("answers", "1 - p/in-bag/1", "epistemic/train/1"),
    ("answers", "1 - p/in-bag/1", "credal width/in-bag/1"),
    ("all columns", "epistemic/train/1", "1 - p/in-bag/1"),
    ("far out", "distance//", "epistemic/train/1"),
    ("far out", "distance//", "outside share//1"),
    ("a class", "epistemic/train/1", "1 - p/in-bag/1"),
    ("a class", "distance//", "epistemic/train/1"),
    ("uniform, 10%", "learned p of the label//1", "self-confidence//1"),
    ("by class, 10%", "learned p of the label//1", "self-confidence//1"),
    ("uniform, 10%", "self-confidence//1", "1 - p, no label//1"),
)
"""What the pilot had: the problem, the doubt that finds more, and the other. By average precision of labels."""


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    return ""
