"""Cells of studies: found again whatever happened to their file, packed to the same bytes; studies as commands.

And templates of pages: what their slots are asked, their parts, and lines that are broken anew.
"""

import gzip
import json
import re
import shutil
from importlib import import_module
from types import SimpleNamespace
from typing import NamedTuple

import jax
import pytest

import benchmarks.__main__ as command
from benchmarks import cells
from benchmarks.pages import fill, table, wrap
from tests._refusal import refuses

pytestmark = pytest.mark.once


class Cell(NamedTuple):
    data: str
    fold: int


def sound(record, cell):
    return record["fold"] == cell.fold and len(record["values"]) == 2


def journals(folder, n_folds=3):
    wanted = {name: [Cell(name, fold) for fold in range(n_folds)] for name in ("b", "a")}
    return {name: cells.Journal(folder, "main", of, sound) for name, of in wanted.items()}


@pytest.fixture
def ran(monkeypatch):
    monkeypatch.setattr(jax, "clear_caches", lambda: None)  # other tests want theirs
    return []


def run(folder, ran, n_folds=3):
    def run_cell(cell, data):
        assert data == cell.data.upper()
        ran.append(cell)
        return {"fold": cell.fold, "values": [0.1, 1 / 3]}

    return cells.run_missing(journals(folder, n_folds), str.upper, run_cell)


def test_killed_and_resumed_it_ends_with_the_same_bytes(tmp_path, ran):
    whole = run(tmp_path / "whole", ran)
    n_cells, packed = len(ran), (tmp_path / "whole" / cells.PACKED).read_bytes()
    assert list(whole) == [Cell(name, fold) for name in "ba" for fold in range(3)], "in the order in which they are run"
    assert not (tmp_path / "whole" / cells.RUNNING).exists()
    lines = gzip.decompress(packed).splitlines(keepends=True)
    assert [json.loads(line)["cell"] for line in lines] == [["main", name, fold] for name in "ab" for fold in range(3)]
    assert list(cells.keys(tmp_path / "whole")) == [("main", name, fold) for name in "ab" for fold in range(3)]
    first, second, third, *_ = lines
    begun = {b"": 0, first: 1, first + second[:-7]: 1, first + third: 2, first + b"\xff\n" + third: 2}
    for damaged in (b"{}\n", second.replace(b"[0.1,", b"[")):
        begun |= {first + damaged + third: 2, first + damaged + second: 2}
    for number, (content, n_whole) in enumerate(begun.items()):
        part = tmp_path / f"part {number}"
        part.mkdir()
        (part / cells.RUNNING).write_bytes(content)
        ran.clear()
        assert run(part, ran) == whole
        assert len(ran) == n_cells - n_whole, "what is missing or damaged is run again, and nothing else"
        assert (part / cells.PACKED).read_bytes() == packed
    ran.clear()
    assert run(tmp_path / "whole", ran) == whole
    assert not ran
    assert (tmp_path / "whole" / cells.PACKED).read_bytes() == packed


JOURNALS = {
    ("attributions", "own, idle", "own, idle"): lambda record: record["aleatoric"]["permutation"][0].append(0),
    ("boosted_counts", "main", "wine"): lambda record: record["methods"].pop("own"),
    ("boosted_numbers", "main", "friedman1"): lambda record: record["methods"].pop("learned law"),
    ("boosters", "small", "tae"): lambda record: record["methods"]["pool"].pop(),
    ("busch2021", "trees", "sonar"): lambda record: record["methods"]["vote"].pop(),
    ("conformal_sets", "main", "wine"): lambda record: record["sets"]["mean, oob"]["classes"].pop(),
    ("costa2013", "main", "iris"): lambda record: record["tpce"].pop(),
    ("costa2013", "pools", "iris"): lambda record: record["tpce_pool"].pop(),
    ("costa2013", "paths", "iris"): lambda record: record["tpce"].pop(),
    ("costa2013", "branches", "iris"): lambda record: record["lazy_pool"].pop(),
    ("costa2013", "general", "iris"): lambda record: record["pnml"].pop(),
    ("doubt", "main", "wine-quality-red"): lambda record: record["problems"]["answers"]["1 - p/in-bag/1"].pop(),
    ("hernandez_lobato2011", "votes", "wine"): lambda record: record["polled"].append(1),
    ("learning", "noise", "wine"): lambda record: record["methods"].pop("pool"),
    ("number_doubt", "labels", "bankLoan"): lambda record: record["curves"].pop("random"),
    ("regression", "main", "diabetes progression"): lambda record: record["methods"].pop("learned law"),
    ("reliable_evidence", "main", "wdbc"): lambda record: record["rules"]["evidence"].pop(),
    ("rules", "abstaining", "wine"): lambda record: record["methods"].pop("pool"),
    ("sets", "main", "wine"): lambda record: record["sets"]["u65, mean"]["classes"].pop(),
    ("suttoncharani2020", "main", "banana"): lambda record: record["trees"]["0"]["raw"].pop(),
    ("suttoncharani2020", "open", "banana"): lambda record: record["growths"]["raw"]["0"]["eb"].pop(),
    ("suttoncharani2020", "classes", "vowel"): lambda record: record["found"]["0"]["raw"].pop(),
    ("true_probabilities", "200", "twonorm"): lambda record: record["methods"].pop("learned pool"),
    ("voting", "votes", "twonorm"): lambda record: record.pop("curves"),
    ("zhang2021", "main", "liver"): lambda record: record["oob"]["equal"].pop(),
}
"""Committed cells by study, part and set, and what damages a record."""


