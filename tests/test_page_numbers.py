"""The measured numbers of the pages of `docs/` are those of committed files of results, as the README's are."""

import re
import tomllib

import numpy as np
import pytest

from benchmarks.speed.rule_costs import multiples
from tests._claims import RESULTS, ROOT, Page, numbers, page_of, results, rounded, same

pytestmark = pytest.mark.once


def flat(text: str) -> str:
    return " ".join(text.split())


PAGES = ("speed", "decisions", "learning", "voting", "trees", "files", "devices", "libraries")
SPEED, DECISIONS, LEARNING, VOTING, TREES, FILES, DEVICES, LIBRARIES = (Page(f"docs/{name}.md") for name in PAGES)


def test_times_by_rows():
    measured = results("rows-cpu")["sections"]["batch-sizes"]
    engines = ("jaxunc", "oneDAL", "scikit-learn", "treelite GTIL")
    table = SPEED.table("trees")
    assert len(table) == 18
    for shape, rows, *cells in table:
        wanted = (shape, 100, 30, numbers([rows])[0])
        of = {
            one["engine"]: 1e3 * one["steady_s"]["median"]
            for one in measured
            if tuple(one[key] for key in ("shape", "trees", "columns", "rows")) == wanted
        }
        assert [engine for engine, cell in zip(engines, cells, strict=True) if cell] == [e for e in engines if e in of]
        assert rounded([cell for cell in cells if cell], [of[engine] for engine in engines if engine in of]), wanted
    shares = {
        (f"{one['trees']} trees, {one['shape']}, {one['columns']} columns", one["rows"]): one
        for one in measured
        if one["engine"] == "oneDAL"
    }
    table, sizes = SPEED.table("trees and columns"), sorted({rows for _, rows in shares})
    assert len(table) == len({name for name, _ in shares})
    for name, *cells in table:
        own = [shares.get((name, rows)) for rows in sizes]
        assert [bool(cell) for cell in cells] == [one is not None for one in own]
        told = [1 / one["ratio_to_jaxunc"]["median"] for one in own if one is not None]
        assert rounded([cell for cell in cells if cell], told), name
    for file, header in (("rows-shallow-cpu", "forest, 30 columns"), ("rows-shallow-epyc", "forest, on the EPYC")):
        told = {
            (name, numbers([size])[0]): cell
            for name, *cells in SPEED.table(header)
            for size, cell in zip(("1", "16", "256", "4096", "65 536", "100 000"), cells, strict=True)
        }
        shares = {
            (f"{one['trees']} trees, {one['shape']}", one["rows"]): 1 / one["ratio_to_jaxunc"]["median"]
            for one in results(file)["sections"]["batch-sizes"]
            if one["engine"] == "oneDAL"
        }
        assert told.keys() == shares.keys()
        assert rounded(told.values(), [shares[key] for key in told])
    beyond = [
        one["answers"]["max_abs_difference"]
        for work in results("speed-cpu")["workloads"][1::2]
        for one in work["engines"]
        if one["name"] == "oneDAL"
    ]
    shown = [f"{one:.0e}".replace("e-0", "e-") for one in beyond]
    assert f"differ by up to {shown[1]} for the extremely randomised trees, and by up to {shown[0]} for" in SPEED.said


def test_times_of_other_rules():
    measured = multiples(results("rule-costs-cpu")["rules"])
    table = SPEED.table("combiner")
    assert [name for name, *_ in table] == list(measured)
    for name, *cells in table:
        assert rounded(cells, list(measured[name].values())), name
    reports = results("cautious-cpu")["reports"]
    cost = [reports[mass]["ratio_to_mean"]["median"] for mass in ("equal", "leaf_size", "certainty")]
    SPEED.spread(cost, "A cautious report takes # to # times the mean's time at depth 8", 1)


