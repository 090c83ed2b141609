"""Files that are damaged or hostile: refused in words, or loaded well-formed. Nothing else happens."""

import json
import os
import resource
from collections import Counter

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.estimators import CautiousForestClassifier, TransductiveTreeClassifier, UncertainForestRegressor
from jaxunc.forest import check_forest, check_trees
from tests._patience import ends
from tests._refusal import refuses
from tests.storage._mutations import MUTATIONS, joined, split
from tests.storage._objects import small_objects

pytestmark = [pytest.mark.once, pytest.mark.room]
NUMBER = int(os.environ.get("JAXUNC_TEST_MUTATIONS", "1000"))
"""Mutated files in all: CONTRIBUTING says when more are tried."""
SHARES = 4


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    contents = {}
    for name, value in small_objects().items():
        ju.save(folder / name, value)
        contents[name] = (folder / name).read_bytes()
    return contents


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.exhaustive
def test_mutated_files(share, originals, tmp_path):
    rng = np.random.default_rng(share)
    path, before, counts = tmp_path / "damaged", _peak(), Counter()
    names = list(originals)
    for _ in range(NUMBER // SHARES):
        mutate = MUTATIONS[rng.integers(len(MUTATIONS))]
        content = mutate(originals[names[rng.integers(len(names))]], rng)
        path.write_bytes(content)
        try:
            with ends(0.1):
                value = ju.load(path)
        except ValueError as error:
            counts["refused" if str(path) in str(error) else "refused without words"] += 1
        else:
            _check_well_formed(value)
            counts["loaded"] += 1
    assert _peak() - before < 1e9
    assert counts["refused"] > 0.4 * NUMBER / SHARES
    assert counts["refused without words"] == 0


def _check_well_formed(value) -> None:
    """Of what indexes; a part of a document in the place of the whole is another object, and as good."""
    if isinstance(value, ju.Forest):
        check_forest(value)
        assert value.trees.tree_depth.shape == (value.n_trees,)
    elif isinstance(value, ju.forest.Trees):
        check_trees(value)
    elif isinstance(value, ju.BoundForest):
        check_forest(value.forest)
    elif isinstance(value, ju.estimators.RandomDecisionTreesClassifier):
        check_forest(value.forest_)
    elif isinstance(value, UncertainForestRegressor):
        check_trees(value.moments_.bound.forest.trees)
        found = value.predict(np.zeros((1, value.n_features_in_)), quantiles=[0.4, 0.6])
        assert found.shape == (1, 2)


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _changed(content: bytes, change) -> bytes:
    header, arrays = split(content)
    document = json.loads(header["__metadata__"]["jaxunc"])
    change(document)
    header["__metadata__"]["jaxunc"] = json.dumps(document)
    return joined(header, arrays)


def _refused(content: bytes, match: str, path) -> None:
    path.write_bytes(content)
    refuses(ValueError, match, ju.load, path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.update(form=99, version="9.9"), "form 99, written by jaxunc 9.9.*newer"),
        (lambda d: d.update(form="one"), "neither its form nor an object"),
        (lambda d: d.pop("object"), "neither its form nor an object"),
        (lambda d: d["object"].update({"class": "os:system"}), "os:system.*not jaxunc's.*known="),
        (lambda d: d["object"].update({"class": "Nothing"}), "does not know"),
        (lambda d: d["object"]["fields"].pop("code"), "has the fields"),
        (lambda d: d["object"]["fields"].update(code={"array": "nowhere"}), "names the array 'nowhere'"),
        (lambda d: d["object"]["fields"].update(empty_leaves="often"), "empty_leaves"),
        (lambda d: d["object"]["fields"]["class_labels"]["tuple"].append(7), "class labels"),
        (lambda d: d["object"]["fields"]["trees"]["fields"]["columns"]["fields"].update(number=2**40), "columns"),
    ],
)
def test_documents(change, match, originals, tmp_path):
    _refused(_changed(originals["forest"], change), match, tmp_path / "x")


def test_columns_of_version_0_2_0(originals, tmp_path):
    """They did not say how numbers of text files are written."""

    def older(document):
        columns = document["object"]["fields"]["trees"]["fields"]["columns"]["fields"]
        del columns["spaces_are_underlines"], columns["decimal"], columns["thousands"]

    (tmp_path / "x").write_bytes(_changed(originals["forest"], older))
    columns = ju.load(tmp_path / "x").trees.columns
    assert (columns.spaces_are_underlines, columns.decimal, columns.thousands) == (False, None, None)


