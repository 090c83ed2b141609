"""What the README and each page show runs from its own first line, and prints what they say."""

import ast
import contextlib
import io
import re
from itertools import takewhile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]
ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
ALL_PAGES = sorted((ROOT / "docs").rglob("*.md"))
PROGRAMS = {
    "equinox_flax_optax": ["flax"],
    "nightly_intervals": ["lightgbm"],
    "serve": ["fastapi", "httpx", "huggingface_hub", "mlflow", "ray.serve"],
}
"""Pages that need other people's programs (extra: programs), by what they import."""
PAGES = [page for page in ALL_PAGES if "```python" in page.read_text() and page.stem not in PROGRAMS]
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?")


def name_of(page: Path) -> str:
    """The path of a page below the project's."""
    return str(page.relative_to(ROOT))


def said_of(block: str, statement: ast.stmt) -> list[str]:
    """The numbers of the comment behind a statement, or on the lines after it, where they are what is printed."""
    own, *after = block.splitlines()[(statement.end_lineno or 0) - 1 :]
    beneath = [line.strip()[2:] for line in takewhile(lambda line: line.strip().startswith("# "), after)]
    comment = own.partition("  # ")[2] or " ".join(beneath)
    told = re.search(r"\[\[.*?\]\]|\[.*|(?<=: )[\d.].*|^\.?\d.*", comment)
    return NUMBER.findall(told.group()) if told else []


def run(page: Path, names: dict) -> int:
    """Run the page's blocks; what is printed must hold the numbers that comments tell, in their order."""
    compared = 0
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        for statement in ast.parse(block).body:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(ast.Module([statement], []), page.name, "exec"), names)
            found = iter(NUMBER.findall(printed.getvalue()))
            for said in said_of(block, statement) if printed.getvalue() else []:
                last = 10.0 ** -len(said.partition(".")[2])
                near = any(abs(float(said) - float(one)) <= 2 * last for one in found)
                assert near, f"{page.name} says {said}, but {printed.getvalue()!r} was printed"
                compared += 1
    return compared


def assert_gain(names: dict) -> None:
    """The log losses that the README tells of its first example."""
    from sklearn.metrics import log_loss

    told = re.search(r"On the (\d+) rows that are left, the log loss falls from (\.\d+) to (\.\d+)", README.read_text())
    assert told is not None
    X, y = names["X"][400:], names["y"][400:]
    found = [log_loss(y, names[model].predict_proba(X)) for model in ("model", "better")]
    assert [int(told[1]), *map(float, told.groups()[1:])] == [len(y), *np.round(found, 3)]


@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
@pytest.mark.parametrize("page", [README, *PAGES], ids=name_of)
def test_examples_run(page):
    plt, names = pytest.importorskip("matplotlib.pyplot"), {}
    compared = run(page, names)
    plt.close("all")
    if page == README:
        assert compared > 3
        assert_gain(names)
    if page.stem == "combiners":
        counts = jnp.asarray(np.random.default_rng(0).integers(0, 9, size=(4, 5, 3)), jnp.int32)
        np.testing.assert_allclose(np.sum(names["GiniWeighted"]().probability(counts), axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("default")  # those of other people's programs are theirs
def test_pages_inside_other_programs_run(name, tmp_path, monkeypatch):
    """Each from its own first line, in a folder of its own."""
    for needed in PROGRAMS[name]:
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"):
        names: dict = {}
        assert run(ROOT / "docs" / "how_to" / f"{name}.md", names) > 0
        for trained in [names[one] for one in ("trained", "moved", "head") if one in names]:
            np.testing.assert_array_equal(trained.forest.probability(names["X"]), names["before"])


@pytest.mark.parametrize("page", [README, *ALL_PAGES], ids=name_of)
def test_links_lead_somewhere(page):
    anchors = lambda text: [
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"(?m)^#+ (.*)", text)
    ]
    for target in re.findall(r"\]\((?!http)([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(found.read_text()), f"{page.name} links to {target}"