def test_a_gpu():
    parts = {name: part["rows"] for name, part in results("accelerator-h200")["parts"].items()}

    def speed(part: str, depth: str, rows: str, place: str) -> list[float]:
        asked = (int(depth), 100, numbers([rows])[0], place)
        of = [one for one in parts[part] if (one["depth"], one["trees"], one["rows"], one["from"]) == asked]
        return [one["million_rows_per_s"] for one in of][:1]

    table = SPEED.table("depth")
    assert len(table) == 6
    for depth, rows, *cells in table:
        of = [speed("routing", depth, rows, place) for place in ("device", "host")]
        of.append(speed("routing on the host", depth, rows, "host"))
        assert rounded([cell for cell in cells if cell], [one for (one,) in filter(None, of)]), (depth, rows)
    cost = {one["rule"]: one["ratio_to_mean"]["median"] for one in parts["rules"] + parts["reports"]}
    beyond = {"mean, mask of trees", "beta aggregation, maximum", "certainty", "leaf_size", "equal"}
    SPEED.spread([cost[name] for name in cost if name not in beyond], "Combiners cost # to # times the mean", 2)
    SPEED.says("the maximum of beta aggregation #", [cost["beta aggregation, maximum"]], 1)
    SPEED.spread([cost[name] for name in ("certainty", "leaf_size", "equal")], "cautious reports # to #, and", 1)
    SPEED.says("a mask of trees #", [cost["mean, mask of trees"]], 1)
    slower = {
        kind: [one["ratio_to_full_vote"]["median"] for one in parts["votes"] if one.get("votes") == kind]
        for kind in ("settled", "certain")
    }
    SPEED.spread(slower["certain"], '`"certain"` # to #, since', 0)
    least, most = SPEED.claimed('`"settled"` takes # to # times the time of all 500')
    assert same(least, min(slower["settled"]), 1)
    assert same(most, max(slower["settled"]), 0)
    answers = parts["correctness"]
    assert all(one["holds"] for one in answers)
    assert sum(one["most"] > 1e-6 for one in answers) == 1


def test_first_predictions():
    first = results("speed-cpu")["sections"]["first-calls"]
    SPEED.spread([one["first_call_s"] for one in first], "compiles for # to # seconds", 2)
    SPEED.spread([one["model_to_answer_s"] for one in first], "an answer it takes # to #", 1)
    SPEED.spread([one["import_jaxunc_s"] for one in first], "Importing the library takes # to # seconds", 1)
    folds = results("speed-cpu")["sections"]["cross-validation"]
    assert len(folds["by_fold"]) == 10
    assert folds["all_compilations_after_first"] == 0
    fold = results("learning-cpu")["pure_fold"]
    rows, taken = max((int(rows), taken) for rows, taken in fold["temporary_bytes"].items())
    SPEED.says("`merge_leaves` over # rows and # trees needs # MB", (rows, fold["trees"], taken / 1e6), 0)


def test_votes_that_stop():
    votes = [one for one in results("stopping-cpu")["votes"] if "200" not in one["forest"]]
    many, few = ([one for one in votes if one["instances"] == n] for n in (100_000, 1000))
    for (classes, trees, times), one in zip(SPEED.table("classes"), many, strict=True):
        assert (f"{classes} classes" == one["forest"]) if classes != "2" else "leaf" in one["forest"]
        assert rounded([trees, times], [one["mean_polled"], one["speedup"]["settled"]["wall"]["median"]])
    small = [one for one in few if "10" not in one["forest"]]
    taken = [1 / one["speedup"]["settled"]["cpu"]["median"] for one in small]
    SPEED.spread(taken, "1000 rows of two and three classes take # to # of the processor time", 2)
    nothing = [one["speedup"]["nothing settles"]["wall"]["median"] for one in many]
    SPEED.spread(nothing, "polling has # to # of the full vote's speed", 2)
    nothing = [one["speedup"]["nothing settles"]["cpu"]["median"] for one in small]
    SPEED.spread(nothing, "at 1000 it has # to # by processor time", 2)
    SPEED.spread([one["speedup"]["certain"]["wall"]["median"] for one in many], '`"certain"` is # to # times', 1)


def test_models_of_other_libraries():
    engines = ("jaxunc", "oneDAL", "lleaves", "ONNX Runtime", "treelite GTIL", "lignum", "YDF's JAX export")
    measured = results("imported-cpu")["models"]
    for (_, taken, *cells), model in zip(SPEED.table("model"), measured, strict=True):
        of = {one["name"]: one["cpu_ratio_to_own"]["median"] for one in model["engines"]}
        assert rounded([taken, *cells], [model["import_cpu_s"]["median"], *(of.get(name, np.nan) for name in engines)])
    SPEED.says("Of # million leaves", [sum(one["leaves"]["visits"] or 0 for one in measured) / 1e6], 0)
    assert not any(one["leaves"]["mismatches"] for one in measured)


