"""Pipelines in files: what comes back answers as what was saved, and no type is read that nobody trusts."""

import io
import sys
import types
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import jaxunc as ju
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier
from jaxunc.storage import describe, load_answering
from tests._refusal import refuses
from tests.estimators.test_pipelines import PIPELINES, RAW, OtherWhenFitted, OwnColumns, Y, columns, forest, pipeline
from tests.storage._mutations import MUTATIONS, joined, split

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")]
OWN = {"nested": [OwnColumns], "other when fitted": [OtherWhenFitted]}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.exhaustive(keep=1)
def test_round_trips(name, tmp_path):
    made = CombinedForestClassifier(FrozenEstimator(PIPELINES[name]().fit(RAW, Y)), combiner="mean").fit(RAW, Y)
    ju.save(tmp_path / "m", made)
    for read in (ju.load, load_answering):
        again = read(tmp_path / "m", known=OWN.get(name, []))
        np.testing.assert_array_equal(again.predict_proba(RAW), made.predict_proba(RAW))
    assert again.feature_names_in_.tolist() == RAW.columns.tolist()
    # Its parameter is an unfitted pipeline of the same steps.
    whole = PIPELINES[name]()
    own = again.estimator.fit(RAW, Y).predict_proba(RAW)
    np.testing.assert_allclose(own, whole.fit(RAW, Y).predict_proba(RAW), atol=1e-12)
    assert describe(tmp_path / "m").pipeline[-1].endswith(type(again._steps[-1][1]).__name__)
    if name in OWN:
        with refuses(ValueError, rf"types that are not scikit-learn's: .*\.{OWN[name][0].__name__}\. .*known=\["):
            ju.load(tmp_path / "m")


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "m"
    ju.save(path, CautiousForestClassifier(pipeline(forest(5)), counts="train").fit(RAW, Y))
    return path.read_bytes()


@pytest.mark.room
def test_what_a_file_tells(content, tmp_path):
    (tmp_path / "m").write_bytes(content)
    found = describe(tmp_path / "m")
    assert (found.pipeline, found.columns, found.column_names) == (("prep: ColumnTransformer",), 5, tuple(RAW))
    again = ju.load(tmp_path / "m")
    assert again.predict_set(RAW[:3]).shape == (3, 2)
    assert clone(again).fit(RAW, Y).predict_set(RAW).shape == (len(RAW), 2)
    refuses(TypeError, "X's column 'job' holds numbers, and held words", again.predict, RAW.assign(job=3))


def test_functions_without_a_name_are_refused(tmp_path):
    whole = make_pipeline(columns(), FunctionTransformer(lambda rows: rows), forest(3))
    made = CombinedForestClassifier(whole, combiner="mean").fit(RAW, Y)
    refuses(TypeError, "<lambda>, which has no name .*pickle or joblib", ju.save, tmp_path / "m", made)
    assert not (tmp_path / "m").exists()


def replaced(content: bytes, change) -> bytes:
    """The file with another archive of transformers."""
    header, arrays = split(content)
    name = next(name for name in header if name.endswith("skops"))
    start, end = header[name]["data_offsets"]
    archive = change(arrays[start:end])
    longer = len(archive) - (end - start)
    for own in header.values():
        if "data_offsets" in own and own["data_offsets"][0] >= end:
            own["data_offsets"] = [place + longer for place in own["data_offsets"]]
    header[name] |= {"data_offsets": [start, start + len(archive)], "shape": [len(archive)]}
    return joined(header, arrays[:start] + archive + arrays[end:])


def of_a_bomb(_) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b"0" * 10_000_000)
    return buffer.getvalue()


def of_another_type(archive: bytes, name: bytes) -> bytes:
    """The archive with another type in the place of the transformer's."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w") as new:
        for one in old.namelist():
            new.writestr(one, old.read(one).replace(b'"ColumnTransformer"', b'"' + name + b'"'))
    return buffer.getvalue()


HOSTILE = [
    (lambda own: own[:-200], "pipeline is damaged"),
    (lambda own: b"", "pipeline is damaged"),
    (of_a_bomb, "its parts are larger than the file"),
    *(
        (lambda own, name=name: of_another_type(own, name.encode()), f"types that are not scikit-learn's: .*{name}")
        for name in ("Popen", "_transform_one")
    ),
]


@pytest.mark.parametrize(("change", "said"), HOSTILE)
def test_hostile_files(change, said, content, tmp_path):
    (tmp_path / "m").write_bytes(replaced(content, change))
    refuses(ValueError, said, ju.load, tmp_path / "m")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.exhaustive
def test_mutated_files(content, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "damaged"
    for _ in range(200):
        path.write_bytes(MUTATIONS[rng.integers(len(MUTATIONS))](content, rng))
        with suppress(ValueError):
            assert ju.load(path) is not None


def test_without_skops(content, tmp_path, monkeypatch):
    (tmp_path / "m").write_bytes(content)
    made = ju.load(tmp_path / "m")
    old = types.ModuleType("skops")
    for module, said in ((None, "not installed: pip install 'skops>=0.13'"), (old, "skops 0.11.0 reads types")):
        old.__dict__["__version__"] = "0.11.0"
        monkeypatch.setitem(sys.modules, "skops", module)
        refuses(ValueError, said, ju.load, tmp_path / "m")
        refuses(TypeError, said, ju.save, tmp_path / "n", made)
    assert not (tmp_path / "n").exists()
