"""Command lines of words and paths, and what they leave."""

from typing import Any

import pandas as pd

from jaxunc.__main__ import main
from tests._refusal import refuses


def run(*words: Any) -> None:
    main([*map(str, words)])


def answers(model: Any, data: Any, output: Any, *more: Any) -> pd.DataFrame:
    """What ``jaxunc predict`` writes."""
    run("predict", model, data, "--output", output, *more)
    return pd.read_parquet(output)


def refusal(capsys: Any, *words: Any) -> str:
    """What is said against a command line on standard error."""
    capsys.readouterr()
    refuses(SystemExit, "^2$", run, *words)
    return capsys.readouterr().err
