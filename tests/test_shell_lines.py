"""What the README and the pages have people type: small commands are run, all others are at least understood."""

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jaxunc import __main__ as command_line
from tests._rooms import ROOT

pytestmark = pytest.mark.once

PAGES = [
    *(ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.stem != "changelog"),
]


def blocks(page: Path) -> list[str]:
    """The blocks of a page, each command on one line."""
    found = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [block.replace("\\\n", "") for block in found]


def typed() -> list[tuple[str, list[str]]]:
    """(page, words) of every command of these two in a block or in the text, without its comment."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        for line in [line for block in blocks(page) for line in block.splitlines()] + inline:
            for part in line.split(" && "):
                if part.startswith(("jaxunc ", "python ")):  # others need not be a shell's words
                    found.append((page.name, shlex.split(part, comments=True)))
    return found


def test_commands_of_jaxunc_are_understood():
    understood = []
    for page, words in typed():
        if len(words) > 2 and words[0] == "jaxunc":
            words = [*words, "NAME"] if words[-1].startswith("--") else words  # named by its option alone
            try:
                understood.append(command_line._parser().parse_args(words[1:]).command)
            except SystemExit:
                pytest.fail(f"{page}: {shlex.join(words)}")
    assert {"fit", "predict", "inspect", "compare"} <= set(understood)


def test_modules_that_are_run_exist():
    named = {words[2] for _, words in typed() if words[:2] == ["python", "-m"] and len(words) > 2}
    assert len(named) > 10
    assert not [name for name in named if name != "build" and importlib.util.find_spec(name) is None]


@pytest.mark.exhaustive
def test_from_a_pickled_pipeline_to_a_nightly_file(tmp_path, monkeypatch, capsys):
    """The first section of `docs/how_to/use_a_pipeline.md`: all that is typed, in under 20 statements."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.normal(size=200), "age": rng.integers(20, 70, 200)})
    table["job"] = rng.choice(["cook", "nurse", None], 200)
    table["opened"] = pd.date_range("2020", periods=200)
    table.loc[::9, "income"] = np.nan
    table.assign(default=np.where(table["age"] > 40, "no", "yes")).to_csv("loans.csv", index=False)
    table.iloc[:, ::-1].assign(id=range(200)).drop(columns="opened").to_csv("nightly.csv", index=False)
    page = ROOT / "docs" / "how_to" / "use_a_pipeline.md"
    (script,) = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(script, page.name, "exec"), {})
    lines = [line for block in blocks(page) for line in block.splitlines()]
    assert len(ast.parse(script).body) + len(lines) < 20
    for line in lines[1:]:
        command_line.main(shlex.split(line)[1:])
    told = capsys.readouterr()
    assert "each is read through the trees that were grown without it" in told.err
    answers = pd.read_parquet("answers")
    assert answers["id"].astype(int).tolist() == list(range(200))
    assert np.mean(answers["class"] == np.where(table["age"] > 40, "no", "yes")) > 0.95
    assert set(answers["decision"][answers["class"] == "yes"]) == {"yes"}, "a dearer miss takes none back"


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
def test_from_a_table_to_answers(tmp_path, monkeypatch, capsys):
    """The blocks of two pages, on a table as they name it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.normal(size=60).round(2), "age": rng.integers(20, 70, 60)})
    table.assign(default=np.where(table.income > 0, "no", "yes")).to_csv("loans.csv", index=False)
    (tmp_path / "data").mkdir()
    table.assign(id=range(60)).to_parquet("data/one.parquet")
    pages = (ROOT / "docs" / "files.md", ROOT / "docs" / "how_to" / "from_a_probability_to_a_decision.md")
    for block in [block for page in pages for block in blocks(page) if "jaxunc fit" in block]:
        for line in block.splitlines():
            command_line.main(shlex.split(line)[1:])
        assert "60 rows in 1 files" in capsys.readouterr().out
    decided = pd.read_parquet("decided")["decision"]
    assert set(decided.dropna()) <= {"no", "yes"}
    assert pd.read_parquet("sets")["set"].str.len().isin([1, 2]).all()
    answers = pd.read_parquet("answers")
    assert list(answers["id"]) == list(range(60))
    assert {"class", "probability_no", "probability_yes"} < set(answers)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
def test_a_folder_that_grows_is_scored_and_watched(tmp_path, monkeypatch, capsys):
    """`docs/how_to/every_night.md`: nights that are alike, a broken one, and one of rows of another kind."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)

    def rows(n: int, *, strange: bool = False) -> pd.DataFrame:
        table = pd.DataFrame({"income": rng.normal(0.4 if strange else 0, 0.05 if strange else 1, n)})
        return table.assign(age=rng.integers(20, 70, n), id=range(n))

    table = rows(600)
    label = np.where(table["income"] + 0.02 * (table["age"] - 45) + rng.normal(0, 0.3, 600) > 0.4, "no", "yes")
    table.drop(columns="id").assign(default=label).to_csv("loans.csv", index=False)
    (tmp_path / "inbox").mkdir()
    page = ROOT / "docs" / "how_to" / "every_night.md"
    (watch,) = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (_, fit), (_, predict, watches) = (block.splitlines() for block in blocks(page))
    assert watches == "python watch.py"

    def night() -> str | int:
        """What watching says of it."""
        command_line.main(shlex.split(predict)[1:])
        with pytest.raises(SystemExit) as end:
            exec(watch, {})
        return end.value.code

    command_line.main([*shlex.split(fit)[1:], "--trees", "30"])
    for day in range(3):
        rows(200).to_parquet(f"inbox/2026-11-0{day}.parquet")
        assert night() == 0 or day == 0  # the first has none before it
    whole = {part.name: part.read_bytes() for part in (tmp_path / "answers").iterdir()}
    broken = sorted(name for name in whole if name.startswith("part"))[-1]
    (tmp_path / "answers" / broken).unlink()  # a run that was killed before it
    assert night() == 0
    assert {part.name: part.read_bytes() for part in (tmp_path / "answers").iterdir()} == whole
    rows(200, strange=True).to_parquet("inbox/2026-11-03.parquet")
    assert "of last night's rows are doubtful" in str(night())
    capsys.readouterr()
    (tmp_path / "inbox" / "2026-11-04.parquet").write_bytes(
        (tmp_path / "inbox" / "2026-11-03.parquet").read_bytes()[:99]
    )
    with pytest.raises(SystemExit) as end:
        command_line.main(shlex.split(predict)[1:])
    assert end.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"jaxunc: error: .*2026-11-04\.parquet.*\n", told.err)
