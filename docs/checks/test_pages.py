"""What a visitor sees of the built pages: the front page, code that fits, names that lead on, alt text, the search."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
GUIDES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.stem != "changelog"]
COLUMNS = 84
LEAST_NAMES = 300


class Text(HTMLParser):
    """Code spans within links and without, pictures, and the text that is no code."""

    def __init__(self, page: Path):
        super().__init__()
        self.within: list[str] = []
        self.linked, self.pictures, self.text = [], [], ""
        self.feed(page.read_text(encoding="utf-8").partition('class="bd-article"')[2].partition("</article>")[0])

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.pictures.append(dict(attrs))
        elif tag not in ("br", "hr", "input", "meta", "link"):
            self.within.append(tag)

    def handle_endtag(self, tag):
        if tag in self.within:
            while self.within.pop() != tag:
                pass

    def handle_data(self, data):
        if "code" in self.within and "a" in self.within:
            self.linked.append(data)
        elif not {"code", "pre", "math", "script", "style"} & {*self.within}:
            self.text += data


@pytest.fixture(scope="module")
def pages():
    """The pages that are made of files of the repository, and the reference."""
    found = [*(SITE / "docs").rglob("*.html"), *(SITE / "notebooks").glob("*.html")]
    assert len(found) > 50, f"there is no site in {SITE}: run docs/build.py first"
    return {path.relative_to(SITE).as_posix(): Text(path) for path in found}


def test_the_front_page_says_what_one_gains():
    text = (SITE / "docs" / "index.html").read_text(encoding="utf-8")
    title, described = (
        re.search(r"<title>(.*?)</title>", text)[1],
        re.search(r'name="description" content="(.*?)"', text),
    )
    assert "better probabilities" in title
    assert len(described[1]) > 50
    first = text.partition('id="what-there-is"')[0]
    for said in ("pip install", "CombinedForestClassifier", ".107 → .057", "gain.svg"):
        assert said in re.sub("</?span[^>]*>", "", first), said
    assert (SITE / re.search(r'rel="icon" href="\.\./(.*?)[?"]', text)[1]).is_file()


def test_each_page_has_its_description():
    bare = [path for path in (SITE / "docs").glob("*.html") if 'name="description"' not in path.read_text("utf-8")]
    assert not bare


def test_code_fits():
    wide = {}
    for page in GUIDES:
        blocks = re.findall(r"```(?:python|py|sh|text)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        wide[page.name] = [line for block in blocks for line in block.splitlines() if len(line) > COLUMNS]
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        wide[notebook.name] = [line for block in code for line in block.splitlines() if len(line) > COLUMNS]
    assert not {name: lines for name, lines in wide.items() if lines}


def test_cells_of_tables_hold_no_calls():
    for page in GUIDES:
        rows = re.findall(r"(?m)^\|.*$", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))
        spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
        assert not [span for span in spans if re.search(r"\w\(", span)], page.name


def test_names_in_guides_lead_to_the_reference(pages):
    guides = {name: page for name, page in pages.items() if "/reference/" not in name}
    linked = [span for page in guides.values() for span in page.linked]
    assert len(linked) > LEAST_NAMES
    assert {"ju.bind", "CombinedForestClassifier", "ju.save", "ju.shard", "Mean"} <= {*linked}


def test_numbers_do_not_break(pages):
    broken = {name: re.findall(r"(?<![\d.,])\d{1,3} \d{3}(?![\d.])", page.text)[:3] for name, page in pages.items()}
    assert not {name: found for name, found in broken.items() if found}


def test_pictures_say_what_is_seen(pages):
    silent = {
        name: [
            picture["src"] for picture in page.pictures if len(picture.get("alt") or "") < 20 or "/" in picture["alt"]
        ]
        for name, page in pages.items()
    }
    assert not {name: found for name, found in silent.items() if found}


def test_the_reference_begins_with_a_table_of_names(pages):
    assert pages["docs/reference.html"].linked.count("bind") + pages["docs/reference.html"].text.count("bind") >= 1
    text = (SITE / "docs" / "reference.html").read_text(encoding="utf-8")
    assert text.count('class="names') > 15
    room = (SITE / "docs" / "reference" / "combiners.html").read_text(encoding="utf-8")
    assert room.index('class="names') < room.index("autoclass") if "autoclass" in room else 'class="names' in room


def test_references_have_identifiers():
    entries = re.findall(r"(?m)^\* .*$", (ROOT / "docs" / "references.md").read_text(encoding="utf-8"))
    assert len(entries) > 10
    assert sum("doi.org" in entry or "arxiv.org" in entry for entry in entries) >= 8
