"""What pages have beyond their text: links from names to the reference, numbers that do not break, a description."""

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

WITHOUT_LINKS = ("docs/reference/", "docs/changelog")
"""Pages that describe the names, or that call them as they were."""
NAME = re.compile(r"(?:(ju|jaxunc)\.)?([A-Za-z_]\w*(?:\.\w+)*)(?:\(.*\))?", re.DOTALL)
UNIT = r"%|[GMk]i?B|[mµ]?s|px|bits?\b|rows\b|trees\b|columns\b"
GLUED = re.compile(rf"(?<![\w.])(\d{{1,3}}(?: \d{{3}})+)(?![\w.]\d)|(?<=\d) (?={UNIT})")
WORDS = 24


def full_name(code: str, objects: Any) -> str | None:
    """The public name that a code span shows, alone or with its call, where that is certain; in full."""
    if not (found := NAME.fullmatch(code.strip())):
        return None
    at_root, name = found.groups()
    if at_root and (f"jaxunc.{name}") in objects and "." in name:
        return f"jaxunc.{name}"
    said = at_root or "." in name or "_" in name.strip("_") or re.match(r"[A-Z]\w*[a-z]", name)
    homes = [one for one in objects if one.endswith(f".{name}") and one.count(".") == 2 + name.count(".")]
    if said and len(homes) == 1:
        return homes[0]
    return f"jaxunc.{name}" if at_root and f"jaxunc.{name}" in objects else None


class NamesInCode(SphinxPostTransform):
    """`ju.bind` in a guide leads to its description."""

    default_priority = 4  # before `NamesFromAnyRoom` and Sphinx resolve references

    def run(self) -> None:
        """Put a reference around each span that names one public thing."""
        if self.env.docname.startswith(WITHOUT_LINKS):
            return
        objects = self.env.domains.python_domain.objects
        for span in list(self.document.findall(nodes.literal)):
            above = span.parent
            if isinstance(above, nodes.title | nodes.reference | addnodes.pending_xref):
                continue
            if name := full_name(span.astext(), objects):
                link = addnodes.pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=name, refdoc=self.env.docname, refspecific=False
                )
                above.replace(span, link)
                link += span


class WholeNumbers(SphinxTransform):
    """Of "100 000" and "19.4 %" no part goes to the next line."""

    default_priority = 900

    def apply(self, **options: Any) -> None:
        """Put spaces that do not break into the numbers of the text."""
        for text in list(self.document.findall(nodes.Text)):
            if not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.math | nodes.raw):
                whole = GLUED.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
                if whole != text:
                    text.parent.replace(text, nodes.Text(whole))


def _described(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """The first words of a page are what search engines show of it."""
    first = next(doctree.findall(nodes.paragraph), None) if doctree else None
    if first is not None:
        words = first.astext().split()
        told = " ".join(words[:WORDS]) + (" …" if len(words) > WORDS else "")
        context["metatags"] += f'\n<meta name="description" content="{escape(told)}" />'


def setup(app: Sphinx) -> dict[str, bool]:
    """Mend pages as they are read, resolved and written."""
    app.add_transform(WholeNumbers)
    app.add_post_transform(NamesInCode)
    app.connect("html-page-context", _described)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
