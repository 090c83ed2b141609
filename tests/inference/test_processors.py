"""The same answers on processors of both brands, with vectors of 128 to 512 bits; only what compiles differs."""

import subprocess
import sys

import numpy as np
import pytest

import jaxunc as ju
from tests._forests import toy_data, toy_forest
from tests._rooms import ROOT

pytestmark = [pytest.mark.once, pytest.mark.room]
BRANDS = {"AuthenticAMD": ["probe_wide_vectors"], "GenuineIntel": []}
"""What the operating system calls the makers of processors, and what is compiled there besides."""

ANSWERS = """
import sys
import numpy as np
from jaxunc.inference import _drive

_drive._processor = lambda: "vendor_id : {brand}"
import jaxunc as ju
from tests._compilations import compilations
from tests._forests import toy_data, toy_forest

with compilations() as names:
    bound = ju.bind(toy_forest(2), ju.combiners.Together(vote=ju.Vote(), evidence=ju.EvidenceAccumulation(0.5)))
    answer = bound.answer(toy_data(2)[0])
np.savez({output!r}, **{{name: one.class_scores for name, one in answer.items()}})
print(*[name for name in names if "probe" in name])
"""


@pytest.mark.parametrize("brand", BRANDS)
@pytest.mark.parametrize("vectors", ["SSE4_2", "AVX2", "AVX512"])
@pytest.mark.exhaustive(keep=2)
def test_answers_on_every_processor(brand, vectors, tmp_path, monkeypatch):
    """XLA takes the narrower of what it may use and what the processor has."""
    monkeypatch.setenv("XLA_FLAGS", f"--xla_cpu_max_isa={vectors}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    output = str(tmp_path / "answers.npz")
    command = [sys.executable, "-c", ANSWERS.format(brand=brand, output=output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert [name.removeprefix("jit(").rstrip(")") for name in done.stdout.split()] == BRANDS[brand]
    answers = np.load(output)
    rules = ju.combiners.Together(vote=ju.Vote(), evidence=ju.EvidenceAccumulation(0.5))
    expected = ju.bind(toy_forest(2), rules).answer(toy_data(2)[0])
    np.testing.assert_array_equal(answers["vote"], expected["vote"].class_scores)
    np.testing.assert_allclose(answers["evidence"], expected["evidence"].class_scores, rtol=1e-6, atol=1e-6)
