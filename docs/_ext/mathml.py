"""Formulas as MathML, which browsers draw themselves: no script, no font, no picture."""

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def _converted(formula: str, **options: Any) -> str:
    # The one command of the docstrings that the converter does not know.
    return convert(re.sub(r"\\arg(?![a-zA-Z])", r"\\operatorname{arg}", formula), **options)


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(f'<span class="math">{_converted(node.astext())}</span>')
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    identity = f' id="{escape(node["ids"][0])}"' if node["ids"] else ""
    self.body.append(f'<div class="math"{identity}>{_converted(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
