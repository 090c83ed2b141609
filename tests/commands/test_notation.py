"""How numbers are written, on the command line: what is kept of a fit, and the words of what is refused."""

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.__main__ import main

from .._refusal import refusals

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("always")]  # they are shown on standard error


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables of one content in two notations, one with two readings, and a model of the first."""
    folder = tmp_path_factory.mktemp("notation")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.integers(12000, 70000, 80), "rate": rng.uniform(1, 9, 80).round(2)})
    frame["late"] = np.where(frame.income + rng.normal(0, 9000, 80) > 40000, "no", "yes")
    frame.to_csv(folder / "plain.csv", sep=";", decimal=",", index=False)
    frame["income"] = frame.income.map(lambda value: f"{value:,}".replace(",", "."))
    frame.to_csv(folder / "points.csv", sep=";", decimal=",", index=False)
    frame.assign(rate=frame.index % 7).to_csv(folder / "open.csv", sep=";", index=False)
    fit = ["fit", folder / "plain.csv", "--target", "late", "--trees", 5, "--leaf-size", 4, "--output", folder / "m"]
    main([*map(str, fit)])
    return folder


def test_points_between_thousands_are_read_as_such_and_told(files, capsys):
    found = []
    for name in ("plain", "points"):
        main(["predict", str(files / "m"), str(files / f"{name}.csv"), "--output", str(files / name), "--quiet"])
        found.append(pd.read_parquet(files / name))
    pd.testing.assert_frame_equal(*found)
    assert "points.csv writes numbers with commas before decimals and with points between" in capsys.readouterr().err


@pytest.mark.parametrize("estimator", ["combined", "random-trees", "transductive", "uncertain"])
@pytest.mark.room(keep=1)
def test_a_model_keeps_the_notation_of_its_data(files, estimator, tmp_path):
    target = "rate" if estimator == "uncertain" else "late"
    size = [] if estimator == "transductive" else ["--trees", "9", "--leaf-size", "4"]
    path = tmp_path / "m"
    main(["fit", str(files / "points.csv"), "--target", target, *size, "--estimator", estimator, "--output", str(path)])
    columns = ju.load(path).bound_.columns
    assert (columns.decimal, columns.thousands) == (",", ".")


def test_an_option_or_the_models_data_settle_two_readings(files, capsys):
    for option in ([], ["--thousands", "."]):
        main(
            ["predict", str(files / "m"), str(files / "open.csv"), "--output", str(files / f"o{len(option)}"), *option]
        )
        assert ("is read as" in capsys.readouterr().err) == (not option)
    pd.testing.assert_frame_equal(pd.read_parquet(files / "o0"), pd.read_parquet(files / "o2"))


def failing(*words: str):
    def run(files, capsys):
        with pytest.raises(SystemExit):
            main([str(files / word) if word.endswith(".csv") else word for word in words])
        raise ValueError(capsys.readouterr().err)

    return run


READINGS = "open.csv: '.*' in column 'income' is .* Pass --decimal . for the first, --thousands . for the second"
test_refusals = refusals(
    ("fit", failing("fit", "open.csv", "--target", "late", "--output", "o"), READINGS),
    ("compare", failing("compare", "open.csv", "--target", "late"), READINGS),
    ("no mark", failing("compare", "open.csv", "--target", "late", "--decimal", "x"), "--decimal x is unknown"),
    ("no data", failing("compare", "--decimal", ","), "--decimal or --thousands was given without DATA"),
    ("no rows", failing("fit", "--import", "x", "--trust", "--output", "o", "--decimal", ","), "nothing without DATA"),
)
