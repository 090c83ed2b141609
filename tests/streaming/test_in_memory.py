"""Arrow's arrays are made of buffers, and hold what the host's do."""

import numpy as np
import pyarrow as pa
import pytest

from jaxunc.streaming import arrow_labels, arrow_numbers
from tests._refusal import refuses

pytestmark = pytest.mark.once


@pytest.mark.parametrize("dtype", [bool, np.int32, np.int64, np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("n", [0, 1, 8, 23])
def test_numbers_and_bools(dtype, n, rng):
    values = rng.integers(0, 2, size=2 * n).astype(dtype)
    for given in (values, values[::2]):
        assert arrow_numbers(given).to_pylist() == given.tolist()


@pytest.mark.parametrize(
    ("labels", "kind"),
    [((1, 2**64 - 1), pa.uint64()), ((-1, 2**63), pa.string()), ((1, "a"), pa.string()), ((0, 2**70), pa.string())],
)
def test_labels_of_any_size(labels, kind):
    found = arrow_labels(labels)
    assert found.type == kind
    assert [str(label) for label in labels] == [str(one) for one in found.to_pylist()]
    refuses(ValueError, "cannot tell apart", arrow_labels, (2**64, str(2**64)))
