"""A model that is replaced while its path stays is read anew, in the same second and with the same size, too."""

import os

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


def test_a_model_that_stays_is_read_once(frame, saved, monkeypatch):
    scorer = BatchPredictor(saved, outputs=["class"], confidence=0.95)
    scorer(frame[:5])
    monkeypatch.setattr(_batch_predictor, "Scoring", None)
    assert len(scorer(frame[:5])) == 5
