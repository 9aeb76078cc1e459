"""report.html: one run on one page that opens anywhere, without network, script optional. Pure.

The page carries its style, script and drawings; its own content policy forbids loading anything else.
"""

import json
from collections.abc import Iterable
from html import escape
from importlib import resources

from testbed.scenario.measure.verdict import Status
from testbed.scenario.report.distribution import build_distributions, draw_distribution
from testbed.scenario.report.fabric import fabric_drawing
from testbed.scenario.report.figure import draw_run
from testbed.scenario.report.job_strip import job_strips
from testbed.scenario.report.panel import build_frame, build_panels, shown_intervals
from testbed.scenario.report.panel_drawing import LEFT, RIGHT, WIDTH, Frame, Panel, Series, draw_panel
from testbed.scenario.report.result import RunResult
from testbed.scenario.report.table import (
    alerts,
    collective_table,
    expectation_table,
    fault_table,
    fidelity_table,
    flow_table,
    plane_table,
    provenance_table,
    tiles,
    transition_table,
)

_MARKS = {
    Status.PASSED: ("good", "\u2713"),
    Status.FAILED: ("bad", "\u2717"),
    Status.ERROR: ("bad", "!"),
    Status.ABORTED: ("warn", "!"),
    Status.UNTRUSTED: ("warn", "?"),
    Status.INTERRUPTED: ("warn", "!"),
}
_CONCLUSIVE = (Status.PASSED, Status.FAILED)
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


def build_report(result: RunResult) -> str:
    """The page as HTML text."""
    shown = shown_intervals(result.recording.readings)
    panels = build_panels(result.recording, shown)
    frame = build_frame(result.recording, shown) if shown else None
    title = escape(f"{result.plan.scenario}: {result.verdict.status.value}")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>
{_asset("report.css")}</style>
</head>
<body>
<main>
{_head(result)}
{alerts(result)}
{job_strips(result)}
{tiles(result)}
{_figure(result)}
{_section("Expectations", expectation_table(result))}
{_section("Faults and recovery", fault_table(result))}
{_timeline(panels, frame) if frame else ""}
{_section("How often which time occurred", _distributions(result))}
{_section("Planes", plane_table(result))}
{_section("Why EVs changed their state", transition_table(result))}
{_section("Collectives", collective_table(result))}
{_section("Flows", flow_table(result))}
{_section("Fabric", fabric_drawing(result))}
{_section("Fidelity of the testbed", fidelity_table(result))}
{_section("Provenance", provenance_table(result))}
<footer>Shaded: faults as they were really applied; grey: warm-up and what came after the run.
Made by mrc-testbed {escape(result.provenance.mrc_testbed)}.</footer>
</main>
{_script(panels, frame) if frame else ""}
</body>
</html>
"""


def _head(result: RunResult) -> str:
    style, mark = _MARKS[result.verdict.status]
    description = f"<p>{escape(result.plan.description)}</p>" if result.plan.description else ""
    started = result.started.strftime("%Y-%m-%d %H:%M:%S UTC")
    # What ended a run early, or makes it untrusted, stands in an alert of its own.
    reason = f"{_sentence(result.verdict.reason)} " if result.verdict.status in _CONCLUSIVE else ""
    return (
        f'<header><div class="head"><h1>{escape(result.plan.scenario)}</h1>'
        f'<span class="badge {style}">{mark} {result.verdict.status.value}</span></div>'
        f"{description}"
        f'<p class="muted">{escape(reason)}'
        f"Run <code>{escape(result.run_id)}</code>, seed {result.plan.seed}, {started}.</p></header>"
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>\n{content}\n</section>" if content else ""


def _figure(result: RunResult) -> str:
    """What the scenario's `figure:` asks for; step time stands at the head already."""
    drawn = draw_run(result.recording, is_file=False, without=["step-time"])
    return _section("Figure", f'<div class="card">{drawn}</div>') if drawn else ""


def _timeline(panels: Iterable[Panel], frame: Frame) -> str:
    cards = "\n".join(_card(panel, frame) for panel in panels)
    return f"<section><h2>Over time</h2>\n{cards}\n</section>"


def _card(panel: Panel, frame: Frame) -> str:
    legend = "".join(
        f"<li>{_key(series.style, is_area=panel.form in ('areas', 'lanes'))}{escape(series.name)}"
        f'<output data-panel="{panel.key}" data-series="{index}" aria-hidden="true"></output></li>'
        for index, series in enumerate(panel.series)
    )
    note = f'<p class="muted">{escape(panel.note)}</p>' if panel.note else ""
    return (
        f'<div class="card"><div class="panel-head"><h3>{escape(panel.title)}</h3>'
        f'<ul class="legend">{legend}</ul></div>\n{note}{draw_panel(panel, frame)}</div>'
    )


def _distributions(result: RunResult) -> str:
    cards = []
    for drawn in build_distributions(result.recording):
        legend = "".join(
            f"<li>{_key(outline.style, is_area=False)}{escape(outline.name)}</li>"
            for outline in drawn.outlines
        )
        cards.append(
            f'<div class="card"><div class="panel-head"><h3>{escape(drawn.title)}</h3>'
            f'<ul class="legend">{legend}</ul></div>\n'
            '<p class="muted">Share of all times in each bar; both scales are logarithmic.</p>'
            f"{draw_distribution(drawn)}</div>"
        )
    return "\n".join(cards)


def _key(style: str, *, is_area: bool) -> str:
    """The sample of a line or area in a legend."""
    shape = (
        f'<rect class="area {style}" width="26" height="10"/>'
        if is_area
        else f'<path class="line {style}" d="M0,5L26,5"/>'
    )
    return f'<svg viewBox="0 0 26 10" aria-hidden="true">{shape}</svg>'


def _script(panels: Iterable[Panel], frame: Frame) -> str:
    values = f'<script type="application/json" id="frame">{_embedded(_cursor_values(panels, frame))}</script>'
    return f"{values}\n<script>\n{_asset('report.js')}</script>"


def _cursor_values(panels: Iterable[Panel], frame: Frame) -> str:
    """What the script needs: the time axis in drawing units, and every value to three digits."""
    drawn = list(panels)
    text = json.dumps(
        {
            "edges": [round(edge) for edge in frame.edges],
            "low": frame.axis.low,
            "high": frame.axis.high,
            "left": LEFT,
            "right": RIGHT,
            "width": WIDTH,
            "units": {panel.key: panel.format.units for panel in drawn},
        },
        separators=(",", ":"),
    )
    values = ",".join(f'"{panel.key}":[{",".join(map(_numbers, panel.series))}]' for panel in drawn)
    return f'{text[:-1]},"values":{{{values}}}}}'


def _numbers(series: Series) -> str:
    """The values as a JSON array that is as short as it can be."""
    return f"[{','.join('null' if value is None else f'{value:.3g}' for value in series.values)}]"


def _embedded(text: str) -> str:
    """JSON that no markup within can end early."""
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return resources.files("testbed.scenario.report").joinpath("assets", name).read_text(encoding="utf-8")
