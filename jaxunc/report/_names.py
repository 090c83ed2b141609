"""Names of columns, files and classes in messages."""

import difflib


def columns(names: list[str]) -> str:
    """How many columns, and their names."""
    return f"{len(names)} column{'s' * (len(names) > 1)} ({listed(names)})"


def listed(names: list[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def nearest(name: str, names: list[str]) -> str:
    """A question whether another name was meant, if one is close."""
    by_lower = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.75)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
