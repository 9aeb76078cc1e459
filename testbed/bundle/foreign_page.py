"""Pages and drawings of somebody else's, as a browser may open them: nothing in them runs but our script."""

import re
from typing import Final

from testbed.scenario.report.outline import page_head
from testbed.scenario.report.page import cursor_script

_HTTP_EQUIV: Final = re.compile("http-equiv", re.IGNORECASE)
_TAG: Final = re.compile(
    r"<(?:/?(?:svg|title|desc|style|g|rect|path|line|text|tspan|circle)"
    r'(?:\s+(?!on)(?![a-zA-Z0-9:-]*href)[a-zA-Z][a-zA-Z0-9:-]*="[^"<>]*")*\s*/?>)'
)
"""A shape or text of a drawing, with attributes that neither run nor lead anywhere."""
_LOADS: Final = re.compile(r"url\(|image(?:-set)?\(|src\(|@import|\\", re.IGNORECASE)
"""By which a style loads something; an escape may stand for any of it."""


def contain_page(text: str) -> str:
    """A page whose browser runs no script but that of our reports, loads nothing, and goes nowhere by itself.

    One that begins as ours do is left as it is. Any other gets our beginning, whose policy holds for all that
    comes after it, and its own directives to the browser, which might take it elsewhere, are none any more.
    """
    heads = [page_head(script) for script in (cursor_script(), "")]
    if any(map(text.startswith, heads)) and len(_HTTP_EQUIV.findall(text)) == 1:
        return text
    return f"{heads[0]}\n{_HTTP_EQUIV.sub('data-http-equiv', text)}"


def is_plain_drawing(text: str) -> bool:
    """Check that an SVG file is shapes that we draw, without links, scripts and anything loaded."""
    return "<" not in _TAG.sub("", text) and not _LOADS.search(text)
