"""``jaxunc fit`` on columns of texts: as their ranks, with the warnings of ``compare``, and few values."""

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.__main__ import main

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:every leaf of this forest")]
N = 240


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue", None], N)
    frame = pd.DataFrame({"colour": colour, "x": rng.normal(size=N).round(3), "is_old": rng.random(N) < 0.5})
    frame["amount"] = [f"{i % 50},5 €" for i in range(N)]
    frame["kind"] = np.where(frame.colour.isin(["red", "blue"]), "up", "down")
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    "options", [["--combiner", "evidence"], ["--estimator", "cautious"], ["--estimator", "random-trees"]]
)
@pytest.mark.exhaustive(keep=2)
def test_words_are_read_alike_by_all(options, path, tmp_path, capsys):
    fit = ["fit", str(path), "--target", "kind", "--trees", "30", "--leaf-size", "3", "--output", str(tmp_path / "m")]
    main([*fit, *options])
    assert "('amount') holds numbers or dates but for values such as '0,5 €'" in capsys.readouterr().err
    main(["predict", str(tmp_path / "m"), str(path), "--output", str(tmp_path / "o"), "--quiet"])
    found = pd.read_parquet(tmp_path / "o")["class"]
    frame = pd.read_csv(path)
    assert (found == frame.kind).mean() > 0.9
    loaded = ju.load(tmp_path / "m")
    own = frame[["colour", "x", "is_old", "amount"]]
    np.testing.assert_array_equal(found, loaded.predict(own))
    turned = loaded.predict(own.assign(colour=np.roll(frame.colour, 1)))
    assert (turned == np.roll(frame.kind, 1)).mean() > 0.9, "the words are read"


def test_texts_of_many_values_are_named(path, tmp_path, capsys):
    frame = pd.read_csv(path)
    frame["id"] = [f"n{i}" for i in range(N)]
    frame.to_csv(path, index=False)
    fit = ["fit", str(path), "--target", "kind", "--trees", "3", "--leaf-size", "9", "--output", str(tmp_path / "m")]
    with pytest.raises(SystemExit, match="2"):
        main(fit)
    assert "240 different ones in 'id'" in capsys.readouterr().err
    main([*fit, "--words", "id"])
    assert "id" in ju.load(tmp_path / "m").feature_names_in_
    main([*fit, "--drop", "id"])
    assert "id" not in ju.load(tmp_path / "m").feature_names_in_
