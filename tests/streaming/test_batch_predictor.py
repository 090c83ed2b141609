"""Functions of batches, for engines."""

import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.streaming import BatchPredictor

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def scorer(saved) -> BatchPredictor:
    return pickle.loads(pickle.dumps(BatchPredictor(saved, outputs=["class", "probability", "set"], keep=["count"])))


@pytest.mark.exhaustive
def test_kinds_of_batches(scorer, model, frame):
    part = frame[100:150]
    table = pa.Table.from_pandas(part, preserve_index=False)
    found = scorer(part)
    assert found.index.equals(part.index)
    assert list(found.columns) == ["count", "class", "probability_no", "probability_yes", "set"]
    np.testing.assert_array_equal(found["class"], model.predict(part))
    np.testing.assert_array_equal(scorer(table)["class"].to_pylist(), found["class"])
    np.testing.assert_array_equal(scorer(table.to_batches()[0])["class"].to_pylist(), found["class"])
    by_name = {name: part[name].to_numpy() for name in part.columns}
    np.testing.assert_array_equal(scorer(by_name)["class"], found["class"])
    with pytest.raises(TypeError, match="batch is a list"):
        scorer([1, 2])


def test_batches_one_after_the_other(scorer, frame):
    batches = pa.Table.from_pandas(frame, preserve_index=False).to_batches(max_chunksize=300)
    found = list(scorer.batches(iter([*batches, batches[0].slice(0, 0)])))
    assert [batch.num_rows for batch in found] == [300, 300, 300, 100]


def test_empty_batches(scorer, frame):
    assert scorer(frame[:0]).shape == (0, 5)


def test_schemas(scorer, frame):
    assert scorer.ddl == (
        "`count` string, `class` string, `probability_no` float, `probability_yes` float, `set` array<string>"
    )
    found = scorer(frame[:3])
    assert list(scorer.meta.columns) == list(found.columns)
    assert scorer.meta["probability_no"].dtype == found["probability_no"].dtype


_SPARK = [
    ([False, True], "boolean"),
    ([0.0, 1.0], "double"),
    ([0, 1], "bigint"),
    (["0", "1"], "string"),
    ([1, 2**64 - 1], "decimal(20,0)"),
]


@pytest.mark.parametrize(("labels", "spark"), _SPARK)
def test_schemas_of_all_labels(tmp_path, labels, spark):
    labels = np.array(labels, np.uint64 if 2**64 - 1 in labels else None)
    forest = ju.from_sklearn(DecisionTreeClassifier().fit([[0.0], [1.0]], labels))
    ju.save(tmp_path / "model", ju.bind(forest, ju.Mean()))
    assert BatchPredictor(tmp_path / "model", outputs=["class", "set"]).ddl == f"`class` {spark}, `set` array<{spark}>"


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="all workers"):
        BatchPredictor(tmp_path / "nowhere")


@pytest.mark.exhaustive
def test_nothing_is_started_before_the_first_batch(saved):
    program = f"""
import pickle
from jaxunc.streaming import BatchPredictor
print(len(pickle.dumps(BatchPredictor({str(saved)!r}))))
"""
    environment = {"JAX_PLATFORMS": "no such platform", "PATH": "/usr/bin:/bin"}
    import os

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}, check=True
    )
    assert int(done.stdout) < 1000
