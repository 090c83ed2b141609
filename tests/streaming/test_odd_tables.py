"""What a model answers for a file is what it answers for the values that the file means, whoever reads it."""

import re

import numpy as np
import pyarrow as pa
import pytest

import jaxunc as ju
from jaxunc.__main__ import main
from tests._refusal import refuses
from tests.streaming._odd_tables import TABLES

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("small_blocks")]  # late rows come in blocks of their own


def answers(model, source) -> np.ndarray:
    table = pa.concat_tables(ju.stream(model, source, outputs=["probability"], chunk_rows=11))
    return np.column_stack([column.to_numpy() for column in table.columns])


@pytest.mark.filterwarnings("ignore::jaxunc.tables.MergedValuesWarning")  # of integers that float32 cannot tell apart
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.exhaustive(keep=1)
def test_the_training_file_is_answered_as_its_values_are(name, tmp_path, capsys):
    odd, model = TABLES[name], tmp_path / "model"
    (tmp_path / odd.name).write_bytes(odd.content)
    fit = ["fit", str(tmp_path / odd.name), "--target", "y", "--output", str(model), "--estimator", "transductive"]
    if odd.meant is None:
        refuses(SystemExit, "2", main, fit)
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        assert re.search(odd.said, printed), printed
        return
    main(fit)
    loaded = ju.load(model)
    assert list(loaded.feature_names_in_) == list(odd.meant.columns)
    expected = loaded.predict_proba(odd.meant)
    np.testing.assert_array_equal(answers(loaded, tmp_path / odd.name), expected)
    np.testing.assert_array_equal(answers(loaded, odd.meant), expected)
    column = odd.meant.columns[0]
    if odd.meant[column].nunique(dropna=False) > 1:
        turned = odd.meant.assign(**{column: np.roll(odd.meant[column].to_numpy(), 1)})
        assert not np.array_equal(loaded.predict_proba(turned), expected), "the column is read by the tree"
