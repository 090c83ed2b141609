"""Clusters of one machine: each engine in a process of its own, where it is installed (the extras ray, dask, spark)."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow.parquet as parquet
import pytest

pytestmark = pytest.mark.once

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
    program = START + textwrap.dedent(PROGRAMS[engine])
    program = program.replace("\n", "\n    ")
    script = tmp_path / "program.py"
    script.write_text(f"if __name__ == '__main__':{program}\n    found.to_parquet(out)\n")
    command = [sys.executable, "-W", "ignore", script, saved, data, out]
    # Spark would start its workers by the first "python3" of the path.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = parquet.read_table(out).replace_schema_metadata(None).to_pandas()
    found = found.assign(id=found["id"].astype(int)).sort_values("id")
    np.testing.assert_array_equal(found["class"], model.predict(frame))
    assert list(found.columns) == ["id", "class", "set"]
