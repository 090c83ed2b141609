"""The page: what it says, that it carries all it needs, and how a browser takes it."""

import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from jaxunc import compare
from tests.compare._made_up import made_up_results

pytestmark = pytest.mark.once

SETTINGS = compare.Settings(leaf_sizes=(1, 4), n_repeats=1, n_folds=3, n_trees=3)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-sync")


class Elements(HTMLParser):
    """All elements and their attributes."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def page_of(folder, results) -> str:
    return compare.write_page(folder, results).read_text(encoding="utf-8")


def described(page: str, start: str) -> list[str]:
    """The descriptions of the images whose title begins so."""
    images = [attributes["alt"] for tag, attributes in Elements(page).found if tag == "img"]
    return [alt.partition(start)[2] for alt in images if alt.startswith(start)]


def cells_of(page: str, start: str) -> list[list[str]]:
    """The rows of the first table after these words."""
    table = page.partition(start)[2].partition("</table>")[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("</tr>") if "<td" in row]


def of_classes(n_classes: int):
    """Made-up results of two kinds of forest and two combiners on data of as many classes."""
    table = compare.breast_cancer()
    y, labels = np.arange(len(table.y)) % n_classes, tuple(f"<{c}> $^$" for c in range(n_classes))
    return made_up_results(table._replace(y=y, class_labels=labels), SETTINGS, ("probability", "vote"))


@pytest.fixture(scope="module")
def two():
    """Made-up results of two combiners on the shipped data."""
    return made_up_results(compare.breast_cancer(), SETTINGS, ("probability", "vote"))


@pytest.fixture(scope="module")
def page_of_two(two, tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("two"), two)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the page of a small real study."""
    folder = tmp_path_factory.mktemp("page")
    combiners = ("probability", "vote", "pooling")
    settings = compare.Settings(("random-forest",), combiners, (2, 9), n_trees=3, n_repeats=1, n_folds=3)
    table = compare.breast_cancer()._replace(name="<b>cancer</b> & co", warnings=("a <i>warning</i>",))
    compare.write_page(folder, compare.run(table, settings, quiet=True))
    return folder


@pytest.mark.exhaustive
def test_the_page_carries_all_it_needs_and_escapes_what_comes_from_the_data(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 3e6
    elements = Elements(text).found
    assert not {tag for tag, _ in elements} & {"script", "iframe", "object", "base"}
    for _, attributes in elements:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith(("data:", "#"))
    places = {attributes.get("id") for _, attributes in elements}
    contents = [attributes["href"][1:] for tag, attributes in elements if tag == "a"]
    assert len(contents) > 8
    assert {*contents} <= places, "contents lead to what is there"
    assert not [words for words in ("@import", "url(", "<b>cancer") if words in text]
    images = [attributes for tag, attributes in elements if tag == "img"]
    parts = "P(positive), ranks, leaf sizes, three curves, uncertainty, sets, intervals"
    assert len(images) == 1 + 4 + 2 + 3 + 1 + 3 + 2, parts
    assert all(len(image["alt"]) > 20 for image in images)
    assert "&lt;b&gt;cancer&lt;/b&gt; &amp; co" in text
    assert "a &lt;i&gt;warning&lt;/i&gt;" in text


@pytest.mark.exhaustive
def test_the_same_results_make_the_same_page_and_a_perfect_score_is_doubted(tmp_path, two, page_of_two):
    assert page_of_two == page_of(tmp_path, two)
    assert "A score is perfect." not in page_of_two
    perfect = made_up_results(compare.breast_cancer(), SETTINGS, ("probability", "vote"))
    for cell, outcome in perfect.outcomes.items():
        if cell.forest == "extra-trees" and cell.leaf_size == 1:
            outcome.measures["vote"]["accuracy"] = 1.0
    assert "A score is perfect." in page_of(tmp_path, perfect)


@pytest.mark.exhaustive
def test_combiners_alike_and_one_combiner_alone(tmp_path):
    """Nothing is told apart, nothing is divided by zero."""
    alike = page_of(tmp_path, made_up_results(compare.breast_cancer(), SETTINGS))
    assert "Use none of them: no probabilities are told to be better than the base rates alone" in alike
    assert not re.search(r"\bnan\b", re.sub(r'"data:[^"]*"', "", alike), re.IGNORECASE)
    one = made_up_results(compare.breast_cancer(), compare.Settings(leaf_sizes=(4,), n_repeats=1), ("vote",))
    said = page_of(tmp_path, one)
    assert "<code>vote</code> alone was run" in said
    assert "Over leaf sizes" not in said


@pytest.mark.exhaustive
def test_rows_that_are_doubtful_and_rows_called_most_likely(page_of_two):
    text = " ".join(page_of_two.split())
    assert "few rows behind its leaves (median 2 rows), trees disagree" in text
    assert '<td class="words">a = 1, b = x</td><td class="words">benign (0.50)</td>' in text
    assert '<td class="words">malignant (row 7), benign (row 5), malignant (row 9)</td>' in text
    tops = cells_of(text, "Finding <em>malignant</em>")
    assert (tops[0], tops[3]) == (["90", "2.4", "2%"], ["60", "1.6", "32%"])
    (said, *_) = described(text, "Can P(malignant) be believed?. ")
    assert said.startswith("probability: 0.500 came true in 0.500 of 6")


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    """A folder with the page of all combiners on data with a long name and long labels."""
    folder = tmp_path_factory.mktemp("long")
    table = compare.breast_cancer()._replace(name="customer_churn_" * 6 + ".csv", class_labels=("no" * 60, "yes" * 50))
    compare.write_page(folder, made_up_results(table, SETTINGS))
    return folder


SCREENS = [("folder", "screen", 390), ("folder", "screen", 1100), ("folder", "screen", 1280)]
SCREENS += [("long_names", "screen", 390), ("long_names", "print", 718)]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; continuous integration installs one")
@pytest.mark.parametrize(("which", "media", "width"), SCREENS)
@pytest.mark.exhaustive
def test_a_browser_shows_it_without_errors(width, media, which, request):
    folder = request.getfixturevalue(which)
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright drives the browser; it is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[f"--{option}" for option in QUIET])
        page = browser.new_page(viewport={"width": width, "height": 800})
        complaints = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url[:100]))
        page.emulate_media(media=media)
        page.goto((folder / "report.html").as_uri())
        assert complaints == []
        before = page.evaluate("document.querySelector('#appendix').getBoundingClientRect().top")
        assert before <= 3 * 768 or width < 1100, "three screens before the appendix"
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is wider than the screen"
        cut = page.evaluate("[...document.querySelectorAll('.scroll')].map(x => x.scrollWidth > x.clientWidth)")
        assert width < 1100 or not any(cut), "no table is cut at its last column"
        shown = page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 100)")
        assert len(shown) >= 10
        assert all(shown)
        browser.close()


