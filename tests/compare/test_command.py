"""``jaxunc compare`` from end to end, on tiny forests."""

import io
import json
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

import jaxunc
from jaxunc import compare
from jaxunc.__main__ import main
from jaxunc.compare._evaluate import RANKED_MEASURES
from jaxunc.estimators import RandomDecisionTreesClassifier
from tests.compare._made_up import made_up_results

pytestmark = pytest.mark.once

MODELS = {"random-forest": RandomForestClassifier, "extra-trees": ExtraTreesClassifier}
TWO_CLASSES = [name for name, combiner in compare.COMPARED_COMBINERS.items() if not combiner.is_model]
MORE_CLASSES = [name for name in TWO_CLASSES if not compare.COMPARED_COMBINERS[name].binary_only]


def run(*arguments) -> tuple[str, str]:
    """What the command prints, on standard output and on standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        main(["compare", *map(str, arguments)])
    return out.getvalue(), err.getvalue()


def refused(capsys, *arguments) -> str:
    """The one line with which the command refuses its arguments."""
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("jaxunc: error: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """A study of the shipped data: 2 kinds of forests × 2 folds, one tree each, so that no sum rounds."""
    folder = tmp_path_factory.mktemp("binary")
    out, err = run("--trees", 1, "--folds", 2, "--repeats", 1, "--leaf-sizes", 4, "--report", folder)
    return out, err, json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """A study of three classes with a text column and gaps, and its file."""
    folder = tmp_path_factory.mktemp("wine")
    X, y = load_wine(return_X_y=True)
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(
        strength=np.array(["light", "strong"])[(X[:, 0] > 13).astype(int)], kind=np.array(["red", "rosé", "white"])[y]
    )
    frame.loc[::10, "b"] = np.nan
    frame.to_csv(folder / "wine.csv", index=False)
    settings = ("--trees", 2, "--folds", 2, "--repeats", 2, "--leaf-sizes", 9, 5, 5, "--forests", "random-forest")
    out, err = run(folder / "wine.csv", "--target", "kind", *settings, "--seed", 5, "--report", folder / "made")
    return out, err, json.loads((folder / "made" / "results.json").read_text()), folder / "wine.csv"


def records(document) -> list[dict]:
    """A dictionary per forest and combiner."""
    keys = ("forest", "leaf_size", "repeat", "fold")
    return [
        {**{key: forest[key] for key in keys}, "combiner": combiner, **values}
        for forest in document["forests"]
        for combiner, values in forest["measures"].items()
    ]


def expected_of_probability(table, settings):
    """What scikit-learn's own probabilities measure, for each record of the combiner "probability"."""
    folds = RepeatedStratifiedKFold(
        n_splits=settings["n_folds"], n_repeats=settings["n_repeats"], random_state=settings["seed"]
    )
    splits = list(folds.split(table.X, table.y))
    for forest in settings["forests"]:
        for leaf_size in settings["leaf_sizes"]:
            for i, (train, test) in enumerate(splits):
                model = MODELS[forest](
                    settings["n_trees"], min_samples_leaf=leaf_size, random_state=settings["seed"] + i
                )
                probs = model.fit(table.X[train], table.y[train]).predict_proba(table.X[test])
                y, binary = table.y[test], probs.shape[1] == 2
                yield {
                    "forest": forest,
                    "leaf_size": leaf_size,
                    "repeat": i // settings["n_folds"],
                    "fold": i % settings["n_folds"],
                    "combiner": "probability",
                    "accuracy": accuracy_score(y, probs.argmax(axis=1)),
                    "auc": roc_auc_score(y, probs[:, 1]) if binary else roc_auc_score(y, probs, multi_class="ovr"),
                    "brier": brier_score_loss(y, probs[:, 1])
                    if binary
                    else np.mean(np.sum((probs - np.eye(probs.shape[1])[y]) ** 2, axis=1)),
                    "log_loss": log_loss(y, probs, labels=range(probs.shape[1])),
                }


def assert_same_records(found, expected, *, auc=1e-6):
    expected = list(expected)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert {k: a[k] for k in ("forest", "leaf_size", "repeat", "fold", "combiner")} == {
            k: b[k] for k in ("forest", "leaf_size", "repeat", "fold", "combiner")
        }
        for name in RANKED_MEASURES:
            assert a[name] == pytest.approx(b[name], abs=auc if name == "auc" else 1e-6), name


@pytest.mark.exhaustive
def test_the_mean_of_probabilities_is_that_of_scikit_learn(binary, wine):
    """With more classes, text and gaps, too."""
    *_, document = binary
    found = [record for record in records(document) if record["combiner"] == "probability"]
    assert_same_records(found, expected_of_probability(compare.breast_cancer(), document["settings"]))
    _, _, document, path = wine
    found = [record for record in records(document) if record["combiner"] == "probability"]
    # Means that are equal but for the last bit are ties or none, and forests of two trees have many.
    expected = expected_of_probability(compare.study_table(path, "kind"), document["settings"])
    assert_same_records(found, expected, auc=5e-3)


