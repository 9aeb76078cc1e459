"""The outline of a report: a page that opens anywhere, without network, script optional; sections with
anchors, a list of what it contains, what is folded. Pure.

The page carries its style, script and drawings; its own content policy forbids loading anything else.
"""

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Final, NamedTuple

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {}; base-uri 'none'; form-action 'none'"
)


def page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole page.

    Args:
        title: of its window.
        body: HTML of what it shows.
        style: what it has beyond the style sheet of reports.
        script: its program; empty for none.
    """
    return f"""{page_head(script)}
<title>{escape(title)}</title>
<style>
{asset("report.css")}{style}</style>
</head>
<body>
<main>
{body}
</main>
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


def page_head(script: str) -> str:
    """How a page begins: with a policy that lets this script run, and nothing else that comes after it."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = _POLICY.format(f"'sha256-{digest}'" if script else "'none'")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">"""


def asset(name: str) -> str:
    """A file that is part of pages."""
    return resources.files("testbed.scenario.report").joinpath("assets", name).read_text(encoding="utf-8")


class Section(NamedTuple):
    """A section; one without content is left out."""

    anchor: str
    title: str
    content: str


def contents(sections: Iterable[Section]) -> str:
    """Links to the sections."""
    links = "".join(
        f'<li><a href="#{each.anchor}">{escape(each.title)}</a></li>' for each in sections if each.content
    )
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def draw_sections(sections: Iterable[Section]) -> str:
    """The sections, each under its heading."""
    return "\n".join(
        f'<section id="{each.anchor}"><h2>{escape(each.title)}</h2>\n{each.content}\n</section>'
        for each in sections
        if each.content
    )


def folded(summary: str, content: str) -> str:
    """Something that is opened by who wants to see it."""
    return f"<details><summary>{escape(summary)}</summary>\n{content}</details>"