def test_explanations():
    measured, table = results("explaining-cpu"), SPEED.table("explained")
    for (_, ours, theirs, by, *quotients), one in zip(table, measured["forests"] + measured["xgboost"], strict=True):
        assert by == one["of"]
        assert rounded([ours, theirs], [one["times"][name]["steady_s"]["median"] for name in ("ours", by)])
        assert rounded(quotients, [one["times_as_fast"][clock]["median"] for clock in ("wall", "cpu")])


def won(page: str, name: str) -> list[list[tuple[int, int]]]:
    """Wins and losses of a method against the five that the study of sets compares with: by u65, by u80."""
    tables = re.split(r"\n### By u\d\d\n", page)[1:3]
    rows = [re.search(rf"^\| {re.escape(name)} \|(.*)\|$", table, re.M)[1].split("|") for table in tables]
    found = [[re.search(r"(\d+):(\d+)", cell) for cell in row] for row in rows]
    return [[(int(one[1]), int(one[2])) if one else (0, 0) for one in row] for row in found]


def test_sets_of_classes():
    page = page_of("sets")
    needs = [row for row in DECISIONS.text.splitlines() if row.startswith("| I ")]
    assert len(needs) == 3
    assert all(row in page for row in needs)
    gains = re.search(r"is (\.\d+) by u65 and (\.\d+) by u80; by u50 there is none", flat(page_of("zhang2021")))
    assert [cells[1] for cells in DECISIONS.table("a right set of two is worth")] == ["none", *gains.groups()]
    kept = re.search(r"learned, oob` keeps (\d+) of (\d+); plain conformal sets \(.*?\) (\d+) of", flat(page))
    DECISIONS.says("error, for # of # classes; by plain conformal sets for #", map(float, kept.groups()), 0)
    (u65, *_), (*_, u80) = ([pair[1] for pair in by[2:4]] for by in won(page, "cautious, oob, s = 1"))
    (always65, *_), (*_, always80) = ([pair[1] for pair in by[2:4]] for by in won(page, "one class, learned"))
    words = "loses to it on # of # sets by u65, and on # by u80; so does always deciding, on # and #"
    DECISIONS.says(words, (u65, 35, u80, always65, always80), 0)
    DECISIONS.says("are worth more on # sets and less on # (u65)", won(page, "conformal, oob")[0][4], 0)
    DECISIONS.says("kept on # of # sets", map(float, re.search(r"kept on (\d+) of (\d+) sets", page).groups()), 0)


def test_what_learning_brings():
    """Each cell of wins, losses and a gain stands in the page that the study writes."""
    page = page_of("learning")
    told = re.findall(r"\d+:\d+,? [+-]\d+\.\d %", LEARNING.said)
    assert len(told) > 50
    assert not [cell for cell in told if cell.replace(",", "") not in page]
    grown = page.partition("\n## Random forests, grown out, on the sets of development\n")[2]
    rows = {
        "pool": "learned pool, grown-out forests",
        "P": "best calibrator of sixteen, grown out",
        "fixed": "best fixed combiner, chosen out of bag",
        "tree weights": "weights per tree, calibrated (one fold)",
        "leaf counts": "counts of every leaf learned (one fold)",
        "HistGradientBoosting": "`HistGradientBoosting`, as it comes (two folds)",
    }
    for name, said in rows.items():
        cells = re.search(rf"^\| `{name}` (\|.*\|)$", grown, re.M)[1]
        assert f"| {said} {cells.replace('|  |', '| |')}" in LEARNING.text, name
    by_both_clips = {
        "on sets that nothing here was developed on": "26 sets that it was not developed on, two folds, 1e-6",
        "on the sets of development, by both clips": "35 sets of development, two folds, 1e-6",
    }
    for of, said in by_both_clips.items():
        section = page.partition(f"\n## Random forests, grown out, {of}\n")[2]
        at_1e15, at_1e6 = re.findall(r"^\| `pool` (\|.*\|)$", section, re.M)[:2]
        assert f"| {said} {at_1e6}\n| the same, 1e-15 {at_1e15}\n" in LEARNING.text, of


def test_the_fewest_trees():
    page = page_of("voting")
    told = re.search(r"The trees are ([\d.]+) of those of the bound at \.99 in the median, ([\d.]+) at most", page)
    VOTING.says(
        "it takes # of the trees of the bound at .99 in the median, and # at most", map(float, told.groups()), 2
    )
    kept = re.search(r"At most 1 % differ on (\d+) of 13 sets, within two standard errors on 13", page)
    assert kept[1] == "10"
    assert "At most 1 % differ on ten sets, and on all within two standard errors" in VOTING.said
    as_many = re.search(
        r"it takes ([\d.]+) of the trees of the bound in the median, and ([\d.]+) of those of the f", page
    )
    VOTING.says("it takes # of the bound's trees and # of those", map(float, as_many.groups()), 2)


