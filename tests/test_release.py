"""What a release rests on: one version in every place, a changelog that says what it holds."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

import jaxunc as ju
from tests._compilations import MOST_PROGRAMS, MOST_WITH_ROOMS

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


def least_version(package: str) -> tuple[int, ...]:
    """The oldest version of a package, or of Python, that the project takes."""
    project = PROJECT["project"]
    needs = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
    bounds = re.findall(
        rf"^{package}\S*?>=([\d.]+)", "\n".join([*needs, f"python{project['requires-python']}"]), re.MULTILINE
    )
    assert bounds, f"pyproject.toml has no bound of {package}"
    return tuple(map(int, bounds[0].split(".")))


def test_no_workaround_is_over():
    """A comment ``# until PACKAGE VERSION: why`` goes, and what it stands at, when older versions are not taken."""
    files = [
        ROOT / "pyproject.toml",
        *(path for folder in ("jaxunc", "tests", "docs", ".ci") for path in (ROOT / folder).rglob("*.py")),
    ]
    tags = [
        (path.name, package, version)
        for path in files
        for package, version in re.findall(r"# until ([a-z-]+) ([\d.]+): ", path.read_text(encoding="utf-8"))
    ]
    assert len(tags) >= 8
    over = [tag for tag in tags if least_version(tag[1]) >= tuple(map(int, tag[2].split(".")))]
    assert not over, over


def test_pythons_that_are_named_are_those_that_are_tried():
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), flags=re.MULTILINE)
    assert named == re.findall(r'"(3\.\d+)"', re.search(r"python: \[.*\]", read(".github/workflows/release.yml"))[0])
    assert named == re.findall(r'python: \[?"(3\.\d+)"', read(".github/workflows/ci.yml"))


def test_the_ceiling_of_programs_is_told():
    contributing = read(".github/CONTRIBUTING.md")
    assert f"at most {MOST_PROGRAMS} for the\nwhole suite, {MOST_WITH_ROOMS} with" in contributing


def test_the_workflow_runs_each_step_of_the_check():
    steps = re.search(r'^STEPS="\n(.*?)^"', read(".ci/run"), re.DOTALL | re.MULTILINE)[1]
    names = [line.split()[0] for line in steps.splitlines()]
    assert f"step: [{', '.join(names)}]" in read(".github/workflows/ci.yml")


def test_condas_recipe_asks_for_what_the_package_asks_for():
    recipe = read(".github/conda/recipe.yaml")
    asked = re.findall(r"^    - (\S+) (\S+)$", recipe.partition("\n  run:\n")[2].partition("\ntests:")[0], re.M)
    others = [name.replace("_", "-") + bound for name, bound in asked]
    assert others == PROJECT["project"]["dependencies"]
    assert f'version: "{ju.__version__}"' in recipe
    assert f'python_min: "{PROJECT["project"]["requires-python"].removeprefix(">=")}"' in recipe


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
