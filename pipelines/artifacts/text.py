"""Model text in places where a browser would read marks: Mermaid labels, table cells, SVG."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from pipelines.report import cut

_MARKS = re.compile(r"[^\w\s.,:/+%=…()-]")


def label(text: str, after: str = "", size: int = 60) -> str:
    """A quoted Mermaid label; every mark that Mermaid or HTML could read becomes its character code.

    Args:
        after: Our own words, put behind as they are.
    """
    coded = _MARKS.sub(lambda found: f"#{ord(found.group())};", cut(text, size))
    return f'"{coded}{after}"'


def cell(text: str, size: int = 120) -> str:
    """A Markdown table cell in which nothing is rendered."""
    return re.sub(r"([\\`*_{}\[\]<>()#|~!$&-])", r"\\\1", cut(text, size))


def svg_text(text: str, size: int = 40) -> str:
    """Text of an SVG element."""
    return escape(cut(text, size))
