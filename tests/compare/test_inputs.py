"""Reading a table: what becomes of its columns, and what is refused.

How cells of files are read, and what every command refuses of them, `tests/streaming` and `tests/commands` test.
"""

import json

import joblib
import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from jaxunc import compare
from jaxunc.compare._models import _dense, read_refitted_model
from jaxunc.compare._table import positive_class
from tests._refusal import refuses

pytestmark = pytest.mark.once


@pytest.fixture
def write(tmp_path):
    """Write text to a file of that name, or a frame with its settings, and return its path."""

    def write(name: str, content: str | pd.DataFrame, **settings):
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            content.to_parquet(path) if name.endswith("parquet") else content.to_csv(
                path, **{"index": False} | settings
            )
        return path

    return write


def test_columns_of_a_csv_file_and_decimal_commas(write):
    table = compare.study_table(write("t.csv", "size,colour,y\n1.5,red,no\n,blue,yes\n2.5,,yes\n"), "y")
    np.testing.assert_array_equal(table.X, [[1.5, 1], [np.nan, 0], [2.5, np.nan]])
    np.testing.assert_array_equal(table.y, [0, 1, 1])
    assert table.class_labels == ("no", "yes")
    encoded, missing = table.notes
    assert ("'colour'" in encoded, "size" in encoded) == (True, False)
    assert missing.startswith("2 missing values in 2 columns")
    dots = "a;b;y\n1000.5;x;0\n20.1;2,5;1\n-0.7;;0\n;1,0;1\n"
    found = compare.study_table(write("t.csv", dots.replace(".", ",")), "y")
    np.testing.assert_array_equal(found.X[:, 0], [1000.5, 20.1, -0.7, np.nan])
    assert "'b'" in found.notes[0], "a column with words stays text"


def test_columns_of_a_parquet_file(write):
    columns = {
        "float": ([0.5, np.nan, 2.0, 3.0], [0.5, np.nan, 2, 3]),
        "integer": (pd.array([3, None, 1, 2], dtype="Int64"), [3, np.nan, 1, 2]),
        "logical": ([True, False, True, True], [1, 0, 1, 1]),
        "ordered": (pd.Categorical(["low", "high", "mid", "low"], ["low", "mid", "high"], ordered=True), [0, 2, 1, 0]),
        "mixed": (pd.array(["b", 1, None, "a"], "object"), [2, 0, np.nan, 1]),
        "date": (pd.to_datetime(["2024-05-01", "2023-01-01", "2025-01-01", "2023-06-01"]), [2, 0, 3, 1]),
    }
    frame = pd.DataFrame({name: cells for name, (cells, _) in columns.items()}).astype({"mixed": "string"})
    frame = frame.assign(constant=7, nothing=[None] * 4, y=[10, 9, 10, 9])
    table = compare.study_table(write("t.parquet", frame), "y")
    np.testing.assert_array_equal(table.X, np.column_stack([codes for _, codes in columns.values()]))
    assert table.class_labels == ("9", "10"), "numbers sort as numbers"
    notes = " ".join(table.notes)
    assert "constant: 'constant'; all missing: 'nothing'" in notes
    assert all(name in notes.split("Left out")[0] for name in ("logical", "ordered", "mixed", "date"))


def test_classes_that_are_numbers(write):
    """Whole ones have no decimals, and may be many; rows without a class are left out and counted."""
    assert compare.study_table(write("t.csv", "a,y\n1,2.0\n2,1.0\n"), "y").class_labels == ("1", "2")
    many = "a,y\n" + "".join(f"{i},{i % 25}\n" for i in range(500))
    assert len(compare.study_table(write("t.csv", many), "y").class_labels) == 25
    table = compare.study_table(write("t.csv", ROWS + "1,2,\n3,4,NA\n"), "y")
    assert len(table.y) == 40
    assert table.class_labels == ("0", "1"), "integers with a gap stay integers"
    assert "2 of 42 rows have no 'y' (first in row 41 of the data)" in table.notes[0]


ROWS = "a,b,y\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(40))
QUANTITY = "a,y\n" + "".join(f"{i},{i / 7:.3f}\n" for i in range(40))
WHOLE = "a,y\n" + "".join(f"{i},{i % 7}\n" for i in range(40))
WORDY = WHOLE.replace(",1\n", ",x\n")


def row(content, *said: str, name="t.csv", target="y", numbers: bool | None = None) -> tuple:
    return content, said, name, (target, (), numbers)


