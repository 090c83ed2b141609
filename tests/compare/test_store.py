"""Results as they finish: interrupted, resumed, refused."""

import json

import pytest

from jaxunc import compare
from jaxunc.compare._store import describe
from tests._refusal import refuses
from tests.compare._made_up import made_up_results

pytestmark = pytest.mark.once

SETTINGS = compare.Settings(forests=("random-forest",), combiners=("probability", "vote"), leaf_sizes=(1, 4), n_trees=3)


@pytest.fixture(scope="module")
def table():
    """The shipped data."""
    return compare.breast_cancer()


def outcomes(table):
    """All outcomes of a made-up study, in order."""
    return list(made_up_results(table, SETTINGS, SETTINGS.combiners).outcomes.items())


def filled(table, folder):
    """A store that holds all outcomes, and has not been finished."""
    store = compare.Store(folder, table, SETTINGS)
    for cell, outcome in outcomes(table):
        store.add(cell, outcome)
    return store


def test_interrupted_and_resumed_it_writes_the_same_bytes(table, tmp_path):
    whole = filled(table, tmp_path / "whole")
    whole.finish()
    begun = compare.Store(tmp_path / "parts", table, SETTINGS)
    for cell, outcome in outcomes(table)[::-1][:3]:
        begun.add(cell, outcome)
    journal = tmp_path / "parts" / "unfinished.jsonl"
    with journal.open("ab") as file:
        file.write(journal.read_bytes().splitlines()[1][:50])
    resumed = compare.Store(tmp_path / "parts", table, SETTINGS)
    assert len(resumed.outcomes) == 3, "the line that was cut off is not counted"
    for cell, outcome in outcomes(table)[:-3]:
        resumed.add(cell, outcome)
    assert resumed.complete
    resumed.finish()
    assert (tmp_path / "parts" / "results.json").read_bytes() == (tmp_path / "whole" / "results.json").read_bytes()
    assert not journal.exists()
    again = compare.Store(tmp_path / "parts", table, SETTINGS)
    assert again.complete
    assert again.finish() == whole.finish()


@pytest.mark.exhaustive
def test_a_real_study_goes_on_where_it_stopped(table, tmp_path):
    settings = compare.Settings(("random-forest",), ("probability",), (9,), n_trees=1, n_repeats=1, n_folds=3)
    whole = compare.run(table, settings, tmp_path / "whole", quiet=True)
    begun = compare.Store(tmp_path / "parts", table, settings)
    study = compare.study(table, settings)
    begun.add(*next(study))
    study.close()
    assert compare.run(table, settings, tmp_path / "parts", quiet=True) == whole
    assert (tmp_path / "parts" / "results.json").read_bytes() == (tmp_path / "whole" / "results.json").read_bytes()


@pytest.mark.parametrize("file", ["results.json", "unfinished.jsonl"])
def test_another_run_is_refused(table, tmp_path, file):
    store = filled(table, tmp_path)
    if file == "results.json":
        store.finish()
    before = (tmp_path / file).read_bytes()
    with pytest.raises(ValueError, match=f"holds another run .{file}.: settings.seed was 0, is now 1"):
        compare.Store(tmp_path, table, compare.Settings(**{**vars(SETTINGS), "seed": 1}))
    shifted = table._replace(X=table.X + 1)
    refuses(ValueError, r"data\.sha256 was", compare.Store, tmp_path, shifted, SETTINGS)
    assert (tmp_path / file).read_bytes() == before, "nothing is lost"


def test_results_of_an_older_format_and_that_lack_forests_are_refused(table, tmp_path):
    filled(table, tmp_path).finish()
    path = tmp_path / "results.json"
    document = {**json.loads(path.read_text()), "format_version": 5}
    for entry in document["forests"]:
        del entry["positive"]
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"holds another run .results\.json.: format_version was 5, is now 6\. Choose"):
        compare.Store(tmp_path, table, SETTINGS)
    filled(table, tmp_path / "other").finish()
    path = tmp_path / "other" / "results.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "forests": document["forests"][1:]}))
    refuses(ValueError, "lacks forests", compare.Store, tmp_path / "other", table, SETTINGS)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("results.json", text) for text in ("", "[]", "{}", "no JSON", '{"forests": [{}]}', '{"forests": 3}')),
        *(("unfinished.jsonl", first + "\n") for first in ("[]", "null", "3")),
    ],
)
def test_a_file_of_something_else_is_refused(table, tmp_path, file, content):
    (tmp_path / file).write_text(content, encoding="utf-8")
    match = r"results\.json" if file == "results.json" else r"holds another run .unfinished\.jsonl"
    refuses(ValueError, match, compare.Store, tmp_path, table, SETTINGS)
    assert (tmp_path / file).read_text() == content


def without(key):
    return lambda entry: entry.pop(key)


DAMAGES = {
    "no measures": lambda entry: entry.update(measures={}),
    "null": lambda entry: entry.update(measures=None),
    "a combiner short": lambda entry: entry["measures"].pop("vote"),
    "NaN": lambda entry: entry["measures"]["vote"].update(auc=float("nan")),
    "a word": lambda entry: entry["measures"]["vote"].update(auc="high"),
    "short curve": lambda entry: entry["rejection"]["vote"].pop(),
    "short bins": lambda entry: entry["reliability"]["vote"]["size"].pop(),
    "no cell": lambda entry: entry.update(fold=99),
    "no rejection": without("rejection"),
    "no sets": without("sets"),
    "an s short": lambda entry: entry["sets"].pop("5"),
    "no utility": lambda entry: entry["sets"]["2"].update(u65=None),
    "no measure": lambda entry: entry["measures"]["vote"].update(auc=None),
    "no set sizes": without("set_sizes"),
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
def test_damaged_outcomes_are_run_again_or_refused(table, tmp_path, damage):
    filled(table, tmp_path)
    journal = tmp_path / "unfinished.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[3])
    damage(entry)
    journal.write_text("\n".join([*lines[:3], json.dumps(entry), *lines[4:]]) + "\n", encoding="utf-8")
    assert len(compare.Store(tmp_path, table, SETTINGS).outcomes) == 2
    document = {**describe(table, SETTINGS), "forests": [*map(json.loads, lines[1:3]), entry]}
    (tmp_path / "results.json").write_text(json.dumps(document), encoding="utf-8")
    refuses(ValueError, r"results\.json", compare.Store, tmp_path, table, SETTINGS)
