"""Pages of studies: sentences stand in ``page.md`` of a study's folder, numbers and tables are made by its code.

A template has ``{name}`` where a number, a table or a whole section goes. The studies that have one are those whose
pages are mostly sentences; the others write theirs in code.
"""

import string
from pathlib import Path


def filled(template: Path, **parts: object) -> str:
    """The text of a template with its parts; a ValueError if a part is missing, or is none of the template's."""
    text = template.read_text(encoding="utf-8")
    named = {name for _, name, _, _ in string.Formatter().parse(text) if name}
    if named != parts.keys():
        raise ValueError(f"{template}: the template's parts and those that are made differ: {named ^ parts.keys()}")
    return text.format(**parts)
