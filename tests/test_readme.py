"""What the README shows runs as it stands."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.once

README = (Path(__file__).parent.parent / "README.md").read_text()


@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
@pytest.mark.exhaustive
def test_examples_run(capsys):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    assert "[[" in capsys.readouterr().out
    rule = names["GiniWeighted"]()
    counts = jnp.asarray(np.random.default_rng(0).integers(0, 9, size=(4, 5, 3)), jnp.int32)
    np.testing.assert_allclose(np.sum(rule.probability(counts), axis=-1), 1, rtol=1e-6)
