"""Pages that open anywhere, offline: all they need is within, and a policy forbids to load more. Pure."""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mrc_agents.objects import how_to_build
from mrc_testbed.errors import TestbedError
from mrc_testbed.report.chart import Chart, charts_json

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {}; base-uri 'none'; form-action 'none'"
)
SERVED_POLICY: Final = _POLICY.format("'unsafe-inline'") + "; frame-ancestors 'none'; sandbox allow-scripts"
"""The policy with which a server sends such a page, of any version; the page's own names its one script.

Without an origin the page can ask the server nothing in the user's name.
"""

_LIBRARY: Final = "_uplot"


class Section(NamedTuple):
    """A section; one without content is left out."""

    anchor: str
    title: str
    content: str


@cache
def templates(package: str) -> Environment:
    """Templates of a package: names ending in .html.j2; values in them are escaped.

    Args:
        package: its dotted name; its folder `templates` has them. They may use those of this package.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    if package != __package__:
        environment.globals["ui"] = templates("mrc_testbed.report").get_template("parts.html.j2").module
    return environment


def html(text: str) -> Markup:
    """Text that is HTML already: of a template, or with nothing in it from outside that was not escaped."""
    return Markup(text)  # noqa: S704 # nosec B704


def render(package: str, name: str, **values: object) -> Markup:
    return html(templates(package).get_template(name).render(values))


def part(macro: str, *values: object) -> Markup:
    """A macro of parts.html.j2, as HTML."""
    filled: Markup = getattr(templates("mrc_testbed.report").get_template("parts.html.j2").module, macro)(
        *values
    )
    return filled


def page(title: str, body: str, *, style: str = "", has_charts: bool = True) -> str:
    """A whole page.

    Args:
        body: HTML of what it shows.
        style: what it has beyond the style sheet of reports.
        has_charts: it may draw some.
    """
    script = chart_script() if has_charts else ""
    return render(
        "mrc_testbed.report",
        "page.html.j2",
        head=html(page_head(script)),
        title=title,
        style=html("\n".join(map(asset, ("uPlot.min.css", "charts.css", "report.css"))) + style),
        body=html(body),
        script=html(script),
    )


def page_head(script: str) -> str:
    """The beginning of a page: a policy that lets this script run, and nothing else that comes after it."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = _POLICY.format(f"'sha256-{digest}'" if script else "'none'")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">"""


@cache
def chart_script() -> str:
    """The program of pages with charts: uPlot, with its licence, and ours."""
    library = asset("uPlot.iife.min.js").partition("\n")[2]  # without the address of its project
    return f"/*! uPlot\n{asset('LICENSE')}*/\n{library}\n{asset('charts.js')}"


@cache
def asset(name: str) -> str:
    """A file that is part of pages: ours, or the chart library's."""
    folder = resources.files("mrc_testbed.report").joinpath("assets")
    for path in (folder.joinpath(name), folder.joinpath(_LIBRARY, name)):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise TestbedError(f"{name} of uPlot, which draws charts, is missing", hint=how_to_build("charts"))


def chart_data(charts: Iterable[Chart]) -> Markup:
    """Data that charts.js draws into the places that `chart_cards` makes in the same article."""
    return part("data", html(charts_json(charts)))


def chart_cards(charts: Iterable[Chart], *, is_folding: bool = False) -> Markup:
    """A card for each chart; with *is_folding* one without anything to see in it is to be opened first."""
    return part("cards", list(charts), is_folding)
