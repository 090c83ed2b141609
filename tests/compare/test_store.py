"""Results as they finish: interrupted, resumed, refused."""

import json

import pytest

from jaxunc import compare
from jaxunc.compare._store import describe
from tests._refusal import refuses
from tests.compare._made_up import made_up_results

pytestmark = pytest.mark.once

SETTINGS = compare.Settings(forests=("random-forest",), combiners=("probability", "vote"), leaf_sizes=(1, 4), n_trees=3)


TABLE = compare.breast_cancer()
OUTCOMES = list(made_up_results(TABLE, SETTINGS, SETTINGS.combiners).outcomes.items())


def opened(folder, settings=SETTINGS, table=TABLE):
    return compare.Store(folder, table, settings)


def filled(folder, outcomes=OUTCOMES):
    """A store to which outcomes are added, and that has not been finished."""
    store = opened(folder)
    for cell, outcome in outcomes:
        store.add(cell, outcome)
    return store


def test_interrupted_and_resumed_it_writes_the_same_bytes(tmp_path):
    whole, parts = filled(tmp_path / "whole"), tmp_path / "parts"
    whole.finish()
    filled(parts, OUTCOMES[::-1][:3])
    journal = parts / "unfinished.jsonl"
    with journal.open("ab") as file:
        file.write(journal.read_bytes().splitlines()[1][:50])
    assert len(opened(parts).outcomes) == 3, "the line that was cut off is not counted"
    resumed = filled(parts, OUTCOMES[:-3])
    assert resumed.complete
    resumed.finish()
    assert (parts / "results.json").read_bytes() == (tmp_path / "whole" / "results.json").read_bytes()
    assert not journal.exists()
    again = opened(parts)
    assert again.complete
    assert again.finish() == whole.finish()


@pytest.mark.exhaustive
def test_a_real_study_goes_on_where_it_stopped(tmp_path):
    settings = compare.Settings(("random-forest",), ("probability",), (9,), n_trees=1, n_repeats=1, n_folds=3)
    whole = compare.run(TABLE, settings, tmp_path / "whole", quiet=True)
    study = compare.study(TABLE, settings)
    opened(tmp_path / "parts", settings).add(*next(study))
    study.close()
    assert compare.run(TABLE, settings, tmp_path / "parts", quiet=True) == whole
    assert (tmp_path / "parts" / "results.json").read_bytes() == (tmp_path / "whole" / "results.json").read_bytes()


@pytest.mark.parametrize("file", ["results.json", "unfinished.jsonl"])
def test_another_run_is_refused(tmp_path, file):
    store = filled(tmp_path)
    if file == "results.json":
        store.finish()
    before, other = (tmp_path / file).read_bytes(), compare.Settings(**{**vars(SETTINGS), "seed": 1})
    refuses(ValueError, f"holds another run .{file}.: settings.seed was 0, is now 1", opened, tmp_path, other)
    refuses(ValueError, r"data\.sha256 was", opened, tmp_path, table=TABLE._replace(X=TABLE.X + 1))
    assert (tmp_path / file).read_bytes() == before, "nothing is lost"


def test_results_of_an_older_format_and_that_lack_forests_are_refused(tmp_path):
    filled(tmp_path).finish()
    path = tmp_path / "results.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "forests": document["forests"][1:]}))
    refuses(ValueError, "lacks forests", opened, tmp_path)
    for entry in document["forests"]:
        del entry["positive"]
    path.write_text(json.dumps({**document, "format_version": 5}))
    older = r"holds another run .results\.json.: format_version was 5, is now 6\. Choose"
    refuses(ValueError, older, opened, tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("results.json", text) for text in ("", "[]", "{}", "no JSON", '{"forests": [{}]}', '{"forests": 3}')),
        *(("unfinished.jsonl", first + "\n") for first in ("[]", "null", "3")),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, file, content):
    (tmp_path / file).write_text(content, encoding="utf-8")
    refuses(ValueError, file if file == "results.json" else f"holds another run .{file}", opened, tmp_path)
    assert (tmp_path / file).read_text() == content


DAMAGES = {
    "no measures": lambda entry: entry.update(measures={}),
    "null": lambda entry: entry.update(measures=None),
    "a combiner short": lambda entry: entry["measures"].pop("vote"),
    "NaN": lambda entry: entry["measures"]["vote"].update(auc=float("nan")),
    "a word": lambda entry: entry["measures"]["vote"].update(auc="high"),
    "short curve": lambda entry: entry["rejection"]["vote"].pop(),
    "short bins": lambda entry: entry["reliability"]["vote"]["size"].pop(),
    "no cell": lambda entry: entry.update(fold=99),
    "no rejection": lambda entry: entry.pop("rejection"),
    "no sets": lambda entry: entry.pop("sets"),
    "an s short": lambda entry: entry["sets"].pop("5"),
    "no utility": lambda entry: entry["sets"]["2"].update(u65=None),
    "no measure": lambda entry: entry["measures"]["vote"].update(auc=None),
    "no set sizes": lambda entry: entry.pop("set_sizes"),
    "an s of sizes short": lambda entry: entry["set_sizes"].pop("20"),
    "a size short": lambda entry: entry["set_sizes"]["1"].pop(),
    "no intervals": lambda entry: entry.update(intervals={}),
    "short intervals": lambda entry: entry["intervals"]["upper"].pop(),
    "no end": lambda entry: entry["intervals"]["lower"].__setitem__(3, None),
    "no Brier range": lambda entry: entry.update(brier_range={}),
    "no trees": lambda entry: entry["polling"].pop("n_polled"),
    "no positives": lambda entry: entry["positive"].pop("vote"),
    "a top short": lambda entry: entry["positive"]["vote"]["top"].pop(),
    "costs": lambda entry: entry.update(costs={"vote": 1.0}),
    "a doubtful row short": lambda entry: entry["doubtful"][0].pop("truth"),
    "a doubtful row without a truth": lambda entry: entry["doubtful"][0].update(truth=None),
    "numbers for text": lambda entry: entry["doubtful"][0].update(columns={"a": 1}),
    "a row alike of no class": lambda entry: entry["doubtful"][0]["alike"][0].__setitem__(1, 9),
    "no row alike": lambda entry: entry["doubtful"][0].update(alike=[]),
    "infinite Brier": lambda entry: entry["brier_range"].update(upper=float("inf")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_outcomes_are_run_again_or_refused(tmp_path, damage):
    filled(tmp_path, OUTCOMES[:4])
    journal = tmp_path / "unfinished.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[3])
    damage(entry)
    journal.write_text("\n".join([*lines[:3], json.dumps(entry), *lines[4:]]) + "\n", encoding="utf-8")
    assert len(opened(tmp_path).outcomes) == 2
    document = {**describe(TABLE, SETTINGS), "forests": [*map(json.loads, lines[1:3]), entry]}
    (tmp_path / "results.json").write_text(json.dumps(document), encoding="utf-8")
    refuses(ValueError, r"results\.json", opened, tmp_path)
