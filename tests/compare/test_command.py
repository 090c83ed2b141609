"""``jaxunc compare`` from end to end, on tiny forests."""

import io
import itertools
import json
import re
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

import jaxunc
from jaxunc import compare
from jaxunc.__main__ import main
from jaxunc.estimators import RandomDecisionTreesClassifier
from tests.commands._lines import refusal
from tests.compare._made_up import made_up_results, shown

pytestmark = pytest.mark.once

MODELS = {"random-forest": RandomForestClassifier, "extra-trees": ExtraTreesClassifier}
TWO_CLASSES = [name for name, combiner in compare.COMPARED_COMBINERS.items() if not combiner.is_model]
MORE_CLASSES = [name for name in TWO_CLASSES if not compare.COMPARED_COMBINERS[name].binary_only]


def run(*arguments) -> tuple[str, str]:
    """What the command prints, on standard output and on standard error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("jaxunc.compare._study._EVERY", np.inf)  # a busy machine takes half a minute, too
        main(["compare", *map(str, arguments)])
    return out.getvalue(), err.getvalue()


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


def measures_of_scikit_learn(table, forest, leaf_size, repeat, fold, settings) -> dict[str, float]:
    """What scikit-learn's own probabilities measure in a cell of a study."""
    sizes = {"n_splits": settings["n_folds"], "n_repeats": settings["n_repeats"]}
    splits = RepeatedStratifiedKFold(**sizes, random_state=settings["seed"]).split(table.X, table.y)
    i = repeat * settings["n_folds"] + fold
    train, test = list(splits)[i]
    model = MODELS[forest](settings["n_trees"], min_samples_leaf=leaf_size, random_state=settings["seed"] + i)
    probs = model.fit(table.X[train], table.y[train]).predict_proba(table.X[test])
    y, (_, n_classes) = table.y[test], probs.shape
    certain = probs[:, 1] if n_classes == 2 else probs
    squares = np.sum((probs - np.eye(n_classes)[y]) ** 2, axis=1)
    return {
        "accuracy": accuracy_score(y, probs.argmax(axis=1)),
        "auc": roc_auc_score(y, certain, multi_class="ovr"),
        "brier": brier_score_loss(y, certain) if n_classes == 2 else squares.mean(),
        "log_loss": log_loss(y, probs, labels=range(n_classes)),
    }


@pytest.mark.exhaustive
def test_the_mean_of_probabilities_is_that_of_scikit_learn(binary, wine):
    """With more classes, text and gaps, too."""
    # Means that are equal but for the last bit are ties or none, and forests of two trees have many.
    for table, document, auc in (
        (compare.breast_cancer(), binary[2], 1e-6),
        (compare.study_table(wine[3], "kind"), wine[2], 5e-3),
    ):
        settings, sizes = document["settings"], [document["settings"][name] for name in ("n_repeats", "n_folds")]
        cells = [tuple(entry[key] for key in compare.Cell._fields) for entry in document["forests"]]
        assert cells == [*itertools.product(settings["forests"], settings["leaf_sizes"], *map(range, sizes))]
        for cell, entry in zip(cells, document["forests"], strict=True):
            for name, value in measures_of_scikit_learn(table, *cell, settings).items():
                found = entry["measures"]["probability"][name]
                assert found == pytest.approx(value, abs=auc if name == "auc" else 1e-6), name


@pytest.mark.parametrize("counts", ["inbag", "held_out"])
@pytest.mark.exhaustive
def test_random_decision_trees_on_text_and_gaps(wine, counts):
    table = compare.study_table(wine[3], "kind")
    assert len(table.nominal) == 1
    sizes = {"n_trees": 2, "n_repeats": 1, "n_folds": 2}
    settings = compare.Settings(("random-trees",), ("probability",), (5,), counts=counts, **sizes)
    results = compare.run(table, settings, quiet=True)
    splits = RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=0).split(table.X, table.y)
    more = {"min_samples_leaf": 5, "missing": "random", "nominal": list(table.nominal)}
    for (cell, outcome), (train, test) in zip(results.outcomes.items(), splits, strict=True):
        accuracy = outcome.measures["probability"]["accuracy"]
        assert 0.3 < accuracy <= 1
        if counts == "inbag":
            model = RandomDecisionTreesClassifier(2, "mean", random_state=cell.fold, **more)
            model.fit(table.X[train], table.y[train])
            assert accuracy == pytest.approx(model.score(table.X[test], table.y[test]), abs=1e-6)


@pytest.mark.exhaustive
def test_the_document_has_a_record_of_every_rule_and_says_what_was_run(binary, wine):
    for document, combiners, n_forests in ((binary[2], TWO_CLASSES, 4), (wine[2], MORE_CLASSES, 8)):
        records = [measures for entry in document["forests"] for measures in entry["measures"].values()]
        names = Counter(name for entry in document["forests"] for name in entry["measures"])
        assert names == dict.fromkeys(combiners, n_forests)
        bounded = ("accuracy", "auc", "calibration_error", "risk_coverage")
        assert all(0 <= record[name] <= 1 for record in records for name in bounded)
        assert all(record["brier"] >= 0 and record["log_loss"] >= 0 for record in records)
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
        n_parts = document["settings"]["n_folds"] * document["settings"]["n_repeats"]
        assert out.startswith(f"Undecided: {n_parts} test parts are too few"), "the first line decides"
        assert "base rates" in out
    assert "569 instances, 30 features, 2 classes (malignant 212, benign 357)" in " ".join(binary[0].split())
    assert "4 forests of 1 tree " in binary[0]
    assert "Left out: plausibility, plausibility-p, confidence, median-pls" in wine[0]
    assert "and cautious-p, which compare two classes (here 3)." in " ".join(wine[0].split())
    assert "Left out" not in binary[0]


def test_a_terminal_without_unicode_gets_ascii():
    settings = compare.Settings(forests=("random-forest",), leaf_sizes=(1,), n_repeats=1, n_folds=2)
    assert "log loss v" in shown(made_up_results(compare.breast_cancer(), settings), 80, "ascii")


ONE_TREE = ("--trees", 1, "--folds", 2, "--repeats", 20, "--leaf-sizes", 1, "--forests", "random-forest")
DATA = {
    "few rows": ([i % 2 for i in range(8)], (), "8 rows, too few for --folds=5"),
    "rare": (["z", *"x" * 19], (), r"'z' \(1\).*Merge or leave out"),
    "that no tree has seen": ([*"zz", *"01" * 19], ONE_TREE, "a class is in none of the samples.*Raise --trees"),
}


@pytest.mark.room
@pytest.mark.parametrize(("labels", "more", "said"), DATA.values(), ids=DATA)
def test_bad_data_get_one_line(capsys, tmp_path, labels, more, said):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    told = refusal(capsys, "compare", tmp_path / "t.csv", "--target", "y", *more)
    assert re.fullmatch(f"jaxunc: error: .*{said}.*\n", told)


@pytest.mark.parametrize(("module", "package"), [("rich.console", "rich"), ("pandas", "pandas")])
def test_an_absent_package_is_named(capsys, monkeypatch, module, package):
    for name in [name for name in sys.modules if name.startswith("jaxunc.compare")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(jaxunc, "compare")
    monkeypatch.setitem(sys.modules, module, None)
    told = refusal(capsys, "compare")
    assert re.fullmatch(rf'jaxunc: error: .*needs the package {package}.*pip install "jaxunc\[cli\]".*\n', told)


def test_without_a_command_there_is_help(capsys):
    main([])
    assert "compare" in capsys.readouterr().out
