"""Pages and drawings of somebody else's, as a browser may open them: nothing in them runs but our script."""

import re
from typing import Final

from mrc_testbed.report.page import chart_script, page_head

_HTTP_EQUIV: Final = re.compile("http-equiv", re.IGNORECASE)
_TAG: Final = re.compile(
    r"<(?:/?(?:svg|title|desc|style|defs|clipPath|use|g|rect|path|line|text|tspan|circle)"
    r'(?:\s+(?:xlink:href="#[\w-]+"|(?!on)(?![a-zA-Z0-9:-]*href)[a-zA-Z][a-zA-Z0-9:-]*="[^"<>]*"))*\s*/?>)'
)
"""A shape or text of a drawing, with attributes that neither run nor lead out of it."""
_ID: Final = re.compile(r'[\s:]id="([^"]*)"')
_USED: Final = re.compile(r'href="#([^"]*)"')
_WITHIN: Final = re.compile(r"url\(#[\w-]+\)")
_LOADS: Final = re.compile(r"url\(|image(?:-set)?\(|src\(|@import|\\", re.IGNORECASE)
"""By which a style loads something; an escape may stand for any of it."""


def contain_page(text: str) -> str:
    """A page whose browser runs no script but that of our reports, loads nothing, and goes nowhere by itself.

    One that begins as ours do is left as it is. Any other gets our beginning, whose policy holds for all that
    comes after it, and its own directives to the browser, which might take it elsewhere, are none any more.
    """
    heads = [page_head(script) for script in (chart_script(), "")]
    if any(map(text.startswith, heads)) and len(_HTTP_EQUIV.findall(text)) == 1:
        return text
    return f"{heads[0]}\n{_HTTP_EQUIV.sub('data-http-equiv', text)}"


def is_plain_drawing(text: str) -> bool:
    """Check that an SVG file is shapes that we draw, without links, scripts and anything loaded."""
    if "<" in _TAG.sub("", text) or _LOADS.search(_WITHIN.sub("", text)):
        return False
    tags = [found[0] for found in _TAG.finditer(text)]
    # What is used again and again is one path: uses of uses would grow beyond measure.
    once = {name for tag in tags if not tag.startswith("<path ") for name in _ID.findall(tag)}
    return once.isdisjoint(_USED.findall(text)) and "&" not in "".join(_ID.findall(text))