@pytest.mark.parametrize("counts", ["inbag", "held_out"])
@pytest.mark.exhaustive
def test_random_decision_trees_on_text_and_gaps(wine, counts):
    table = compare.study_table(wine[3], "kind")
    assert len(table.nominal) == 1
    settings = compare.Settings(
        ("random-trees",), ("probability",), (5,), n_trees=2, n_repeats=1, n_folds=2, counts=counts
    )
    results = compare.run(table, settings, quiet=True)
    splits = RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=0).split(table.X, table.y)
    for (cell, outcome), (train, test) in zip(results.outcomes.items(), splits, strict=True):
        model = RandomDecisionTreesClassifier(
            2, "mean", min_samples_leaf=5, missing="random", nominal=list(table.nominal), random_state=cell.fold
        )
        if counts == "inbag":
            model.fit(table.X[train], table.y[train])
            assert outcome.measures["probability"]["accuracy"] == pytest.approx(
                model.score(table.X[test], table.y[test]), abs=1e-6
            )
        assert 0.3 < outcome.measures["probability"]["accuracy"] <= 1


@pytest.mark.exhaustive
def test_the_document_has_a_record_of_every_rule_and_says_what_was_run(binary, wine):
    for document, combiners, n_forests in ((binary[2], TWO_CLASSES, 4), (wine[2], MORE_CLASSES, 8)):
        assert Counter(record["combiner"] for record in records(document)) == dict.fromkeys(combiners, n_forests)
        bounded = ("accuracy", "auc", "calibration_error", "risk_coverage")
        assert all(0 <= record[name] <= 1 for record in records(document) for name in bounded)
        assert all(record["brier"] >= 0 and record["log_loss"] >= 0 for record in records(document))
    document = wine[2]
    assert (document["format"], document["format_version"]) == ("jaxunc compare", 6)
    assert document["data"]["classes"] == {"red": 59, "rosé": 71, "white": 48}
    assert document["settings"]["leaf_sizes"] == [5, 9]
    assert document["settings"]["seed"] == 5
    assert any("'strength'" in note for note in document["data"]["notes"])
    assert any("18 missing values" in note for note in document["data"]["notes"])


@pytest.mark.exhaustive
def test_what_is_printed(binary, wine):
    for out, err, document, *_ in (binary, wine):
        assert err == "", "what takes seconds needs no progress"
        assert max(map(len, out.splitlines())) <= 80
        assert "…" not in out, "nothing is cut off"
        rows = [line[1:].split()[0] for line in out.splitlines() if line[:1] in (" ", "*") and line.strip()]
        assert {name: rows.count(name) for name in document["combiners"]} == dict.fromkeys(document["combiners"], 1)
        assert out.split()[0] in ("Use", "Keep"), "the first line decides"
        assert "base rates" in out
    assert "569 instances, 30 features, 2 classes (malignant 212, benign 357)" in " ".join(binary[0].split())
    assert "4 forests of 1 tree " in binary[0]
    assert "Left out: plausibility, plausibility-p, confidence, median-pls" in wine[0]
    assert "and cautious-p, which compare two classes (here 3)." in " ".join(wine[0].split())
    assert "Left out" not in binary[0]


def test_a_terminal_without_unicode_gets_ascii():
    settings = compare.Settings(forests=("random-forest",), leaf_sizes=(1,), n_repeats=1, n_folds=2)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    compare.show(Console(file=stream, width=80), made_up_results(compare.breast_cancer(), settings))
    stream.flush()
    assert "log loss v" in stream.buffer.getvalue().decode("ascii")


BAD = {
    "unknown forest": (["--forests", "oak"], ["--forests='oak' is unknown", "random-forest, extra-trees"]),
    "unknown counts": (["--counts", "bag"], ["--counts='bag' is unknown", "inbag, train, oob, held_out"]),
    "rare class": (["--folds", "250"], ["fewer rows than --folds=250", "'malignant' (212)", "Lower --folds to 212"]),
    "bags of random trees": (["--forests", "random-trees", "--counts", "oob"], ["Leave random-trees out"]),
    "unknown option": (["--tree", "2", "--oak"], ["unrecognized arguments: --oak", "--help"]),
}
"""What `tests/commands/test_misuse.py` does not have."""


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_arguments_get_one_line(capsys, arguments, said):
    message = refused(capsys, "compare", *arguments)
    for words in said:
        assert words in message


@pytest.mark.room
def test_bad_data_get_one_line(capsys, tmp_path):
    """A class that no tree has seen is refused, too."""
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(8)))
    assert "8 rows, too few for --folds=5" in refused(capsys, "compare", tmp_path / "t.csv", "--target", "y")
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},{'x' if i else 'z'}\n" for i in range(20)))
    message = refused(capsys, "compare", tmp_path / "t.csv", "--target", "y")
    assert "'z' (1)" in message
    assert "Merge or leave out" in message
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},{'z' if i in (0, 1) else i % 2}\n" for i in range(40)))
    one_tree = ("--trees", 1, "--folds", 2, "--repeats", 20, "--leaf-sizes", 1, "--forests", "random-forest")
    message = refused(capsys, "compare", tmp_path / "t.csv", "--target", "y", *one_tree)
    assert "a class is in none of the samples" in message
    assert "Raise --trees" in message


@pytest.mark.parametrize(("module", "package"), [("rich.console", "rich"), ("pandas", "pandas")])
def test_an_absent_package_is_named(capsys, monkeypatch, module, package):
    for name in [name for name in sys.modules if name.startswith("jaxunc.compare")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(jaxunc, "compare")
    monkeypatch.setitem(sys.modules, module, None)
    message = refused(capsys, "compare")
    assert f"needs the package {package}" in message
    assert 'pip install "jaxunc[cli]"' in message


def test_without_a_command_there_is_help(capsys):
    main([])
    assert "compare" in capsys.readouterr().out