@pytest.mark.room
def test_sets_are_shown_beside_the_forest_that_always_decides(page_of_two):
    rows = cells_of(page_of_two, "<summary>Sets of classes")
    assert rows[:4] == [
        ["one class", "1.000", "0.500", "0.500", "0.500", "1.000"],
        ["1", "0.750", "0.900", "0.700", "0.800", "1.250"],
        ["2", "0.500", "0.900", "0.700", "0.800", "1.500"],
        ["5", "0.000", "–", "0.700", "0.800", "2.000"],
    ]
    assert len(rows) == 2 * 4


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive
def test_pictures_of_sets_and_intervals(n_classes, tmp_path):
    text = page_of(tmp_path, of_classes(n_classes))
    pictures = ("decided and right", "utility of sets", "set sizes", "reliability")
    (decided, utility, sizes, bins) = (described(text, f"extra-trees, leaf size 4: {name}. ")[0] for name in pictures)
    shares = "0.750, 0.500, 0.250, 0.000, 0.000, 0.000"
    right = "right of those 0.900, 0.900, 0.900, none, none, none."
    assert decided == f"For s = 1, 2, 3, 5, 10, 20: decided {shares}; {right}"
    assert utility.endswith("one class (probability) 0.500.")
    assert sizes.endswith(f"1 class {shares}; 2 classes 0.250, 0.500, 0.750, 1.000, 1.000, 1.000.")
    assert "0.05 [0.00, 0.10] came true in 0.50 of 30; 0.15 [0.10, 0.20]" in bins
    assert bins.count("came true") == 9, "the empty bin is left out"
    ranges = described(text, "extra-trees: range of the Brier score. ")
    expected = ["1: 0.250 [0.100, 0.500]; 4: 0.250 [0.025, 0.500]."] if n_classes == 2 else []
    assert [said.rpartition("range: ")[2] for said in ranges] == expected
    assert ("counts 3 times" in text) == (n_classes == 3)
    assert "the shaded range" in text or n_classes == 3


@pytest.mark.exhaustive
def test_nothing_of_sets_and_intervals_for_many_classes(tmp_path):
    results = of_classes(11)
    for outcome in results.outcomes.values():
        for part in outcome[4:]:
            part.clear()
    text = page_of(tmp_path, results)
    assert "Sets of classes, where" not in text
    assert "Probabilities as intervals" not in text
    assert not described(text, "extra-trees, leaf size 4: set sizes")
    assert "Sets of classes and intervals are left out: they compare all pairs" in text
