"""Arguments that several commands read alike."""

import argparse


def integer(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no integer (the file DATA goes before the options)") from None


def positive(text: str) -> int:
    """A whole number of 1 at least."""
    value = integer(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is too small; it must be 1 at least")
    return value


def number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
