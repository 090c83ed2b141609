"""Files that are damaged or hostile: refused in words, or loaded well-formed. Nothing else happens."""

import os
import resource
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.estimators import CautiousForestClassifier, TransductiveTreeClassifier, UncertainForestRegressor
from jaxunc.forest import check_forest, check_trees
from tests._patience import ends
from tests._refusal import refusals, refuses
from tests.storage._mutations import MUTATIONS, changed_document, joined, split
from tests.storage._objects import small_objects

pytestmark = [pytest.mark.once, pytest.mark.room]
NUMBER = int(os.environ.get("JAXUNC_TEST_MUTATIONS", "1000"))
"""Mutated files in all: CONTRIBUTING says when more are tried."""
SHARES = 4


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    for name, value in small_objects().items():
        ju.save(folder / name, value)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.exhaustive
def test_mutated_files(share, originals, tmp_path):
    rng = np.random.default_rng(share)
    path, before, counts = tmp_path / "damaged", _peak(), Counter()
    for _ in range(NUMBER // SHARES):
        mutate = MUTATIONS[rng.integers(len(MUTATIONS))]
        path.write_bytes(mutate(originals[str(rng.choice(list(originals)))], rng))
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
    if isinstance(value, UncertainForestRegressor):
        check_trees(value.moments_.bound.forest.trees)
        assert value.predict(np.zeros((1, value.n_features_in_)), quantiles=[0.4, 0.6]).shape == (1, 2)
    held = getattr(value, "forest_", getattr(value, "forest", value))
    if isinstance(held, ju.Forest):
        check_forest(held)
        assert held.trees.tree_depth.shape == (held.n_trees,)
    elif isinstance(held, ju.forest.Trees):
        check_trees(held)


def loaded(content: bytes, tmp_path) -> Any:
    (tmp_path / "x").write_bytes(content)
    return ju.load(tmp_path / "x")


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def columns_of(document: dict) -> dict:
    return document["object"]["fields"]["trees"]["fields"]["columns"]["fields"]


def test_columns_of_version_0_2_0(originals, tmp_path):
    """They did not say how numbers of text files are written."""

    def older(document):
        columns = columns_of(document)
        del columns["spaces_are_underlines"], columns["decimal"], columns["thousands"]

    columns = loaded(changed_document(originals["forest"], older), tmp_path).trees.columns
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

    again = loaded(changed_document((tmp_path / "x").read_bytes(), older), tmp_path)
    assert again.algorithm == again.bound_.settings["algorithm"] == "grouped"
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("read", [ju.load, ju.storage.describe])
def test_other_files(read, tmp_path):
    for content in (b"", b"PK\x03\x04", b"\x80\x04\x95", b"{}", b"a,b\n1,2\n"):
        (tmp_path / "x").write_bytes(content)
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


def of_document(kind: str, change: Callable) -> Callable:
    """Loads a file whose document was changed."""
    return lambda originals, tmp_path: loaded(changed_document(originals[kind], change), tmp_path)


def field(name: str, value: Any, *path: str) -> Callable:
    """A change of a field of the forest's, or of what a regressor's path leads to."""

    def change(document):
        node = document["object"]
        for key in path or ("fields",):
            node = node[key]
        node[name] = value

    return of_document("regressor" if path else "forest", change)


def without(name: str) -> Callable:
    return of_document("regressor", lambda document: document["object"]["fitted"].pop(name))


def of_array(name: str, place: Any, value: float) -> Callable:
    """Loads a regressor with another value in an array."""

    def load(originals, tmp_path):
        header, arrays = split(originals["regressor"])
        start, end = header[name]["data_offsets"]
        kind = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}[header[name]["dtype"]]
        array = np.frombuffer(arrays[start:end], kind).reshape(header[name]["shape"]).copy()
        array[place] = value
        return loaded(joined(header, arrays[:start] + array.tobytes() + arrays[end:]), tmp_path)

    return load


