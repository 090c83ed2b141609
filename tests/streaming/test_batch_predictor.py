"""Functions of batches, for engines: of one process, of a model that is replaced, of clusters of one machine."""

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.streaming import BatchPredictor, Wanted, _batch_predictor, chunks_of
from jaxunc.streaming._batch_predictor import open_batch
from jaxunc.tables import Columns
from tests._patience import patience
from tests._refusal import refuses

pytestmark = pytest.mark.once


def printed(words: list, **own: str) -> str:
    """What a program prints in an environment that is the same but for these variables."""
    command = [sys.executable, *map(str, words)]
    settings: Any = {"capture_output": True, "text": True, "timeout": patience(30), "env": {**os.environ, **own}}
    done = subprocess.run(command, check=False, **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def scorer(saved) -> BatchPredictor:
    return pickle.loads(pickle.dumps(BatchPredictor(saved, outputs=["class", "probability", "set"], keep=["count"])))


@pytest.mark.room
def test_kinds_of_batches(scorer, model, frame):
    part = frame[100:150]
    table = pa.Table.from_pandas(part, preserve_index=False)
    found = scorer(part)
    assert found.index.equals(part.index)
    assert list(found.columns) == ["count", "class", "probability_no", "probability_yes", "set"]
    np.testing.assert_array_equal(found["class"], model.predict(part))
    by_name = {name: part[name].to_numpy() for name in part.columns}
    for batch in (table, table.to_batches()[0], by_name):
        np.testing.assert_array_equal(np.asarray(scorer(batch)["class"]), found["class"])
    refuses(TypeError, "batch is a list", scorer, [1, 2])


def test_columns_called_as_members_of_arrays_and_lazy_frames():
    frame = pd.DataFrame(np.eye(4), columns=["dtype", "tocsr", "compute", "to_batches"])
    (chunk,) = chunks_of(frame, Wanted(Columns(4), None, ()), 9)
    table, beside = open_batch(frame, Wanted(Columns(3), None, ("dtype",)))
    assert chunk.features.schema.names == list(frame)
    assert table.schema.names == list(frame)[1:]
    assert list(beside(table)) == list(frame)


@pytest.mark.room
def test_batches_and_their_schemas(scorer, frame):
    batches = pa.Table.from_pandas(frame[:190], preserve_index=False).to_batches(max_chunksize=50)
    found = list(scorer.batches(iter([*batches, batches[0].slice(0, 0)])))
    assert [batch.num_rows for batch in found] == [50, 50, 50, 40]
    assert scorer(frame[:0]).shape == (0, 5)
    assert scorer.ddl == (
        "`count` string, `class` string, `probability_no` float, `probability_yes` float, `set` array<string>"
    )
    assert BatchPredictor(scorer.path, outputs=["class"], keep=["count"] * 2).ddl == "`count` string, `class` string"
    assert BatchPredictor(scorer.path, outputs=["class"], keep=["a`b"]).ddl == "`a``b` string, `class` string"
    found = scorer(frame[:50])
    assert list(scorer.meta.columns) == list(found.columns)
    assert scorer.meta["probability_no"].dtype == found["probability_no"].dtype


_SPARK = {"boolean": [False, True], "double": [0.0, 1.0], "bigint": [0, 1], "string": ["0", "1"]}
_SPARK["decimal(20,0)"] = np.array([1, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("spark", _SPARK)
def test_schemas_of_all_labels(tmp_path, spark):
    forest = ju.from_sklearn(DecisionTreeClassifier().fit([[0.0], [1.0]], _SPARK[spark]))
    ju.save(tmp_path / "model", ju.bind(forest, ju.Mean()))
    assert BatchPredictor(tmp_path / "model", outputs=["class", "set"]).ddl == f"`class` {spark}, `set` array<{spark}>"


@pytest.mark.parametrize(
    ("kind", "spark"),
    [
        *((pa.int8(), "tinyint"), (pa.int16(), "smallint"), (pa.large_string(), "string"), (pa.date32(), "date")),
        *(
            (pa.timestamp("us"), "timestamp_ntz"),
            (pa.timestamp("us", "UTC"), "timestamp"),
            (pa.decimal128(20, 0), "decimal(20,0)"),
        ),
    ],
)
def test_types_of_neighbours_names(kind, spark):
    assert _batch_predictor._spark_type(kind) == spark


@pytest.mark.exhaustive
def test_nothing_is_started_before_the_first_batch(saved):
    program = "import pickle\nfrom jaxunc.streaming import BatchPredictor\n"
    program += f"print(len(pickle.dumps(BatchPredictor({str(saved)!r}))))"
    assert int(printed(["-c", program], JAX_PLATFORMS="no such platform", PATH="/usr/bin:/bin")) < 1000


@pytest.mark.exhaustive
def test_a_replaced_model(frame, model, tmp_path):
    path, answers, y = tmp_path / "model.safetensors", [], model.predict(frame)
    ju.save(path, model)
    scorer, before = BatchPredictor(path, outputs=["class"]), path.stat().st_mtime_ns
    for labels in (y, np.where(y == "no", "yes", "no")):
        grown = type(model)(3, random_state=0).fit(frame, labels)
        ju.save(path, grown)
        os.utime(path, ns=(before, before))
        answers.append(scorer(frame[:50])["class"].tolist())
        assert answers[-1] == grown.predict(frame[:50]).tolist()
    assert answers[0] != answers[1]


def test_a_model_whose_file_is_gone_goes_on(frame, model, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    refuses(FileNotFoundError, "all workers", BatchPredictor, path)
    ju.save(path, model)
    loaded, unloaded = BatchPredictor(path, outputs=["class"]), BatchPredictor(path, outputs=["set"])
    before = loaded(frame[:5])
    with monkeypatch.context() as patched:
        patched.setattr(_batch_predictor, "Scoring", None)
        assert loaded(frame[:5]).equals(before), "a model that stays is read once"
    path.unlink()
    assert loaded(frame[:5]).equals(before)
    refuses(FileNotFoundError, "does not exist any more", unloaded, frame[:5])
    ju.save(path, model)
    assert len(unloaded(frame[:5])) == 5


def test_a_model_that_is_replaced_under_threads(saved, monkeypatch):
    """While one thread loads, others neither fail nor load it too: each gets a scorer of the new file."""
    state, begun, loads = [0], threading.Event(), []

    class Loaded(_batch_predictor.Scoring):
        def __init__(self, *_: Any, **__: Any) -> None:
            begun.set()
            time.sleep(0.02)
            loads.append(state[0])
            self.number = state[0]

    monkeypatch.setattr(_batch_predictor, "state_of", lambda _: (state[0],))
    monkeypatch.setattr(_batch_predictor, "Scoring", Loaded)
    asked = ((str(saved),), "[{}, null, []]", ())
    with ThreadPoolExecutor(8) as threads:
        for state[0] in range(3):
            begun.clear()
            first = threads.submit(_batch_predictor._load_scoring, *asked)
            assert begun.wait(patience(1))
            others = [threads.submit(_batch_predictor._load_scoring, *asked) for _ in range(7)]
            assert [one.result().number for one in (first, *others)] == [state[0]] * 8
    assert loads == [0, 1, 2]


START = """
import sys
import pandas as pd
from jaxunc.streaming import BatchPredictor

model, data, out = sys.argv[1:]
scorer = BatchPredictor(model, outputs=["class", "set"], keep=["id"])
frame = pd.read_parquet(data)
"""

PROGRAMS = {
    "dask": """
        import dask.dataframe

        frames = dask.dataframe.from_pandas(frame, npartitions=3)
        found = frames.map_partitions(scorer, meta=scorer.meta).compute(scheduler="processes")
    """,
    "ray": """
        import os
        import ray

        class Mortal:
            \"\"\"The worker that gets the first batch dies of it.\"\"\"

            def __call__(self, batch):
                try:
                    os.close(os.open(out + ".died", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return scorer(batch)
                os._exit(1)

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        mortal = Mortal()
        rows = ray.data.from_pandas(frame)
        found = rows.map_batches(lambda batch: mortal(batch), batch_size=256, batch_format="pyarrow").to_pandas()
        assert os.path.exists(out + ".died")
    """,
    "pyspark": """
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        rows = session.createDataFrame(frame.astype({"id": str}))
        found = rows.mapInArrow(scorer.batches, scorer.ddl).toPandas()
        session.stop()
    """,
}


@pytest.mark.parametrize("engine", PROGRAMS)
def test_local_clusters(engine, saved, model, frame, tmp_path):
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    if engine == "pyspark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    data, out = tmp_path / "data.parquet", tmp_path / "out.parquet"
    frame.assign(id=np.arange(len(frame))).to_parquet(data)
    program = (START + textwrap.dedent(PROGRAMS[engine])).replace("\n", "\n    ")
    script = tmp_path / "program.py"
    script.write_text(f"if __name__ == '__main__':{program}\n    found.to_parquet(out)\n")
    # Spark would start its workers by the first "python3" of the path.
    printed(["-W", "ignore", script, saved, data, out], PYSPARK_PYTHON=sys.executable)
    found = parquet.read_table(out).replace_schema_metadata(None).to_pandas()
    found = found.assign(id=found["id"].astype(int)).sort_values("id")
    np.testing.assert_array_equal(found["class"], model.predict(frame))
    assert list(found.columns) == ["id", "class", "set"]
