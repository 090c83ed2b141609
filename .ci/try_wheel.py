"""``python try_wheel.py [EXTRA]``: whether an installed wheel does what it should, with an extra or without any."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
y = (X[:, 0] > 0).astype(int)
MODEL = RandomForestClassifier(60, random_state=0).fit(X, y)
BOUND = ju.bind(ju.from_any(MODEL), ju.Mean())
FOLDER = Path(tempfile.mkdtemp())


def command(*words: str) -> str:
    """What a command of jaxunc says, on either stream."""
    done = subprocess.run([sys.executable, "-m", "jaxunc", *words], capture_output=True, text=True, cwd=FOLDER)
    return done.stdout + done.stderr


def table() -> str:
    """A file of the data."""
    path = FOLDER / "data.csv"
    rows = np.column_stack([X, y])
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d,y", comments="", fmt=["%.6f"] * 4 + ["%d"])
    return str(path)


def base() -> None:
    """Without extras: the forest's own answers, and commands that say what they lack."""
    assert np.allclose(BOUND.probability(X), MODEL.predict_proba(X), atol=1e-6)
    said = command("compare")
    assert 'pip install "jaxunc[cli]"' in said, said


def cli() -> None:
    """A page of a small comparison, from the template that the wheel brings; a model fitted, scored."""
    small = ("--trees", "5", "--folds", "2", "--repeats", "1", "--combiners", "probability", "vote")
    said = command("compare", table(), "--target", "y", "--leaf-sizes", "4", "--report", "report", "--quiet", *small)
    assert "<html" in (FOLDER / "report" / "report.html").read_text(encoding="utf-8"), said
    said = command("fit", table(), "--target", "y", "--output", "model.safetensors")
    said += command("predict", "model.safetensors", table(), "--output", "answers", "--quiet")
    assert list((FOLDER / "answers").glob("*.parquet")), said


def onnx() -> None:
    """A forest and its rule as a file that ONNX's own checker takes."""
    import onnx

    path = FOLDER / "model.onnx"
    path.write_bytes(ju.to_onnx(BOUND).SerializeToString())
    onnx.checker.check_model(onnx.load(path))


def libraries() -> None:
    """A model of another library answers as there, and the written one as here, by another engine."""
    import onnxruntime
    from xgboost import XGBClassifier

    model = XGBClassifier(n_estimators=5).fit(X, y)
    assert np.allclose(ju.from_any(model).predict(X), model.predict_proba(X), atol=1e-5)
    onnx()
    session = onnxruntime.InferenceSession(FOLDER / "model.onnx")
    given = {session.get_inputs()[0].name: X}
    found = next(one for one in session.run(None, given) if getattr(one, "ndim", 0) == 2)
    assert np.allclose(found, BOUND.probability(X), atol=1e-5)


def scorer() -> "ju.streaming.BatchPredictor":
    """What engines of clusters are given."""
    path = FOLDER / "model.safetensors"
    ju.save(path, BOUND)
    return ju.streaming.BatchPredictor(path)


def ray() -> None:
    """A data set of Ray, scored."""
    import pandas as pd
    import ray.data

    scored = ray.data.from_pandas(pd.DataFrame(X, columns=list("abcd"))).map_batches(scorer(), batch_format="pyarrow")
    assert scored.count() == len(X)


def dask() -> None:
    """A frame of Dask, scored."""
    import dask.dataframe
    import pandas as pd

    score = scorer()
    frame = dask.dataframe.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=2)
    assert len(frame.map_partitions(score, meta=score.meta).compute(scheduler="threads")) == len(X)


def spark() -> None:
    """What Spark asks of a scorer; it needs Java to run."""
    import pyspark

    assert pyspark.__version__
    assert scorer().ddl


if __name__ == "__main__":
    extra = sys.argv[1] if len(sys.argv) > 1 else "base"
    assert Path(ju.__file__).is_relative_to(sys.prefix), f"not the wheel: {ju.__file__}"
    {one.__name__: one for one in (base, cli, onnx, libraries, ray, dask, spark)}[extra]()
    print(f"Python {sys.version.split()[0]}, {extra}: works")
