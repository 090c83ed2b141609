"""Whatever is given: by the module of its class, or by the content of its file."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.interop import UntestedVersionWarning, from_any
from tests._model_files import FOLDER, N_TRAIN, NAMED, NAMELESS, NUMBERS, expected, table
from tests._refusal import refusals, refuses

from ._rows import answers_of
from .test_damage import FORMATS

pytestmark = pytest.mark.once
IMPUTES = pytest.mark.filterwarnings("ignore:skl2onnx made the model")


def rest(name):
    """The rows after those of training, as the model of the file reads them."""
    rows = table()[0][N_TRAIN:]
    return rows if name in NAMED else rows[NUMBERS].fillna(-1).to_numpy(np.float32)


def positive(model, X):
    """The probability of the second class."""
    found = ju.bind(model, ju.Mean()).probability(X) if isinstance(model, ju.Forest) else answers_of(model, X)
    return found[:, 1]


@IMPUTES
@pytest.mark.parametrize("name", [*NAMED, *NAMELESS])
def test_files_answer_as_their_library_did(name, tmp_path):
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    content = (FOLDER / name).read_bytes()
    (tmp_path / "of_no_ending").write_bytes(content)
    for given in (str(FOLDER / name), tmp_path / "of_no_ending", content, memoryview(content)):
        for read in (from_any, FORMATS[name][0]):
            model = read(given)
            np.testing.assert_allclose(positive(model, rest(name)), expected(name), atol=2e-6)
    assert from_any(model) is model


def test_which_are_forests():
    found = {name: from_any(FOLDER / name) for name in (*NAMED, *NAMELESS[:2])}
    forests = {name for name, model in found.items() if isinstance(model, ju.Forest) or model.is_forest}
    assert forests == {"xgboost_forest.json", "lightgbm_forest.txt", "treelite_forest.bin"}


def test_models_of_scikit_learn():
    X, y = rest("treelite.bin"), table()[1][N_TRAIN:]
    assert isinstance(from_any(RandomForestClassifier(2).fit(X, y)), ju.Forest)

    class Mine(RandomForestClassifier):
        pass

    assert isinstance(from_any(Mine(2).fit(X, y)), ju.Forest)
    for make in (GradientBoostingClassifier(n_estimators=2), HistGradientBoostingClassifier(max_iter=2)):
        assert not from_any(make.fit(X, y)).is_forest


LIVE = {
    "xgboost": lambda m: m.XGBClassifier(n_estimators=1, num_parallel_tree=2),
    "lightgbm": lambda m: m.LGBMClassifier(n_estimators=2, verbose=-1),
    "catboost": lambda m: m.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False),
}


@pytest.mark.parametrize("library", LIVE)
def test_live_models(library):
    model = LIVE[library](pytest.importorskip(library))
    X, y = rest("treelite.bin"), table()[1][N_TRAIN:]
    refuses(ValueError, "not fitted", from_any, model)
    found = from_any(model.fit(X, y))
    np.testing.assert_allclose(answers_of(found, X), model.predict_proba(X), atol=2e-6)


def test_live_models_of_treelite():
    model = pytest.importorskip("treelite").Model.deserialize(str(FOLDER / "treelite.bin"))
    assert from_any(model).n_trees == 4


def test_live_models_of_ydf(monkeypatch):
    ydf = pytest.importorskip("ydf")
    frame = table()[0][:N_TRAIN].assign(kind=np.array(["no", "yes"])[table()[1][:N_TRAIN]])
    model = ydf.RandomForestLearner(label="kind", num_trees=3).train(frame, verbose=0)
    assert from_any(model).class_labels == ("no", "yes")
    monkeypatch.setattr(ydf, "__version__", "1.2.3")
    with pytest.warns(UntestedVersionWarning, match=r"YDF 1\.2\.3; .* up to 0\.16"):
        from_any(model)


@pytest.mark.parametrize("name", ["xgboost.json", "catboost.json", "lightgbm.txt"])
def test_texts_are_models(name):
    content = (FOLDER / name).read_bytes()
    text = content.decode()
    forms = (text, "\ufeff" + text, text.replace("\n", "\r\n"), bytearray(content), b"\xef\xbb\xbf" + content)
    for given in forms:
        np.testing.assert_allclose(positive(from_any(given), rest(name)), expected(name), atol=2e-6)


def test_texts_that_are_neither_models_nor_paths():
    text = (FOLDER / "lightgbm.txt").read_text()
    for given in ("\n" + text, text[5:], "a" * 5000, "a\0b", "x" * 300, "[" + "1, " * 300 + "1]"):
        refuses(ValueError, "characters that begins with .*: no path, and no model", from_any, given)
    with open(FOLDER / "lightgbm.txt", "rb") as file, refuses(TypeError, "an open file; pass its path, or what"):
        from_any(file)


def test_paths_that_look_like_documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("{m}.json").write_bytes((FOLDER / "catboost.json").read_bytes())
    wanted = positive(from_any(FOLDER / "catboost.json"), rest("catboost.json"))
    np.testing.assert_array_equal(positive(from_any("{m}.json"), rest("catboost.json")), wanted)
    refuses(FileNotFoundError, "no name that a file can have", from_any, Path("x" * 300))


OTHERS = {
    "gzip": (b"\x1f\x8b\x08", "compressed by gzip"),
    "wide": ("tree\n".encode("utf-16"), "text in UTF-16"),
    "empty": (b"", "is no model that is known. Taken are .*LightGBM"),
    "words": (b"a,b\n1,2\n", "is no model that is known"),
    "list": (b"[1, 2]", "is no model that is known"),
    "object": (b'{"a": 1}', "a document with 'a' at its top, and no model of XGBoost or CatBoost"),
    "nothing": (b"{}", "a document with nothing at its top"),
    "catboost": (
        b"CBM1 and so on",
        "in CatBoost's own format, (which CatBoost alone reads: pip install|and CatBoost makes no)",
    ),
    "pickle": (b"\x80\x04K\x01.", "a pickle, which runs whatever code it holds"),
    "archive": (b"PK\x03\x04", "an archive"),
    "old": (b"binf\0\0", "of an old XGBoost; write it by booster.save_model"),
    "dump": (b'{"name": "tree", "tree_info": []}', "a dump of LightGBM; write the model by"),
    "cut": (b"tree\nversion=v4\n", "LightGBM model has no trees"),
    "of treelite": (struct.pack("<iii", 4, 8, 1), "treelite model is cut off"),
}


@pytest.mark.room(keep=2)
@pytest.mark.parametrize("name", OTHERS)
def test_other_files(name, tmp_path):
    content, said = OTHERS[name]
    (tmp_path / name).write_bytes(content)
    for given in (content, tmp_path / name):
        refuses(ValueError, said, from_any, given)


@pytest.mark.parametrize("length", [0x80, 0x1F08, 0x7B20, 0x0A20])
def test_own_files_are_told_by_more_than_their_length(length, tmp_path):
    """It comes first, and may look like the beginning of a pickle, an ONNX file or a document."""
    own = tmp_path / "own"
    own.write_bytes(length.to_bytes(8, "little") + b'{"__metadata__": {"jaxunc": ""}}'.ljust(length))
    assert not ju.interop.is_model_file(own)
    refuses(ValueError, "own is a file of jaxunc.save", from_any, own)


def old_lightgbm():
    return from_any((FOLDER / "lightgbm.txt").read_bytes().replace(b"version=v4", b"version=v1"))


A_CLASS = "is the class RandomForestClassifier; pass a fitted model"
test_refusals = refusals(
    ("no file", lambda: from_any("nowhere"), "nowhere does not exist; pass the file of a model", FileNotFoundError),
    ("a folder", lambda tmp_path: from_any(tmp_path), r"a folder.*from_ydf\(ydf.load_model", IsADirectoryError),
    ("nothing", lambda: from_any(None), "NoneType, which has no importer. Taken are fitted forests", TypeError),
    ("a number", lambda: from_any(3), "int, which has no importer", TypeError),
    ("a combiner", lambda: from_any(ju.Mean()), "Mean, which has no importer", TypeError),
    ("a class", lambda: from_any(RandomForestClassifier), A_CLASS, TypeError),
    ("an estimator", lambda: from_any(LogisticRegression()), "LogisticRegression; from_sklearn imports", TypeError),
    ("an old file", old_lightgbm, "version is 'v1'; from_lightgbm reads v2 and later"),
)


def test_files_of_ours(tmp_path):
    ju.save(tmp_path / "own", from_any(FOLDER / "xgboost.json"))
    refuses(ValueError, "own is a file of jaxunc.save; jaxunc.load reads it", from_any, tmp_path / "own")
    assert ju.load(tmp_path / "own").n_trees == 4
    with refuses(ValueError, "no file that jaxunc.save wrote.*jaxunc.from_any reads other libraries"):
        ju.load(FOLDER / "xgboost.json")


def newer_operators(content):
    model = pytest.importorskip("onnx").ModelProto.FromString(content)
    next(one for one in model.opset_import if one.domain == "ai.onnx.ml").version = 6
    return model.SerializeToString()


NEWER = {
    "trees.onnx": (newer_operators, r"ONNX \(ai\.onnx\.ml\) 6; jaxunc was tested up to 5"),
    "xgboost.json": (
        lambda c: json.dumps(json.loads(c) | {"version": [9, 1, 0]}).encode(),
        r"XGBoost 9\.1\.0; jaxunc was tested up to 3\.4",
    ),
    "lightgbm.txt": (lambda c: c.replace(b"version=v4", b"version=v11"), "LightGBM 11; jaxunc was tested up to 4"),
    "catboost.json": (lambda c: c.replace(b"tags/v1.2.10", b"tags/v2.0"), r"CatBoost 2\.0; .* up to 1\.2"),
    "treelite.bin": (lambda c: struct.pack("<ii", 4, 11) + c[8:], r"treelite 4\.11\.\d; .* up to 4\.8"),
}


@IMPUTES
@pytest.mark.parametrize("name", NEWER)
def test_newer_versions_are_warned_of(name):
    change, said = NEWER[name]
    with pytest.warns(UntestedVersionWarning, match=said):
        assert isinstance(from_any(change((FOLDER / name).read_bytes())), AdditiveTrees)


def test_versions_that_say_nothing():
    content = (FOLDER / "xgboost.json").read_bytes()
    without = {key: part for key, part in json.loads(content).items() if key != "version"}
    assert from_any(json.dumps(without).encode()).n_trees == 4


@pytest.mark.room
def test_files_are_read_without_scikit_learn():
    file, root = str(FOLDER / "xgboost.json"), Path(__file__).parents[2]
    program = f"import sys, jaxunc as ju; ju.from_any({file!r}); assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True)
