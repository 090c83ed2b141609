"""What all tests of this folder share."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def a_thread():
    """Other libraries train small models in one thread: several wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield
