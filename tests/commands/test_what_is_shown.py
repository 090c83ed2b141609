"""Names of the data reach terminals of any encoding, and nothing in them acts there or on the page."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from jaxunc._checks import escape_invisible
from jaxunc.commands import printed

from ._lines import answers, refusal, run

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:every leaf of this forest")]
ACTING = "\x1b[31mred\x1b[0m\u202e\x9b"


def table(path, one, other, **columns):
    x = np.random.default_rng(0).normal(size=60)
    pd.DataFrame({"a": x, "b": x[::-1], **columns, "kind": np.where(x > 0, one, other)}).to_csv(path, index=False)


def fit(folder):
    run("fit", folder / "t.csv", "--target", "kind", "--trees", 2, "--leaf-size", 3, "--output", folder / "m")


@pytest.mark.room
def test_what_acts_is_escaped(tmp_path, capsys):
    assert escape_invisible("Łódź\t👩‍👧\n") == "Łódź\t👩‍👧\n"
    assert escape_invisible(ACTING + "\r") == r"\x1b[31mred\x1b[0m\u202e\x9b\r"
    table(tmp_path / "t.csv", f"one{ACTING}", "other", **{f"c{ACTING}": 1.0})
    fit(tmp_path)
    run("inspect", tmp_path / "m")
    settings = ["--trees", 2, "--folds", 2, "--repeats", 1, "--leaf-sizes", 4, "--forests", "extra-trees"]
    report = ["--report", tmp_path / "r", "--combiners", "probability", "vote", "--quiet"]
    run("compare", tmp_path / "t.csv", "--target", "kind", *settings, *report)
    printed = capsys.readouterr()
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    for text in (printed.out, printed.err, page):
        assert not set(text) & set("\x1b\x9b\u202e\r")
    assert r"one\x1b[31mred" in printed.out


@pytest.mark.exhaustive
def test_a_terminal_of_few_letters(tmp_path):
    table(tmp_path / "Ł.csv", "Łódź", "Ź")
    words = ["fit", "Ł.csv", "--target", "kind", "--trees", "2", "--leaf-size", "20", "--output", "Ł"]
    own = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run([sys.executable, "-m", "jaxunc", *words], cwd=tmp_path, capture_output=True, env=own)
    assert done.returncode == 0, done.stderr
    assert rb"classes \u0141\xf3d\u017a, \u0179" in done.stdout


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", None])
def test_letters_that_an_output_lacks(encoding, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", SimpleNamespace(encoding=encoding))
        shown = printed("Łódź"), printed("ódz")
    assert shown == (r"\u0141\xf3d\u017a" if encoding == "cp1252" else "Łódź", "ódz")


def test_classes_beyond_signed_integers(tmp_path):
    table(tmp_path / "t.csv", str(2**64 - 1), str(2**64 - 2))
    fit(tmp_path)
    found = answers(tmp_path / "m", tmp_path / "t.csv", tmp_path / "o", "--quiet")
    assert set(found["class"].tolist()) == {2**64 - 1, 2**64 - 2}


def test_classes_that_floats_merge(tmp_path, capsys):
    table(tmp_path / "t.csv", str(2**70), str(2**70 + 1))
    fit = ["fit", tmp_path / "t.csv", "--target", "kind", "--output", tmp_path / "m"]
    assert "beyond 2^53" in refusal(capsys, *fit)