def nest(document):
    for _ in range(200):
        document["object"] = {"tuple": [document["object"]]}


def law_of(document: dict) -> dict:
    return document["object"]["fitted"]["law_"]["fields"]


def law(name, value):
    return field(name, value, "fitted", "law_", "fields")


of_forest = partial(of_document, "forest")
test_refusals = refusals(
    ("newer", of_forest(lambda d: d.update(form=99, version="9.9")), "form 99, written by jaxunc 9.9.*newer"),
    ("form", of_forest(lambda d: d.update(form="one")), "neither its form nor an object"),
    ("no object", of_forest(lambda d: d.pop("object")), "neither its form nor an object"),
    ("nested", of_forest(nest), "nested"),
    ("system", of_forest(lambda d: d["object"].update({"class": "os:system"})), "os:system.*not jaxunc's.*known="),
    ("class", of_forest(lambda d: d["object"].update({"class": "Nothing"})), "does not know"),
    ("no field", of_forest(lambda d: d["object"]["fields"].pop("code")), "has the fields"),
    ("no array", field("code", {"array": "nowhere"}), "names the array 'nowhere'"),
    ("empty_leaves", field("empty_leaves", "often"), "empty_leaves"),
    ("labels", field("class_labels", {"tuple": [0, 1, 7]}), "class labels"),
    ("columns", of_forest(lambda d: columns_of(d).update(number=2**40)), "columns"),
    ("variance", of_array("moments_.table", (0, 1), -0.5), "means or variances beyond the scale"),
    ("mean NaN", of_array("moments_.table", (0, 0), np.nan), "means or variances beyond the scale"),
    ("mean", of_array("moments_.table", (0, 0), 7), "means or variances beyond the scale"),
    ("child", of_array("moments_.trees.child", (0, 0), 10**6), "make no valid"),
    ("code", of_array("forest_.code", (0, 0), 10**6), "make no valid forest"),
    ("residual", of_array("law_.residuals", 0, 99.0), "ascending order"),
    ("residual inf", of_array("law_.residuals", -1, np.inf), "no|not finite"),
    ("edge", of_array("bins_.edges", 0, 99.0), "not in their order"),
    ("bin", of_array("bins_.table", (0, 3), -99.0), "not in their order"),
    ("bin NaN", of_array("bins_.table", (0, 3), np.nan), "no finite numbers"),
    ("mean of a bin", of_array("bins_.means", 0, 99.0), "not in their order"),
    ("weight", law("weight", 1.5), "weight=1.5"),
    ("weight True", law("weight", True), "a weight that is True"),
    ("added", law("added", -1.0), "added=-1.0"),
    ("least", law("least", {"float": "nan"}), "least=nan"),
    ("by rank", law("is_by_rank", 1), "is_by_rank"),
    ("is local", law("is_local", 1), "is_local"),
    (
        "local",
        of_document("regressor", lambda d: law_of(d).update(is_local=True, weight=0.5)),
        "leaves of residuals in part",
    ),
    ("support", law("support", {"tuple": [1.0, 0.0]}), "not in their order"),
    ("support of one", law("support", {"tuple": [0.0]}), "a support that is"),
    ("scale", field("scale", 0.0, "fitted", "moments_", "fields"), "scale=0.0"),
    ("centre", field("centre", {"float": "inf"}, "fitted", "moments_", "fields"), "centre=inf"),
    ("table", field("table", None, "fitted", "moments_", "fields"), "a table that is None"),
    ("no law", without("law_"), "no law_"),
    ("no forest", without("forest_"), "no forest_ and bins_"),
    ("n_features", field("n_features_in_", 7, "fitted"), "no n_features_in_"),
    ("reads", field("_reads_given", 1, "fitted"), "no _reads_given"),
    ("classes", field("classes_", 1, "fitted"), "which it does not have"),
    ("law", field("law", "of gravity", "params"), "does not take: law='of gravity'"),
    ("parameters", field("more", 1, "params"), r"the parameters \['more'\]"),
)
