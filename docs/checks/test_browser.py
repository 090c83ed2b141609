"""The built site in a browser: narrow and wide, dark and light, nothing wider than the window, cut or overlapping.

What is looked for among the boxes of a page stands in `boxes.js`. The search answers, too.
"""

import importlib
import re
import shutil
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api")

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = [page for page in sorted(SITE.rglob("*.html")) if 'class="bd-article"' in page.read_text(encoding="utf-8")]
DRAWINGS = [*sorted((SITE / "_images").glob("*.svg")), *sorted((SITE / "docs").rglob("*.svg"))]
BOXES = (Path(__file__).parent / "boxes.js").read_text(encoding="utf-8")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

WIDER = """() => {
  const edge = document.documentElement.clientWidth + 1, found = [];
  if (document.documentElement.scrollWidth > edge) found.push('page ' + document.documentElement.scrollWidth);
  const article = document.querySelector('.bd-article');
  const inner = Math.min(edge, article.getBoundingClientRect().right + 1);
  for (const element of article.querySelectorAll('*')) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.right <= inner) continue;
    let within = element.parentElement;  // what scrolls in its own place may be wider; the article may not
    while (within !== article && !['auto', 'scroll'].includes(getComputedStyle(within).overflowX)) {
      within = within.parentElement;
    }
    if (within === article) found.push(element.tagName + '.' + element.className + ' ' + Math.round(box.right));
  }
  return found.slice(0, 3);
}"""

CONTRAST = """() => {
  const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number); return (r + g + b) / 3; };
  return [light(getComputedStyle(document.body).backgroundColor),
          light(getComputedStyle(document.querySelector('.bd-article p')).color)];
}"""


@pytest.fixture(scope="module")
def browser():
    """A browser without a network."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window_cut_or_overlapping(browser, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page, found = context.new_page(), {}
    for path in PAGES:
        page.goto(path.as_uri(), wait_until="load")
        if wrong := page.evaluate(WIDER) + page.evaluate(BOXES):
            found[str(path.relative_to(SITE))] = wrong
    context.close()
    assert not found


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_cut_or_overlaps_in_the_dark(browser, width):
    """A page of each kind: the first of each folder."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark", offline=True)
    page, found = context.new_page(), {}
    for path in {path.parent: path for path in reversed(PAGES)}.values():
        page.goto(path.as_uri(), wait_until="load")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        if wrong := page.evaluate(WIDER) + page.evaluate(BOXES):
            found[str(path.relative_to(SITE))] = wrong
    context.close()
    assert not found


def test_labels_of_drawings_do_not_overlap(browser):
    page, found = browser.new_page(), {}
    assert len(DRAWINGS) > 20
    for path in DRAWINGS:
        page.set_content(shown_alone(path.read_text(encoding="utf-8")))
        if wrong := page.evaluate(BOXES):
            found[path.name] = wrong
    page.close()
    assert not found


def shown_alone(drawing: str) -> str:
    """A page of one drawing, whose labels are then elements of the page."""
    return "<!doctype html><body>" + drawing[drawing.index("<svg") :]


BROKEN = {
    "overlap: one | other": '<p style="margin: 0">one</p><p style="margin: -1em 0 0">other</p>',
    "overlap: left | right": '<svg width="99"><text x="5" y="20">left</text><text x="9" y="20">right</text></svg>',
    "cut by div.low: last": '<div class="low" style="height: 1em; overflow: hidden"><p>first</p><p>last</p></div>',
    "cut by div.slim: a-word": '<div class="slim" style="width: 1em; overflow: clip"><span>a-word</span></div>',
    "spills from p.: unbreakable": '<p style="width: 2em">unbreakable</p>',
}


@pytest.mark.parametrize(("wrong", "body"), BROKEN.items(), ids=[wrong.split(":")[0] for wrong in BROKEN])
def test_what_is_wrong_is_found(browser, wrong, body):
    """And the same page without its fault is not reproached."""
    page = browser.new_page()
    page.set_content(f"<!doctype html><body>{body}")
    assert wrong in page.evaluate(BOXES)
    page.set_content("<!doctype html><body>" + re.sub(r' style="[^"]*"', "", body).replace('x="9"', 'x="60"'))
    assert page.evaluate(BOXES) == []
    page.close()


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_stands_off_from_its_ground(browser, scheme):
    context = browser.new_context(color_scheme=scheme, offline=True)
    page = context.new_page()
    page.goto((SITE / "docs" / "start.html").as_uri())
    ground, text = page.evaluate(CONTRAST)
    context.close()
    assert (text - ground > 120) if scheme == "dark" else (ground - text > 120)