def test_an_algorithm_that_is_gone(tmp_path):
    """Models of transduction that were fitted with it answer by the one that takes its place."""
    X, y = np.random.default_rng(3).normal(size=(20, 3)), np.arange(20) % 2
    model = TransductiveTreeClassifier(algorithm="grouped").fit(X, y)
    ju.save(tmp_path / "x", model)

    def older(document):
        for part in ("params", "fitted"):
            node = document["object"][part]
            (node["chosen"]["dict"] if part == "fitted" else node)["algorithm"] = "nodes"

    (tmp_path / "x").write_bytes(_changed((tmp_path / "x").read_bytes(), older))
    again = ju.load(tmp_path / "x")
    assert again.algorithm == again.bound_.settings["algorithm"] == "grouped"
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_node_nested_without_end(originals, tmp_path):
    def nest(document):
        for _ in range(200):
            document["object"] = {"tuple": [document["object"]]}

    _refused(_changed(originals["forest"], nest), "nested", tmp_path / "x")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04\x95", b"{}", b"a,b\n1,2\n"])
def test_other_files(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    for read in (ju.load, ju.storage.describe):
        refuses(ValueError, r"damaged, or no file that jaxunc\.save wrote", read, tmp_path / "x")


def test_what_conformal_sets_rank_is_checked(tmp_path):
    """Probabilities and classes of rows: numbers that are neither are refused, and so is another shape."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    forest = RandomForestClassifier(3, max_depth=3, random_state=0)
    model = CautiousForestClassifier(forest, counts="held_out", random_state=0).fit(X, y)
    kept = model.calibration_
    for wrong in (kept * [1.0, 2.0], kept + np.array([2.0, 0]), kept * np.nan, kept + np.array([0, 0.5]), kept[:, :1]):
        model.calibration_ = wrong.astype(np.float32)
        ju.save(tmp_path / "model", model)
        refuses(ValueError, "has no calibration_ that fits", ju.load, tmp_path / "model")


def _with(name, change):
    """A change of an array of the file."""

    def changed(header, arrays):
        start, end = header[name]["data_offsets"]
        kind = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}[header[name]["dtype"]]
        array = np.frombuffer(bytes(arrays[start:end]), kind).reshape(header[name]["shape"]).copy()
        change(array)
        return arrays[:start] + array.tobytes() + arrays[end:]

    return changed


def _set(place, value):
    return lambda array: array.__setitem__(place, value)


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("moments_.table", _set((0, 1), -0.5), "means or variances beyond the scale"),
        ("moments_.table", _set((0, 0), np.nan), "means or variances beyond the scale"),
        ("moments_.table", _set((0, 0), 7), "means or variances beyond the scale"),
        ("moments_.trees.child", _set((0, 0), 10**6), "make no valid"),
        ("forest_.code", _set((0, 0), 10**6), "make no valid forest"),
        ("law_.residuals", _set(0, 99.0), "ascending order"),
        ("law_.residuals", _set(-1, np.inf), "no|not finite"),
        ("bins_.edges", _set(0, 99.0), "not in their order"),
        ("bins_.table", _set((0, 3), -99.0), "not in their order"),
        ("bins_.table", _set((0, 3), np.nan), "no finite numbers"),
        ("bins_.means", _set(0, 99.0), "not in their order"),
    ],
)
def test_arrays_of_a_regressor(name, change, match, originals, tmp_path):
    header, arrays = split(originals["regressor"])
    _refused(joined(header, _with(name, change)(header, arrays)), match, tmp_path / "x")


def _fitted(name, **fields):
    return lambda d: d["object"]["fitted"][name]["fields"].update(fields)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_fitted("law_", weight=1.5), "weight=1.5"),
        (_fitted("law_", weight=True), "a weight that is True"),
        (_fitted("law_", added=-1.0), "added=-1.0"),
        (_fitted("law_", least={"float": "nan"}), "least=nan"),
        (_fitted("law_", is_by_rank=1), "is_by_rank"),
        (_fitted("law_", is_local=1), "is_local"),
        (_fitted("law_", is_local=True, weight=0.5), "leaves of residuals in part"),
        (_fitted("law_", support={"tuple": [1.0, 0.0]}), "not in their order"),
        (_fitted("law_", support={"tuple": [0.0]}), "a support that is"),
        (_fitted("moments_", scale=0.0), "scale=0.0"),
        (_fitted("moments_", centre={"float": "inf"}), "centre=inf"),
        (_fitted("moments_", table=None), "a table that is None"),
        (lambda d: d["object"]["fitted"].pop("law_"), "no law_"),
        (lambda d: d["object"]["fitted"].pop("forest_"), "no forest_ and bins_"),
        (lambda d: d["object"]["fitted"].update(n_features_in_=7), "no n_features_in_"),
        (lambda d: d["object"]["fitted"].update(_reads_given=1), "no _reads_given"),
        (lambda d: d["object"]["fitted"].update(classes_=1), "which it does not have"),
        (lambda d: d["object"]["params"].update(law="of gravity"), "does not take: law='of gravity'"),
        (lambda d: d["object"]["params"].update(more=1), "the parameters \\['more'\\]"),
    ],
)
def test_documents_of_a_regressor(change, match, originals, tmp_path):
    _refused(_changed(originals["regressor"], change), match, tmp_path / "x")