def test_votes_of_the_paper():
    page = flat(page_of("hernandez_lobato2011"))
    told = re.search(r"(\d+) (?:to|-|–) (\d+) % are settled, by (\d+) to (\d+) trees", page)
    VOTING.says("Of the votes # to # % are settled, by # to # trees", map(float, told.groups()), 0)
    mean = re.search(r"IB disagrees with the large ensemble by ([\d.]+) % in the mean", page)
    VOTING.says("Of the settled ones # % differ", [float(mean[1])], 2)


def test_growing_and_transduction():
    one, eight = results("growing-cpu")["growing"][:2]
    assert [one["min_samples_leaf"], eight["min_samples_leaf"]] == [1, 8]
    table = TREES.table("leaves of")
    assert rounded([table[0][1], table[1][1]], [x["ratio_to_sklearn"]["median"] for x in (one, eight)])
    nodes = [eight[engine]["nodes_per_tree"] for engine in ("jaxunc", "scikit-learn")]
    TREES.says("| #; scikit-learn's stop early, at #", nodes, 0)
    measured = results("transduction-cpu")
    TREES.says("on all # pairs of eight data sets", [sum(x["pairs"] for x in measured["every_pair"])], 0)
    assert not any(x["mismatches"] for x in measured["every_pair"])
    small, large = measured["synthetic"], measured["large"]
    said = TREES.claimed("| 3000 and 3000 | # s, in place of # trees at # s")
    assert same(said[0], small["cpu_s"], 1)
    assert said[1] == small["pairs"]
    assert same(said[2], small["full_cpu_s_per_pair"], 2)
    said = TREES.claimed("| 10 000 and 10 000 | # s | # MB |")
    assert same(said[0], large["cpu_s"], 0)
    assert abs(said[1] - (large["peak_mib"] - large["peak_mib_before"]) * 1.048576) < 1
    forms = {x["algorithm"]: x["cpu_s"] for x in measured["forms"][0]["forms"]}
    TREES.says("tic-tac-toe: # s in place of #", [forms["dense"], forms["grouped"]], 2)


def test_a_single_tree_and_transduction():
    page = page_of("costa2013")
    row = re.findall(r"^\| tree \| (\d+)/\d+/\d+ \| [<\d. ]+ \| ([\d.]+) \| ([\d.]+) \|", page, re.M)
    brier, auc, reliability, accuracy = row[:4]
    TREES.says("It ranks better on # sets (mean AUC # for #)", map(float, auc), 2)
    TREES.says("and on # it knows better", [float(reliability[0])], 0)
    TREES.says("it wins on # sets", [float(brier[0])], 0)
    TREES.says("accuracy (# for #)", map(float, accuracy[1:]), 3)
    pooled = re.search(r"better by all three measures\*\*: (.*?)\(pooling's wins first\)(.*?)\. ", flat(page))
    counts = [int(n) for n in re.findall(r"(\d+)/\d+/\d+", pooled[0])]
    shown = [numbers(cells[1:]) for cells in TREES.table("pooled leaves against")]
    shown[0][0] = float(re.search(r"on (\d+) sets", TREES.table("pooled leaves against")[0][1])[1])
    assert [count for row in shown for count in row][: len(counts)] == counts


def test_files_of_any_size():
    sizes = {(one["rows"], one["trees"], one["depth"]): one for one in results("scale-cpu")["sizes"]}
    table = FILES.table("rows")
    for (*_, ours, theirs), size in zip(table, [(2 * 10**7, 100, 8), (10**6, 100, 8), (10**6, 500, 8)], strict=True):
        known = [sizes[size][by]["seconds"]["median"] if by in sizes[size] else np.nan for by in ("files", "sklearn")]
        assert rounded([ours, theirs], known), size
    assert "at 1.0 GB" in table[0][2]
    large = sizes[2 * 10**7, 100, 8]
    assert same(1.0, large["files"]["peak_bytes"]["median"] / 1e9, 1)
    FILES.says("has # of the speed of the same rows in memory", [large["share_of_memory"]["median"]], 2)
    killed = results("scale-cpu")["killed"]
    assert len(killed["killed_after_seconds"]) == 3
    assert killed["same_bytes"]
    peaks = {one["layout"]: one["peak_bytes"] / 1e9 for one in results("scale-layouts-cpu")["layouts"]}
    kinds = ("Parquet, one file", "Parquet, files of", "Arrow", "CSV")
    for (_, cell), kind in zip(FILES.table("layout"), kinds, strict=True):
        found = [peak for layout, peak in peaks.items() if layout.startswith(kind)]
        assert rounded(cell.split(" to "), [min(found), max(found)][: len(found)]), kind


