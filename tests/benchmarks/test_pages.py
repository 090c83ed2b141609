"""Templates of pages: what their slots are asked, their parts, and lines that are broken anew."""

import pytest

from benchmarks.pages import fill, table, wrap
from tests._refusal import refuses

pytestmark = pytest.mark.once


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("# Of {n}\n\n{gain[a; b]:+.1f}, {gain[a; b].real}\n\n<!-- some more -->\n\nA {word}.\n")
    return path


def test_slots_and_parts(template):
    asked = []
    gain = lambda *words: asked.append(words) or 0.25
    assert fill(template, n=3, gain=gain) == "# Of 3\n\n+0.2, 0.25\n"
    assert asked == [("a", "b")] * 2
    assert fill(template, "some more", word="part") == "A part."


def test_slots_of_another_template_are_refused(template):
    assert fill(template, "some more", word="a", words="of another part") == "A a."
    refuses(ValueError, "some more: its slots and those that are made differ: {'word'}", fill, template, "some more")
    refuses(ValueError, "differ: {'a'}", fill, template, n=1, gain=str, a=2)


def test_a_table():
    assert table(["a", ""], [["1", "2"]]) == "| a |  |\n| --- | --- |\n| 1 | 2 |"


def test_lines_are_broken_anew():
    text = wrap("A paragraph\nof two lines.\n\n* a point " + "word " * 30 + "\n* p = 0.5\n\n\n| a  b |\n| c |\n")
    assert text.split("\n")[:2] == ["A paragraph of two lines.", ""]
    assert text.endswith("\n* p = 0.5\n\n| a  b |\n| c |\n")
    assert max(map(len, text.split("\n"))) <= 120
