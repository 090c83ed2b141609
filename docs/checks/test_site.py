"""What must hold of the site that `docs/build.py` has built: nothing from elsewhere, no dead link, no name missing."""

import importlib
import inspect
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import jaxunc
from tests._rooms import ROOMS

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = sorted(SITE.rglob("*.html"))
NAMES = [
    *(f"jaxunc.{name}" for name in jaxunc.__all__ if not inspect.ismodule(getattr(jaxunc, name))),
    *(f"jaxunc.{room}.{name}" for room in ROOMS for name in importlib.import_module(f"jaxunc.{room}").__all__),
]


class Elements(HTMLParser):
    """All elements and their attributes, and what may be jumped to."""

    def __init__(self, page: Path):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.read_text(encoding="utf-8"))
        self.anchors = {value for _, given in self.found for name, value in given.items() if name in ("id", "name")}

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def elements():
    """The elements of every page."""
    assert len(PAGES) > 60, f"there is no site in {SITE}: run docs/build.py first"
    return {page: Elements(page) for page in PAGES}


def test_nothing_is_loaded_from_elsewhere(elements):
    for page, parsed in elements.items():
        for tag, given in parsed.found:
            loaded = [given.get("src"), given.get("srcset"), given.get("poster"), given.get("data")]
            loaded.append(given.get("href") if tag == "link" and given.get("rel") != "canonical" else None)
            for address in filter(None, loaded):
                if not address.startswith("data:"):
                    assert not urlsplit(address).netloc, f"{page.name} loads {address}"
                    assert not urlsplit(address).scheme, f"{page.name} loads {address}"


def test_no_style_or_script_names_another_place():
    for style in SITE.rglob("*.css"):
        for address in re.findall(r"""(?:url\(|@import\s+)['"]?([^'")\s;]+)""", style.read_text(encoding="utf-8")):
            assert not urlsplit(address).netloc, f"{style.name} loads {address}"
    for page in PAGES:
        for script in re.findall(r"<script[^>]*>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL):
            assert "://" not in script, f"{page.name}: {script[:80]}"


def test_links_inside_lead_somewhere(elements):
    dead = []
    for page, parsed in elements.items():
        for tag, given in parsed.found:
            link = urlsplit(given.get("href") or "")
            if tag != "a" or link.scheme or link.netloc or not (link.path or link.fragment):
                continue
            target = (page.parent / unquote(link.path)).resolve() if link.path else page
            place = unquote(link.fragment) if target.suffix == ".html" else ""
            if not target.is_file() or (place and place not in elements[target].anchors):
                dead.append((page.name, given["href"]))
    assert not dead


def test_the_reference_has_every_public_name(elements):
    anchors = set().union(*(p.anchors for page, p in elements.items() if page.parent.name == "reference"))
    assert not [name for name in NAMES if name not in anchors]


def test_the_search_knows_every_public_name():
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    objects = json.loads(index.removeprefix("Search.setIndex(").rstrip(";\n").removesuffix(")"))["objects"]
    known = {f"{prefix}.{entry[-1]}" for prefix, entries in objects.items() for entry in entries}
    assert not [name for name in NAMES if name not in known]


def test_formulas_are_drawn(elements):
    pages = [SITE / "docs" / "reference" / f"{room}.html" for room in ("scorers", "combiners", "smoothing")]
    assert all(any(tag == "math" for tag, _ in elements[page].found) for page in pages)
    raw = r"<m[ion][^>]*>\\[a-zA-Z]"  # a command that the converter did not know
    assert not [page.name for page in PAGES if re.search(raw, page.read_text(encoding="utf-8"))]


def test_figures_stand_beside_their_code(elements):
    page = elements[SITE / "docs" / "how_to" / "figures.html"]
    drawn = [given for tag, given in page.found if tag == "img" and "code draws" in (given.get("alt") or "")]
    displays = [name for name in importlib.import_module("jaxunc.compare").__all__ if name.endswith("Display")]
    assert len(drawn) == len(displays)
    text = (ROOT / "docs" / "how_to" / "figures.md").read_text(encoding="utf-8")
    assert not [name for name in displays if name not in text]


def test_tutorials_have_pictures(elements):
    """Of each notebook that is kept with one."""
    shown = {given.get("src") for tag, given in elements[SITE / "docs" / "tutorials.html"].found if tag == "img"}
    drawn = [path for path in (ROOT / "notebooks").glob("*.ipynb") if '"image/png"' in path.read_text(encoding="utf-8")]
    assert {Path(src).stem for src in shown if src} >= {path.stem for path in drawn}
    assert sum(path.stat().st_size for path in SITE.rglob("*.png") if path.stem in {p.stem for p in drawn}) < 400_000
    assert any("gallery" in (given.get("class") or "") for _, given in elements[SITE / "docs" / "tutorials.html"].found)