def test_devices():
    measured = results("devices-cpu")["strong"]
    cost = {mesh: one["cpu_ratio"]["median"] for mesh, one in measured.items() if mesh != "instances"}
    along = [cost[f"data {n}"] for n in (1, 2, 4, 8)]
    (_, data), (_, trees) = DEVICES.table("mesh")
    assert rounded(data.split(" to "), [min(along), max(along)])
    assert rounded([trees], [cost["tree 8"]])


def test_counts_of_boosted_models():
    told = re.findall(r"\d+:\d+, [+-][\d.]+ %", LIBRARIES.said)
    assert len(told) > 2
    assert not [cell for cell in told if cell.replace(",", "") not in page_of("boosted_counts")]


def test_the_paper():
    """It tells what the README and the pages tell, which are held to the files."""
    paper, readme = Page("docs/paper/paper.md"), Page("README.md")
    of_mean, of_calibrated, of_tuned = readme.table("against")
    assert readme.claimed("the learned pool on # data sets") == paper.claimed("was compared on # data sets")
    paper.says("it wins on # sets and loses on #", map(int, of_mean[1].split(":")), 0)
    paper.says("median gain of # %", numbers([of_mean[2]]), 1)
    said = paper.claimed("it is # to #, and against a forest that was tuned for log loss and then calibrated")
    assert said == [float(one) for one in of_calibrated[1].split(":")]
    assert f"best of sixteen, {of_tuned[1].replace(':', ' to ')}." in paper.said
    assert all("not told apart" in row[2] for row in (of_calibrated, of_tuned))
    assert "On three of the 35 sets and two of the 26 its log loss is above" in LEARNING.said
    assert "| log loss, of the best calibrator's | 1.23 | 1.16 | 1.13 | 1.10 | 6.8 |" in LEARNING.text
    assert "on three of the 35" in paper.said
    assert paper.claimed("it is # times as large") == [6.8]
    for words, other in (
        ("prediction takes # to # of scikit-learn's time", "Of scikit-learn's time it takes # to # on"),
        ("oneDAL takes # to # where trees are deep", "takes # to # where trees are deep"),
        ("and # against # at depth 8", "and # against # at depth 8"),
    ):
        assert paper.claimed(words) == readme.claimed(other)
    first = next(row for row in SPEED.table("trees and columns") if row[0] == "100 trees, depth 8, 30 columns")
    paper.says("one row takes # times as long here in 100 trees of depth 8", numbers(first[1:2]), 1)
    words = "compiles for # to # seconds"
    assert paper.claimed(words) == SPEED.claimed(words)
    rules = Page("docs/combiners.md")
    assert "gains more than .001 in the median by AUC, accuracy or Brier score" in rules.said
    assert "By log loss combiners gain up to .02" in rules.said
    assert "gains more than .001 in the median over" in paper.said


def test_files_that_are_named_exist():
    for page in (SPEED, DECISIONS, LEARNING, VOTING, TREES, FILES, DEVICES, LIBRARIES):
        for name in re.findall(r"`(?:benchmarks/results/)?([\w-]+\.json)`", page.text):
            assert (RESULTS / name).exists(), name


def test_each_notebook_and_study_is_listed():
    """Readers find notebooks by the page of tutorials, and how a study is run by that of reproducing."""
    listed = set(re.findall(r"^\* \[.*?\]\(\.\./(notebooks/\S+?\.ipynb)\)", page_text("docs/tutorials.md"), re.M))
    assert listed == {f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    told, run = (
        set(re.findall(r"benchmarks/studies/([\w/]+?)(?:/README)?\.md", page_text(f"docs/{name}.md")))
        for name in ("explanations/studies", "how_to/reproduce")
    )
    assert told - run == {"open_questions"}  # the one page that no study writes


def test_every_extra_is_told():
    extras = tomllib.loads(page_text("pyproject.toml"))["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*?) \|", page_text("docs/how_to/install.md"), re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(extras)


def page_text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
