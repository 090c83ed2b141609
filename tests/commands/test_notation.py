"""How numbers are written, on the command line: what is kept of a fit, and the words of what is refused."""

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju

from .._refusal import refusals
from ._lines import answers, refusal, run

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
    run("fit", folder / "plain.csv", "--target", "late", "--trees", 5, "--leaf-size", 4, "--output", folder / "m")
    return folder


def test_points_between_thousands_are_read_as_such_and_told(files, capsys):
    names = ("plain", "points")
    found = [answers(files / "m", files / f"{name}.csv", files / name, "--quiet") for name in names]
    pd.testing.assert_frame_equal(*found)
    assert "points.csv writes numbers with commas before decimals and with points between" in capsys.readouterr().err


@pytest.mark.parametrize("estimator", ["combined", "random-trees", "transductive", "uncertain"])
@pytest.mark.room(keep=1)
def test_a_model_keeps_the_notation_of_its_data(files, estimator, tmp_path):
    target = "rate" if estimator == "uncertain" else "late"
    size = [] if estimator == "transductive" else ["--trees", 9, "--leaf-size", 4]
    size += ["--law", "conformal", "--forest", "extra-trees"] if estimator == "uncertain" else []
    run("fit", files / "points.csv", "--target", target, *size, "--estimator", estimator, "--output", tmp_path / "m")
    columns = ju.load(tmp_path / "m").bound_.columns
    assert (columns.decimal, columns.thousands) == (",", ".")


def test_an_option_or_the_models_data_settle_two_readings(files, capsys):
    found = []
    for option in ([], ["--thousands", "."]):
        found.append(answers(files / "m", files / "open.csv", files / f"o{len(option)}", *option))
        assert ("is read as" in capsys.readouterr().err) == (not option)
    pd.testing.assert_frame_equal(*found)


def failing(*words: str):
    def call(files, capsys):
        raise ValueError(refusal(capsys, *[files / word if word.endswith(".csv") else word for word in words]))

    return call


READINGS = "open.csv: '.*' in column 'income' is .* Pass --decimal . for the first, --thousands . for the second"
test_refusals = refusals(
    ("fit", failing("fit", "open.csv", "--target", "late", "--output", "o"), READINGS),
    ("compare", failing("compare", "open.csv", "--target", "late"), READINGS),
    ("no mark", failing("compare", "open.csv", "--target", "late", "--decimal", "x"), "--decimal x is unknown"),
    ("no data", failing("compare", "--decimal", ","), "--decimal or --thousands was given without DATA"),
    ("no rows", failing("fit", "--import", "x", "--trust", "--output", "o", "--decimal", ","), "nothing without DATA"),
)
