"""Old names say what they are called now."""

import importlib

import pytest

import jaxunc as ju
from jaxunc._renamed import RENAMED
from tests._forests import toy_data
from tests._refusal import refuses


@pytest.mark.parametrize("old", RENAMED)
def test_the_new_name_is_said_and_is_there(old):
    new = RENAMED[old]
    room = new.rsplit(".", 1)[0] if new.count(".") > 1 else "jaxunc"
    room = {
        "jaxunc.Forest": "jaxunc.counting",
        "jaxunc.intervals": "jaxunc.metrics",
        "jaxunc.transduction": "jaxunc.random_trees",
    }.get(room, room)  # where it was
    room = old.rpartition(".")[0] or room
    with refuses(AttributeError, f"it is {new} now"):
        getattr(importlib.import_module(room), old.rpartition(".")[2])
    found = ju
    for part in new.split(".")[1:]:
        found = getattr(found, part)
    assert callable(found) or old == "FORM"


def test_what_was_never_there_is_simply_absent():
    with pytest.raises(AttributeError, match=r"no attribute 'Foldd'$"):
        _ = ju.Foldd


def test_the_old_value_of_a_setting():
    X, y = toy_data(2)
    with refuses(ValueError, "counts='calibration' is unknown. It is 'held_out' now."):
        ju.estimators.CombinedForestClassifier(counts="calibration").fit(X, y)
