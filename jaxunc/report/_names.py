"""Names of columns, files and classes in messages."""


def columns(names: list[str]) -> str:
    """Say how many columns there are, and their names."""
    return f"{len(names)} column{'s' * (len(names) > 1)} ({listed(names)})"


def listed(names: list[str], most: int = 5) -> str:
    """List the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