@pytest.mark.parametrize("named", JOURNALS, ids=" ".join)
def test_committed_cells_are_whole_and_damaged_ones_are_run_again(named, tmp_path):
    name, part_name, of_set = named
    of = import_module(f"benchmarks.studies.{name}.run")
    journal = of.STUDY.parts[part_name].journal
    whole = journal(of.RESULTS, of_set)
    first, *others = whole.found
    assert list(whole.found) == whole.wanted
    part = journal(tmp_path, of_set)
    for cell in (first, *others[:1]):
        record = json.loads(json.dumps(whole.found[cell]))
        if cell == first:
            JOURNALS[named](record)
        part.add(cell, record)
    assert list(journal(tmp_path, of_set).found) == others[:1]


def test_a_run_that_was_cut_off_within_a_line_is_appended_to(tmp_path):
    one = journals(tmp_path)["a"]
    one.add(one.wanted[0], {"fold": 0, "values": [1, 2]})
    with (tmp_path / cells.RUNNING).open("a") as file:
        file.write('{"cell":["main","a",1],"fo')
    one.add(one.wanted[1], {"fold": 1, "values": [3, 4]})
    assert list(journals(tmp_path)["a"].found) == one.wanted[:2]
    cells.pack(tmp_path)
    assert list(journals(tmp_path)["a"].found) == one.wanted[:2]


def test_more_cells_are_added_and_fewer_take_none_away(tmp_path, ran):
    run(tmp_path, ran, 12)
    packed = (tmp_path / cells.PACKED).read_bytes()
    run(tmp_path, ran, 2)
    assert len(ran) == 24
    assert (tmp_path / cells.PACKED).read_bytes() == packed
    assert [key[2] for key in cells.keys(tmp_path)] == [*range(12), *range(12)], "numbers are sorted as numbers"
    for n_folds in (5, 12):
        run(tmp_path / "in two", ran, n_folds)
    assert (tmp_path / "in two" / cells.PACKED).read_bytes() == packed


def test_a_record_of_a_journal_is_its_own_and_there_is_none_before_a_run(tmp_path, ran):
    assert not journals(tmp_path)["a"].found
    cells.pack(tmp_path)
    assert not list(tmp_path.iterdir())
    run(tmp_path, ran)
    first, second = journals(tmp_path)["a"].found, journals(tmp_path)["a"].found
    first[Cell("a", 0)]["values"].append(3)
    assert second[Cell("a", 0)]["values"] == [0.1, 1 / 3]


def test_every_study_says_what_it_asks_and_takes(capsys):
    command.main(["list"])
    said = capsys.readouterr().out
    for name in command.STUDIES:
        of = command.study(name)
        assert f"{name}\n    {of.__doc__.splitlines()[0]}\n    Takes {of.TAKES}.\n" in said
        assert f"python -m benchmarks {name}" in of.__doc__
        assert of.options().prog == f"python -m benchmarks {name}"
        assert (of.RESULTS / "README.md").exists()


