"""What a release rests on: one version in every place, a changelog that says what it holds."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

import jaxunc as ju

pytestmark = pytest.mark.once
ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSIONS = re.findall(r"^## (.+)$", (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_one_version_everywhere():
    newest, day = VERSIONS[1].split(" - ")
    assert PROJECT["project"]["version"] == ju.__version__ == newest
    assert date.fromisoformat(day)
    assert f"\nversion: {newest}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert VERSIONS[0] == "Unreleased"
    assert len(set(VERSIONS)) == len(VERSIONS)


def test_what_is_packed_exists():
    for path in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        assert (ROOT / path).exists(), path


def test_pythons_that_are_named_are_those_that_are_tried():
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), flags=re.MULTILINE)
    tried, tested = (
        re.findall(r'"(3\.\d+)"', re.search(r"python: \[.*\]", text)[0])
        for text in (read(f".github/workflows/{name}.yml") for name in ("release", "ci"))
    )
    assert named == tried
    assert named[: len(tested)] == tested


def test_condas_recipe_asks_for_what_the_package_asks_for():
    recipe = read(".github/conda/recipe.yaml")
    asked = re.findall(r"^    - (\S+) (\S+)$", recipe.partition("\n  run:\n")[2].partition("\ntests:")[0], re.M)
    others = [name.replace("_", "-") + bound for name, bound in asked]
    assert others == PROJECT["project"]["dependencies"]
    assert f'version: "{ju.__version__}"' in recipe
    assert f'python_min: "{PROJECT["project"]["requires-python"].removeprefix(">=")}"' in recipe


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
