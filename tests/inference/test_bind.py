"""The way of one prediction, as CONTRIBUTING tells it."""

import re
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._rooms import ROOT

pytestmark = pytest.mark.once


def calls_of(function) -> list[tuple[str, str]]:
    """Files and functions of the package in the order in which they are called, in this thread."""
    called = {}

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(package):
            called[path.removeprefix(package), frame.f_code.co_qualname] = None

    package, before = f"{ROOT / 'jaxunc'}/", sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return list(called)


def test_the_way_of_one_prediction_is_as_listed(rng):
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## The way of one prediction")[2].partition("\n## ")[0]
    listed, file = [], ""
    for name in re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\d+\. .*", section, re.M))):
        if name.endswith(".py"):
            file = name
        else:
            listed.append((file, name))
    # Of shapes that no other test has: its programs are traced here.
    X = rng.normal(size=(100, 37)).astype(np.float32)
    model = RandomForestClassifier(11, random_state=0).fit(X, np.arange(100) % 7)
    bound = ju.bind(ju.from_sklearn(model), ju.Mean(), threads=1)
    called = [call for call in calls_of(lambda: bound.probability(X)) if call in listed]
    assert called == listed
    assert len(listed) > 10