@pytest.mark.parametrize("name", [one for one in command.STUDIES if one != "busch2021"])  # it simulates for pictures
def test_the_committed_page_is_made_of_the_committed_cells(name, tmp_path):
    of, again = command.study(name), tmp_path / "again"
    shutil.copytree(of.RESULTS, again, ignore=shutil.ignore_patterns("*.py", "*.md", "*.svg", "*.png", "__pycache__"))
    of.write_page(again)
    text = (of.RESULTS / "README.md").read_text(encoding="utf-8")
    assert (again / "README.md").read_text(encoding="utf-8") == text
    for picture in re.findall(r"!\[[^]]*\]\(([\w-]+\.\w+)\)", text):
        assert (again / picture).stat().st_size > 3000, picture


@pytest.mark.parametrize("page_only", [False, True])
def test_a_study_is_run_and_its_page_written(page_only, tmp_path, monkeypatch):
    done = []
    made_up = SimpleNamespace(
        options=lambda: cells.study_options("Made up.", tmp_path, ["a", "b"], ["first", "second"]),
        run=lambda args: done.append((args.sets, args.parts, jax.config.jax_enable_x64)),
        write_page=lambda folder: done.append(folder),
        FLOAT64=True,
    )
    monkeypatch.setattr(command, "study", lambda name: made_up)
    before = jax.config.jax_enable_x64
    try:
        command.main(["zhang2021", "--sets", "b", *(["--page-only"] if page_only else [])])
    finally:
        jax.config.update("jax_enable_x64", before)
    assert done == [*([] if page_only else [(["b"], ["first", "second"], True)]), tmp_path]


def test_parts_of_a_study_are_run_on_their_sets(tmp_path, ran):
    def run_cell(cell, data):
        ran.append((cell, data))
        return {"fold": cell.fold, "values": [1, 2]}

    journal = lambda part: lambda out, name: cells.Journal(out, part, [Cell(name, fold) for fold in (0, 1)], sound)
    load = lambda name, folder: f"{name} of {folder}"
    parts = {"first": cells.Part(("a", "b"), journal("first"), run_cell, load)}
    parts |= {"second": cells.Part(("c",), journal("second"), run_cell)}
    study = cells.Study("Made up.", tmp_path, parts, lambda found: f"{len(found)} cells")
    study.run(study.options().parse_args(["--sets", "b", "--data", "here", "--parts", "first"]))
    assert ran == [(Cell("b", fold), "b of here") for fold in (0, 1)]
    assert (study.parts["first"].kept(tmp_path).keys(), list(study.kept(tmp_path))) == ({"a", "b"}, [c for c, _ in ran])
    assert list(study.parts["first"].kept(tmp_path, whole=True)) == ["b"]
    cells.Study("Made up.", tmp_path, {"second": parts["second"]}).run(SimpleNamespace(out=tmp_path))
    assert ran[2:] == [(Cell("c", fold), None) for fold in (0, 1)]
    study.write_page(tmp_path)
    assert (tmp_path / "README.md").read_text() == "4 cells"


def test_unknown_studies_are_refused():
    for argv in ([], ["nobody2020"]):
        refuses(SystemExit, "studies: attributions, boosted_counts, boosted_numbers", command.main, argv)


def test_slots_and_parts(tmp_path):
    template, asked = tmp_path / "page.md", []
    template.write_text("# Of {n}\n\n{gain[a; b]:+.1f}, {gain[a; b].real}\n\n<!-- some more -->\n\nA {word}.\n")
    gain = lambda *words: asked.append(words) or 0.25
    assert fill(template, n=3, gain=gain) == "# Of 3\n\n+0.2, 0.25\n"
    assert asked == [("a", "b")] * 2
    assert fill(template, "some more", word="part") == "A part."
    assert fill(template, "some more", word="a", words="of another part") == "A a."
    refuses(ValueError, "some more: its slots and those that are made differ: {'word'}", fill, template, "some more")
    refuses(ValueError, "differ: {'a'}", fill, template, n=1, gain=str, a=2)


def test_tables_and_lines_that_are_broken_anew():
    assert table(["a", ""], [["1", "2"]]) == "| a |  |\n| --- | --- |\n| 1 | 2 |"
    text = wrap("A paragraph\nof two lines.\n\n* a point " + "word " * 30 + "\n* p = 0.5\n\n\n| a  b |\n| c |\n")
    assert text.split("\n")[:2] == ["A paragraph of two lines.", ""]
    assert text.endswith("\n* p = 0.5\n\n| a  b |\n| c |\n")
    assert max(map(len, text.split("\n"))) <= 120