REFUSED = {
    "not gzip": row("a,y\n1,2\n", "cannot be read as CSV", "gzip", name="t.csv.gz"),
    "unknown target": row(ROWS, "has no column 'Y'", "Did you mean 'y'?", "'a', 'b', 'y'", target="Y"),
    "infinite": row(ROWS + "1,2,\n1,inf,0\n-inf,1e39,0\n", "column 'a' of", "1 infinite", "first in row 43 of"),
    "infinite target": row("a,y\n1,.5\n2,\n3,inf\n4,-inf\n5,1\n", "infinite in 2 of 5 rows (row 3 of the data first)"),
    "huge target": row("a,y\n1,1e17\n2,2e17\n", "beyond 2^53", "a quantity in a larger unit"),
    "only the target": row("y\n0\n1\n", "no column besides the target"),
    "nothing varies": row("a,b,y\n1,,0\n1,,1\n", "no feature to learn from", "all 2 columns"),
    "a quantity": row(QUANTITY, "40 different numbers in 40 rows: a quantity, but combiners need", numbers=False),
    "no numbers": row(WORDY, "--target='y' of", "and no numbers, which --laws is for", numbers=True),
}


@pytest.mark.parametrize(("content", "said", "name", "asked"), REFUSED.values(), ids=REFUSED)
def test_refused(write, content, said, name, asked):
    with pytest.raises(ValueError, match=r"DATA|--target|the column|no column") as caught:
        compare.study_table(write(name, content), *asked)
    for words in said:
        assert words in str(caught.value)


MANY = "a,y\n" + "".join(f"{i},{i % 101}\n" for i in range(909))
TAKEN = {
    "fractions": (QUANTITY, None, (), "'y' is taken for a number, of 40 different values; --combiners takes it"),
    "few fractions": (WHOLE.replace(",1\n", ",1.5\n"), None, (), "taken for a number, of 7"),
    "many integers": (MANY, None, (), "taken for a number, of 101"),
    "few integers": (WHOLE, None, tuple("0123456"), "7 different numbers, taken for classes; --laws takes them"),
    "few, as numbers": (WHOLE, True, (), "'y' is taken for a number, of 7 different values"),
    "many, as classes": (MANY, False, tuple(map(str, range(101))), "101 different numbers, taken for classes"),
    "two": (ROWS, None, ("0", "1"), ""),
    "words": (WORDY, None, (*"023456", "x"), ""),
}


@pytest.mark.parametrize(("content", "numbers", "labels", "said"), TAKEN.values(), ids=TAKEN)
def test_what_a_target_is_taken_for(write, content, numbers, labels, said):
    table = compare.study_table(write("t.csv", content), "y", (), numbers)
    assert table.class_labels == labels
    assert said in table.taken
    assert bool(said) == bool(table.taken)
    assert (table.y.dtype.kind == "f") == (not labels)
    assert not [warning for warning in table.warnings if "one for one" in warning and not labels]


MARKED = {
    "thousands": [f"{i + 1},{i:03d}" for i in range(40)],
    "thousands and decimals": [f"{i}.{i:03d}.000,{i}" for i in range(40)],
    "currency": [f"$ {i}.50" for i in range(40)],
    "currency behind": [f"{i},5 €" for i in range(40)],
    "percent": [f"{i}.5%" for i in range(40)],
    "decimal comma": [f"-{i},5" for i in range(40)],
    "unit": [f"{i} km/h" for i in range(40)],
    "unknown": [f"{i / 8}" if i % 4 else "unknown" for i in range(40)],
    "plain": list(map(str, range(40))),
    "ranges": [f"{i}-{i + 10}" for i in range(40)],
    "few": [f"{i % 20},5" for i in range(40)],
    "repeated": [f"{i},5" for i in range(30)] * 6,
    "names": [f"c{i}" for i in range(40)],
    "letters": [f"{i}{letter}" for i in range(10) for letter in "abcd"],
    "words": [f"{'of many words' * (i % 2)}{i}" for i in range(40)],
}
CLASSES = ("ranges", "few", "repeated", "names", "letters", "words")


@pytest.mark.parametrize("kind", MARKED)
def test_numbers_that_are_written_as_text_are_no_classes_by_accident(write, kind):
    texts = pd.Series(MARKED[kind], dtype=object)
    is_text = kind in ("plain", "thousands", "decimal comma", "few", "repeated")  # which text files have as numbers
    path = write("t.parquet" if is_text else "t.csv", pd.DataFrame({"a": np.arange(len(texts)), "y": texts}))
    if kind not in CLASSES:
        said = r"different texts are numbers.*if these are classes, add --combiners"
        refuses(ValueError, said, compare.study_table, path, "y")
    labels = compare.study_table(path, "y", (), None if kind in CLASSES else False).class_labels
    assert labels == tuple(sorted(set(texts)))


