"""A model that is replaced while its path stays is read anew, in the same second and with the same size, too."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.streaming import BatchPredictor, _batch_predictor

pytestmark = pytest.mark.once


def test_a_replaced_model(frame, model, tmp_path):
    path, answers = tmp_path / "model.safetensors", []
    y = model.predict(frame)
    scorer = None
    for labels in (y, np.where(y == "no", "yes", "no")):
        grown = type(model)(3, random_state=0).fit(frame, labels)
        before = path.stat().st_mtime_ns if path.exists() else None
        ju.save(path, grown)
        if before is not None:
            os.utime(path, ns=(before, before))
        scorer = scorer or BatchPredictor(path, outputs=["class"])
        found = scorer(frame[:50])["class"]
        assert list(found) == list(grown.predict(frame[:50]))
        answers.append(list(found))
    assert answers[0] != answers[1]


def test_a_model_whose_file_is_gone_goes_on(frame, model, tmp_path):
    path = tmp_path / "model.safetensors"
    ju.save(path, model)
    loaded, unloaded = BatchPredictor(path, outputs=["class"]), BatchPredictor(path, outputs=["set"])
    before = loaded(frame[:5])
    path.unlink()
    assert loaded(frame[:5]).equals(before)
    with pytest.raises(FileNotFoundError, match="does not exist any more"):
        unloaded(frame[:5])
    ju.save(path, model)
    assert len(unloaded(frame[:5])) == 5


def test_a_model_that_is_replaced_under_threads(saved, monkeypatch):
    """While one thread loads, others neither fail nor load it too: each gets a scorer of the new file."""
    state, begun, loads = [0], threading.Event(), []

    def load(*_: Any, **__: Any) -> int:
        begun.set()
        time.sleep(0.02)
        loads.append(state[0])
        return state[0]

    monkeypatch.setattr(_batch_predictor, "state_of", lambda _: (state[0],))
    monkeypatch.setattr(_batch_predictor, "Scoring", load)
    asked = (str(saved), None, 1.0, 0.5, ())
    with ThreadPoolExecutor(8) as threads:
        for state[0] in range(3):
            begun.clear()
            first = threads.submit(_batch_predictor._loaded, *asked)
            assert begun.wait(10)
            others = [threads.submit(_batch_predictor._loaded, *asked) for _ in range(7)]
            assert [one.result() for one in (first, *others)] == [state[0]] * 8
    assert loads == [0, 1, 2]


def test_a_model_that_stays_is_read_once(frame, saved, monkeypatch):
    scorer = BatchPredictor(saved, outputs=["class"], confidence=0.95)
    scorer(frame[:5])
    monkeypatch.setattr(_batch_predictor, "Scoring", None)
    assert len(scorer(frame[:5])) == 5