def test_the_search_finds_names(browser):
    """One of each room, as a reader types it."""
    rooms = [path.stem for path in sorted((SITE / "docs" / "reference").glob("*.html")) if path.stem != "root"]
    page = browser.new_page()
    for room in rooms:
        name = importlib.import_module(f"jaxunc.{room}").__all__[-1]
        page.goto((SITE / "search.html").as_uri() + f"?q={name}")
        page.get_by_text("Search finished").wait_for(timeout=20_000)  # results come one by one
        links = page.eval_on_selector_all("#search-results ul.search a", "all => all.map(one => one.href)")
        assert any(f"reference/{room}.html" in link for link in links), (room, name)
    page.close()


SEARCHED = {"calibration": "docs/learning.html", "probabilities": "docs/start.html"}


@pytest.mark.parametrize("word", SEARCHED)
def test_the_search_finds_guides_first(browser, word):
    page = browser.new_page()
    page.goto((SITE / "search.html").as_uri() + f"?q={word}")
    page.get_by_text("Search finished").wait_for(timeout=20_000)
    links = page.eval_on_selector_all("#search-results ul.search a", "all => all.map(one => one.href)")
    page.close()
    assert any(SEARCHED[word] in link for link in links[:5]), links[:8]
    assert not any("/reference/" in link or "/benchmarks/" in link for link in links[:3]), links[:3]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(SITE)))
def test_nothing_is_lost_on_paper(browser, path):
    """No box around the text scrolls or hides: of such a box paper holds one sheet at most."""
    page = browser.new_page(viewport={"width": 718, "height": 900})
    page.emulate_media(media="print")
    page.goto(path.as_uri(), wait_until="load")
    found = page.evaluate(
        """() => {
          const found = [];
          for (let box = document.querySelector('.bd-article'); box !== document.body; box = box.parentElement) {
            if (getComputedStyle(box).overflowY !== 'visible') found.push(box.className);
          }
          return found;
        }"""
    )
    page.close()
    assert not found


CUT = """() => [...document.querySelectorAll('.bd-article pre')].filter(
  block => block.checkVisibility() && block.scrollWidth > block.clientWidth + 1
).map(block => block.textContent.slice(0, 60))"""
GUIDES = [
    path for path in PAGES if path.relative_to(SITE).parts[0] in ("docs", "notebooks") and path.stem != "changelog"
]


def test_code_and_labels_are_read_without_scrolling(browser):
    """At the width of a small laptop: no block of code is cut, and no label of a drawing is below eight pixels."""
    page, cut, small = browser.new_page(viewport={"width": 1366, "height": 900}), {}, {}
    for path in PAGES:
        page.goto(path.as_uri(), wait_until="load")
        if path in GUIDES and "reference" not in path.parts and (found := page.evaluate(CUT)):
            cut[path.stem] = found
        pictures = "all => all.map(one => [one.getAttribute('src'), one.getBoundingClientRect().width])"
        for source, width in page.eval_on_selector_all(".bd-article img[src$='.svg']", pictures):
            if width and (size := least_label((path.parent / source).read_text(encoding="utf-8")) * width) < 8:
                small[source] = round(size, 1)
    page.close()
    assert not cut
    assert not small


def least_label(drawing: str) -> float:
    """The smallest size of letters in a drawing, as a share of its width."""
    width = float(re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+)', drawing)[1])
    outlined = [100 * float(size) for size in re.findall(r"scale\((0\.\d+) -0\.\d+\)", drawing)]
    written = re.findall(r'font(?:-size)?(?:: ?|=")(?:bold |\d+ )?([\d.]+)', drawing)
    return min(outlined + [float(size) for size in written]) / width


def test_a_first_visit_is_small(browser):
    page, taken = browser.new_page(), {}
    page.on("request", lambda request: taken.setdefault(request.url.partition("?")[0].partition("#")[0]))
    page.goto((SITE / "docs" / "index.html").as_uri(), wait_until="networkidle")
    page.close()
    sizes = {url: Path(url.removeprefix("file://")).stat().st_size for url in taken if url.startswith("file://")}
    assert sum(sizes.values()) < 1e6, sizes
