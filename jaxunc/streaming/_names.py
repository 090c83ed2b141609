"""Names of columns, files and classes in messages."""

from collections.abc import Sequence


def columns(names: Sequence[str]) -> str:
    """Say how many columns there are, and their names."""
    return f"{len(names)} column{'s' * (len(names) > 1)} ({listed(names)})"


def listed(names: Sequence[str], most: int = 5) -> str:
    """List the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
