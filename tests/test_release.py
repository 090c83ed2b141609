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


def test_pythons_that_are_named_are_those_that_are_tested():
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), flags=re.MULTILINE)
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    if not workflow.exists():
        pytest.skip("no workflow here: what is packed leaves it out")
    assert named == re.findall(r'"(3\.\d+)"', workflow.read_text(encoding="utf-8"))
