"""The parts, in the order in which they are measured, and the seconds that each may take."""

from collections.abc import Callable
from typing import NamedTuple

from .algorithms import growing, learning
from .answers import correctness
from .nvforest import nvforest
from .routing import calls, host_routing, routing
from .rules import reports, rules, votes
from .timing import Cases


class Part(NamedTuple):
    """A part of the measurement."""

    cases: Callable[[bool], Cases]
    """quick or not → what is measured, one after the other."""
    seconds: float
    """No further case begins after these."""
    backend: str | None = None
    """The only backend of its process; None: all that there are."""


PARTS = {
    "correctness": Part(correctness, 130),
    "routing": Part(routing, 110),
    "calls": Part(calls, 40),
    "rules": Part(rules, 50),
    "votes": Part(votes, 60),
    "reports": Part(reports, 20),
    "growing": Part(growing, 30),
    "learning": Part(learning, 30),
    "nvforest": Part(nvforest, 25),
    "routing on the host": Part(host_routing, 20, "cpu"),
}
