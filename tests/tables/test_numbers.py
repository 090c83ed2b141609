"""Sparse matrices on their way in: every format and type, duplicates, what is missing and what is refused."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse

from jaxunc.tables import Columns, Levels, SparseRows, as_csr, encode_instances, encode_rows
from tests._refusal import refusals

pytestmark = pytest.mark.once
DENSE = np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [3, 0, np.nan, 0], [0, 0, 1 / 3, 7]])
COLUMNS = Columns(4)


def rows_of(data, columns=COLUMNS, **how) -> SparseRows:
    rows = encode_rows(data, columns, **how).values
    assert isinstance(rows, SparseRows)
    return rows


def check(rows, dense, columns=COLUMNS) -> None:
    """Rows are what the same array becomes."""
    np.testing.assert_array_equal(np.asarray(rows), encode_instances(dense, columns).values)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_formats(form, kind):
    rows, missing = encode_rows(getattr(scipy.sparse, f"{form}_{kind}")(DENSE), COLUMNS)
    check(rows, DENSE)
    assert (np.asarray(rows).dtype, missing, rows.shape, len(rows)) == (np.float32, True, (4, 4), 4)
    assert not encode_rows(scipy.sparse.csr_array(np.nan_to_num(DENSE)), COLUMNS).missing


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f4", "f8", "g"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_types(dtype, index):
    dense = np.nan_to_num(DENSE * (1 if np.dtype(dtype).kind in "fi" else DENSE > 0)).astype(dtype)
    data = scipy.sparse.csr_array(dense)
    data.indices, data.indptr = data.indices.astype(index), data.indptr.astype(index)
    check(rows_of(data), dense)


def test_unsorted_entries_duplicates_and_stored_zeros():
    """Duplicates are summed before they are rounded, as SciPy does; whoever handed them in finds them unchanged."""
    data = np.array([1.0, 2.0, 2**-30, 0.0, -0.0, 5.0, np.nan])
    indices, indptr = np.array([3, 1, 3, 0, 2, 1, 1]), np.array([0, 3, 5, 7])
    given = scipy.sparse.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=(3, 4))
    check(rows_of(given), given.toarray())
    np.testing.assert_array_equal(given.data, data)
    np.testing.assert_array_equal(given.indices, indices)
    assert as_csr(given).nnz == 5
    assert as_csr(given, for_sklearn=True).has_canonical_format
    columns = scipy.sparse.coo_array((data, (np.repeat(np.arange(3), np.diff(indptr)), indices)), shape=(3, 4))
    check(rows_of(columns.tocsc()), columns.toarray())


def test_indices_for_scikit_learn():
    data = scipy.sparse.csr_matrix(DENSE)
    data.indices, data.indptr = data.indices.astype(np.int64), data.indptr.astype(np.int64)
    small = as_csr(data, for_sklearn=True)
    assert small.indices.dtype == small.indptr.dtype == np.int32
    assert data.indices.dtype == np.int64
    np.testing.assert_array_equal(small.toarray(), DENSE)


def test_parts_and_columns():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 12)) * (rng.random((30, 12)) < 0.3)
    rows, dense = rows_of(scipy.sparse.csr_array(dense), Columns(12)), dense.astype(np.float32)
    chosen = rng.permutation(30)[:7]
    for part in (slice(3, 9), slice(25, 99), slice(9, 9), slice(9, 3), slice(None, None, 4), chosen, dense[:, 0] > 0):
        np.testing.assert_array_equal(np.asarray(rows[part]), dense[part])
        np.testing.assert_array_equal(rows[part].matrix().toarray(), dense[part])
    np.testing.assert_array_equal(np.asarray(rows[5:20][chosen[chosen < 15]]), dense[5:20][chosen[chosen < 15]])
    kept = np.array([1, 4, 9, 10])
    some = rows.of(kept, Columns(4))
    assert some.shape == (30, 4)
    check(some[4:11], dense[4:11, kept])
    check(some.of(np.array([0, 2]), Columns(2)), dense[:, [1, 9]], Columns(2))
    assert rows.of(None, COLUMNS) is rows
    assert repr(rows[:2]).startswith("SparseRows(shape=(2, 12), stored=")


def test_columns_that_look_values_up():
    """Cuts compare float64, and levels whole numbers: both see what is stored, and the zeros that are not."""
    columns = Columns(
        4,
        nominal=(True, False, False, True),
        levels=(Levels((0, 3), False), None, None, Levels((-2, 7), False)),
        cuts=(None, (0.0, 1.5), (1 / 3,), None),
    )
    for some in (slice(None), slice(1, 3)):
        expected = encode_instances(DENSE[some], columns).values
        rows = rows_of(scipy.sparse.csr_array(DENSE), columns)[some]
        np.testing.assert_array_equal(np.asarray(rows), expected)
        kept = np.array([0, 2])
        np.testing.assert_array_equal(np.asarray(rows.of(kept, columns.at(kept))), expected[:, kept])
    infinite = np.where(DENSE == 1.5, np.inf, DENSE)
    check(rows_of(scipy.sparse.csr_array(infinite), columns), infinite, columns)


@pytest.mark.parametrize("dtype", ["f8", "i4"])
@pytest.mark.parametrize("cuts", [None, ((0.0, 2.0), None, None, None)])
def test_what_is_not_stored_may_be_missing(dtype, cuts):
    """As some libraries read it; a stored 0 is one."""
    columns = Columns(4, cuts=cuts, absent_is_missing=True)
    stored = np.array([[0, 3, 0, 0], [1, 0, 0, 2]], dtype)
    data = scipy.sparse.csr_array(stored)
    data.data[1] = 0
    expected = np.array([[np.nan, 3, np.nan, np.nan], [0, np.nan, np.nan, 2]])
    rows, missing = encode_rows(data, columns)
    assert missing
    check(rows, expected, columns)
    kept = np.array([0, 3])
    assert columns.at(kept).absent_is_missing
    check(rows.of(kept, columns.at(kept)), expected[:, kept], columns.at(kept))


WORDS = Columns(4, ("a", "b", "c", "d"), (False, True, False, False), (None, Levels(("x",), False), None, None))
SPARSE = scipy.sparse.csr_array(DENSE)
REFUSED = {
    "few": (SPARSE[:, :3], COLUMNS, "X has 3 features.*data had 4"),
    "one axis": (scipy.sparse.coo_array(DENSE[0]), COLUMNS, r"X has shape \(4,\)"),
    "infinite": (scipy.sparse.csr_array(np.where(DENSE == 7, np.inf, DENSE)), COLUMNS, r"X\[3, 3\] is infinite"),
    "too large": (scipy.sparse.csc_array(np.where(DENSE == 7, -1e39, DENSE)), COLUMNS, r"X\[3, 3\] is.*too large"),
    "complex": (SPARSE * 1j, COLUMNS, "X has dtype complex", TypeError),
    "words": (SPARSE, WORDS, "levels of column 'b' are words", TypeError),
    "no names": (SPARSE, Columns(4, None, *WORDS.__reduce__()[1][2:4]), "of column 1 are", TypeError),
}
DENSE_ALONE = r"X is a sparse matrix, but this takes dense data alone; pass X.toarray\(\)"
test_refusals = refusals(
    *((name, partial(encode_rows, X, of), *said) for name, (X, of, *said) in REFUSED.items()),
    *(
        (f"{name}, dense", partial(encode_instances, X, of), DENSE_ALONE, TypeError)
        for name, (X, of, *_) in REFUSED.items()
    ),
    *((f"infinite={i}", partial(encode_rows, SPARSE, COLUMNS, infinite=i), "infinite", TypeError) for i in (0, "yes")),
    ("absent", partial(Columns, 4, absent_is_missing=1), "absent_is_missing", TypeError),
)


def test_infinite_values_are_let_through_and_what_is_not_sparse_goes_its_own_way():
    data = scipy.sparse.csr_array(np.where(DENSE == 7, np.inf, DENSE))
    np.testing.assert_array_equal(np.asarray(rows_of(data, infinite=True)), data.toarray().astype(np.float32))
    check(encode_rows(DENSE, COLUMNS).values, DENSE)
    encoded = encode_rows(SPARSE, COLUMNS)
    assert encode_rows(encoded, COLUMNS) is encoded
