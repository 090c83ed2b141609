"""The package as a whole: its examples, its rooms, its public names, and what can be sent to other processes."""

import ast
import doctest
import importlib
import inspect
import json
import pickle
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jaxunc as ju
from tests._rooms import INNER, LAYERS, ROOMS, ROOT
from tests._rules import RULES, make

pytestmark = pytest.mark.once

PATHS = sorted((ROOT / "jaxunc").rglob("*.py"))
WITH_EXAMPLES = [path.relative_to(ROOT) for path in PATHS if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
@pytest.mark.exhaustive(keep=5)
def test_examples_in_docstrings(path):
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    failed, tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (failed, tried > 0) == (0, True)


def test_rooms_import_only_from_the_rooms_above_them():
    linter = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or shutil.which("lint-imports")
    if linter is None:
        pytest.skip("import-linter is not installed (extra: lint)")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_and_room_is_a_layer_and_has_tests():
    here = {module.name for module in pkgutil.iter_modules(ju.__path__)}
    assert here == set(LAYERS)
    assert {module.name for module in pkgutil.iter_modules(ju.__path__) if module.ispkg} == {*ROOMS, "_numerics"}
    assert all((ROOT / "tests" / room).is_dir() for room in ROOMS)


@lru_cache
def nodes_of_rooms():
    """(room, path, imports and classes of its syntax tree) of every module."""
    parsed = [(path, ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in PATHS]
    kinds = ast.ImportFrom | ast.ClassDef
    return [
        (path.relative_to(ROOT / "jaxunc").parts[0], path, [node for node in nodes if isinstance(node, kinds)])
        for path, nodes in parsed
    ]


def test_rooms_read_each_other_by_their_faces():
    """``from jaxunc.room import name``, never from a module of another room: its ``__init__`` hands the name on."""
    inside = re.compile(r"jaxunc\.(?P<room>[a-z_]+)\._")
    for room, path, nodes in nodes_of_rooms():
        for node in nodes:
            found = inside.match(node.module or "") if isinstance(node, ast.ImportFrom) and not node.level else None
            assert found is None or found["room"] == room, f"{path}:{node.lineno}"


def test_class_names_are_unique():
    places = {}
    for _, path, nodes in nodes_of_rooms():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}


def test_lists_of_rooms_agree():
    """Those that are written for readers, in the order of the layers."""
    table = re.findall(
        r"^\| (`.*?) \|", (ROOT / ".github" / "CONTRIBUTING.md").read_text().partition("## The rooms")[2], re.M
    )
    named = [name.rstrip("/") for row in table for name in re.findall(r"`(\w+/?)`", row) if name.rstrip("/") in LAYERS]
    assert [name for name in named if name in ROOMS] == list(ROOMS)
    assert set(named) == set(LAYERS)
    listed = re.findall(r"^    (\w+)/ ", (ROOT / "docs" / "programs.md").read_text(), re.M)
    assert listed == list(ROOMS)
    assert {name for name in ju.__all__ if name in ROOMS} == {*ROOMS} - {*INNER}


def test_files_that_the_guide_names_exist():
    guide = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`((?:\w+/)+\w+\.py)`", guide) if not re.search("_name|_?library", name)}
    found = [name for name in named if any((ROOT / folder / name).exists() for folder in ("", "jaxunc"))]
    assert len(named) > 30
    assert sorted(named) == sorted(found)


@pytest.mark.parametrize("package", ["", *(f".{room}" for room in ROOMS)])
def test_public_names_exist_and_are_documented(package):
    module = importlib.import_module("jaxunc" + package)
    assert module.__all__ == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    for name in module.__all__:
        assert getattr(module, name).__doc__, name


def test_public_names_are_shown():
    """A name is public if a guide, the README or a notebook shows it."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in ("changelog.md", "references.md")]
    pages += [ROOT / "README.md", *(ROOT / "notebooks").glob("*.ipynb")]
    shown = {word for path in pages for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    public = {*ju.__all__} | {name for room in ROOMS for name in importlib.import_module(f"jaxunc.{room}").__all__}
    assert public <= shown | {*ROOMS}, sorted(public - shown - {*ROOMS})
    assert len(public - {*ROOMS}) <= 150


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem[:2])
def test_notebooks_are_kept_with_their_outputs(path):
    """As they ran from top to bottom, without what the machine complained of, and with words for each picture."""
    code = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert sum(bool(cell["outputs"]) for cell in code) > len(code) / 2
    assert not [output for cell in code for output in cell["outputs"] if output.get("name") == "stderr"]
    drawn = [cell for cell in code if any("image/png" in output.get("data", {}) for output in cell["outputs"])]
    assert not [cell["source"] for cell in drawn if len(cell["metadata"]["mystnb"]["image"]["alt"]) < 20]


SHOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]
"""Pages with code, most of which `.ci/run` runs in some of its runs alone."""


def calls_of(page: Path) -> Iterator[tuple[str, Any, set[str]]]:
    """Of the library's names that a page reads: their path, what they are, and the keywords that a call passes."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text("utf-8"))["cells"]
        blocks = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    else:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    nodes = [node for block in blocks for node in ast.walk(ast.parse(block))]
    names: dict[str, Any] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= imported(node)
    for node in nodes:
        called, path = (node.func, []) if isinstance(node, ast.Call) else (node, [])
        while isinstance(called, ast.Attribute):
            called, path = called.value, [called.attr, *path]
        if isinstance(called, ast.Name) and called.id in names:
            keywords = {one.arg for one in node.keywords if one.arg} if isinstance(node, ast.Call) else set()
            yield ".".join([called.id, *path]), reduce(getattr, path, names[called.id]), keywords


def imported(line: ast.Import | ast.ImportFrom) -> dict[str, Any]:
    """What a line imports of the library."""
    if isinstance(line, ast.ImportFrom):
        ours = (line.module or "").partition(".")[0] == "jaxunc"
        module = importlib.import_module(str(line.module)) if ours else None
        return {one.asname or one.name: getattr(module, one.name) for one in line.names if ours}
    ours = [one for one in line.names if one.name.partition(".")[0] == "jaxunc"]
    return {one.asname or one.name: importlib.import_module(one.name) for one in ours}


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
def test_pages_call_what_there_is(page):
    for path, found, keywords in calls_of(page):
        if keywords:
            parameters = inspect.signature(found).parameters
            any_keyword = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
            assert any_keyword or keywords <= {*parameters}, f"{path}: {keywords - {*parameters}}"


@pytest.mark.parametrize("name", RULES)
def test_rules_can_be_pickled(name):
    rule = make(name, 2, 12)
    again = pickle.loads(pickle.dumps(rule))
    assert jax.tree.structure(again) == jax.tree.structure(rule)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(rule), strict=True):
        np.testing.assert_array_equal(a, b)


def test_public_functions_can_be_pickled():
    """Plain functions: they pickle by name, and cloning an estimator that holds one does not copy it."""
    scorers = ju.scorers.probability, ju.scorers.plausibility
    for function in (*scorers, ju.leaf_index, ju.bind, ju.from_sklearn, ju.margin):
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.exhaustive
def test_the_package_says_that_it_is_typed():
    assert (Path(ju.__file__).parent / "py.typed").exists()