@pytest.mark.parametrize(("factor", "unit"), [(1e-9, 1e-9), (1, 1), (1e12, 1e12)])
def test_numbers_come_in_units_of_their_spread(write, factor, unit):
    """Differences below 1e-6 are ties, so a target counts in units by which it differs."""
    numbers = np.random.default_rng(0).normal(5, 3, 60).round(3)
    content = "a,y\n" + "".join(f"{i},{float(y) * factor!r}\n" for i, y in enumerate(numbers))
    table = compare.study_table(write("t.csv", content), "y")
    np.testing.assert_allclose(table.y, numbers * factor / unit, rtol=1e-12)
    assert [f"'y' is counted in units of {unit:g}."] * (unit != 1) == [n for n in table.notes if "units" in n]


def test_columns_of_one_name_are_refused(tmp_path):
    parquet.write_table(pyarrow.table([[1, 2], [3, 4], [0, 1]], names=["a", "a", "y"]), tmp_path / "t.parquet")
    match = r"several columns named 'a'|cannot be read as Parquet"
    refuses(ValueError, match, compare.study_table, tmp_path / "t.parquet", "y")


WORDS = {
    "left out": ["oops", "7", "12", "3"] * 10,
    "dash": ["-0.5", "-0.7", "12", "3.5"] * 9 + ["-"] * 4,
    "thousands": ["1,234", "999"] * 20,
    "percent": ["45%", "7%"] * 20,
    "dates": ["13/01/2024", "2/2/23"] * 20,
}


@pytest.mark.parametrize("kind", WORDS)
def test_numbers_that_read_as_text_are_doubted(write, kind):
    frame = pd.DataFrame({"a": WORDS[kind], "name": ["x1", "y", "2", "3"] * 10, "y": [0, 1, 1, 0, 1] * 8})
    frame["y"] = frame["y"].where(frame["a"] != "oops")  # only plain numbers stay, as texts
    # Text files have numbers by thousands.
    path = write("t.parquet" if kind == "thousands" else "t.csv", frame)
    (said,) = compare.study_table(path, "y").warnings
    assert all(words in said for words in ("'a'", "ordered letter by letter"))


def test_indices_and_large_classes(write):
    frame = pd.DataFrame({"a": [3, 1, 4, 1], "y": [0, 0, 1, 1]}, index=pd.Index([5, 7, 1, 2], name="who"))
    assert compare.study_table(write("t.parquet", frame), "y").X.shape == (4, 2), "with a name it is a column"
    (said,) = compare.study_table(write("t.csv", frame.reset_index(drop=True), index=True), "y").warnings
    assert all(words in said for words in ("'Unnamed: 0'", "numbers the rows"))
    path = write("t.csv", frame.assign(y=[2**62, 2**62 + 1] * 2))
    assert compare.study_table(path, "y").class_labels == (str(2**62), str(2**62 + 1))
    path = write("t.csv", frame.assign(y=np.array([2**63, 2**63 + 1] * 2, np.uint64)))
    assert compare.study_table(path, "y").class_labels == (str(2**63), str(2**63 + 1)), "not negative"


def test_runs_and_metadata_of_any_bytes(tmp_path):
    runs = [pyarrow.RunEndEncodedArray.from_arrays([2, 3, 4], cells) for cells in ([5.0, None, 6.0], ["u", None, "v"])]
    table = pyarrow.table(dict(zip("ay", runs, strict=True)), metadata={b"decimal": b"\xff"})
    with pyarrow.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
        file.write_table(table)
    read = compare.study_table(tmp_path / "t.arrow", "y")
    assert (read.X.ravel().tolist(), read.y.tolist(), read.class_labels) == ([5, 5, 6], [0, 0, 1], ("u", "v"))


def test_a_column_that_is_called_as_a_member_of_sparse_matrices():
    frame = pd.DataFrame({"toarray": [1.0, 2.0]})
    assert _dense(frame).tolist() == _dense(csr_array(frame)).tolist() == [[1], [2]]


def test_the_mean_goes_by_both_of_its_names():
    assert compare.Settings(combiners=["learned", "mean"]).combiners == ("probability", "learned")


def test_integers_of_numpy_are_kept_in_json():
    counted = {"n_trees": np.int64(3), "n_repeats": np.int32(1), "n_folds": np.uint8(2), "seed": np.int64(0)}
    json.dumps(vars(compare.Settings(leaf_sizes=np.array([4, 2]), **counted)))
    refuses(ValueError, "--trees=2.5 .* expected an integer", compare.Settings, n_trees=2.5)


def test_costs_that_settings_refuse():
    for wrong, said in (([[0, 1]], "no square"), ([0, 1], "no square"), ([[0, -1], [1, 0]], "holds -1")):
        refuses(ValueError, f"--costs.*{said}", compare.Settings, costs=wrong)
    match, settings = "--costs has 3 rows; expected one for each of 2 classes", compare.Settings(costs=1 - np.eye(3))
    refuses(ValueError, match, compare.run, compare.breast_cancer(), settings, quiet=True)


def test_the_positive_class_and_row_numbers(write):
    assert positive_class(compare.breast_cancer(), None) == "malignant"
    table = compare.study_table(write("t.csv", "id,a,y\n1,5,no\n2,6,\n3,7,yes\n4,8,yes\n5,,no\n"), "y", ["id"])
    assert positive_class(table, None) == "yes", "of equal ones the second"
    assert positive_class(table, "no") == "no"
    assert list(table.frame.index) == [1, 3, 4, 5]
    assert table.names == tuple(table.frame.columns) == ("a",)
    three = table._replace(y=np.array([0, 1, 2, 2]), class_labels=("no", "yes", "other"))
    assert positive_class(three, None) is None
    refuses(ValueError, "--positive='yes' is for two classes, and the target holds 3", positive_class, three, "yes")


class Doubling:
    """A step that makes rows."""

    def fit_transform(self, X, y=None):
        return np.concatenate([X[["a"]], X[["a"]]])

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[["a"]]

    def fit_resample(self, X, y):
        return X, y


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:every leaf of this forest")
def test_a_pipeline_is_fitted_anew_on_raw_columns(tmp_path):
    """Its mean has the log loss that scikit-learn's own cross-validation finds, and its rows are shown as they are."""
    random = np.random.default_rng(0)
    a, word = random.normal(size=120), random.choice(["red", "green", "blue"], 120)
    y = np.where(a + (word == "red") + random.normal(size=120) > 0.5, "yes", "no")
    frame = pd.DataFrame({"a": np.where(random.uniform(size=120) < 0.1, np.nan, a), "more": 1.0, "word": word})
    frame.assign(kind=y).to_csv(tmp_path / "t.csv", index=False)
    steps = make_column_transformer((SimpleImputer(), ["a"]), (OneHotEncoder(handle_unknown="ignore"), ["word"]))
    forest = RandomForestClassifier(5, min_samples_leaf=4, class_weight={"yes": 2.0, "no": 1.0})
    pipeline = make_pipeline(steps, forest).fit(frame, y)
    joblib.dump(pipeline, tmp_path / "pipe.joblib")
    table = compare.study_table(tmp_path / "t.csv", "kind")
    given = read_refitted_model(str(tmp_path / "pipe.joblib"), table)
    assert given.about["steps"] == ["ColumnTransformer", "RandomForestClassifier"]
    settings = compare.Settings.for_model(5, refitted=True, combiners=("probability", "vote"), n_repeats=1, n_folds=3)
    results = compare.run(table, settings, quiet=True, given=given)
    splits = RepeatedStratifiedKFold(n_splits=3, n_repeats=1, random_state=0).split(table.X, table.y)
    for (cell, outcome), (train, test) in zip(results.outcomes.items(), splits, strict=True):
        own = clone(pipeline).set_params(randomforestclassifier__random_state=cell.fold)
        expected = log_loss(y[test], own.fit(frame.iloc[train], y[train]).predict_proba(frame.iloc[test]))
        assert outcome.measures["probability"]["log_loss"] == pytest.approx(expected, abs=2e-5)
        for row in outcome.doubtful:
            assert set(row["columns"]) <= {"a", "word"}
            assert row["columns"].get("word", word[row["row"] - 1]) == word[row["row"] - 1]
            assert row["truth"] == table.y[row["row"] - 1]
            rows, labels = np.transpose(row["alike"])
            assert {*(rows - 1)} <= {*train}
            np.testing.assert_array_equal(labels, table.y[rows - 1])
    text = compare.write_page(tmp_path, results).read_text()
    assert "ColumnTransformer, then RandomForestClassifier, fitted anew to each training part" in " ".join(text.split())
    joblib.dump(make_pipeline(Doubling(), forest), tmp_path / "pipe.joblib")
    match = "holds Doubling, which drops or makes rows"
    refuses(ValueError, match, read_refitted_model, str(tmp_path / "pipe.joblib"), table)
