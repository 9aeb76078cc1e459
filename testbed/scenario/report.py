"""report.html: one run on one page that opens anywhere, without network, script optional. Pure.

The page carries its style, script and drawings; its own content policy forbids loading anything else.
"""

import json
from collections.abc import Iterable
from html import escape
from importlib import resources

from testbed.scenario.report_figure import LEFT, RIGHT, WIDTH, Frame, Panel, draw_panel
from testbed.scenario.report_panel import build_frame, build_panels, shown_intervals
from testbed.scenario.report_table import (
    alerts,
    expectation_table,
    fault_table,
    flow_table,
    latency_table,
    provenance_table,
    tiles,
)
from testbed.scenario.result import RunResult
from testbed.scenario.verdict import Status

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
    panels = build_panels(result.plan, shown)
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
{tiles(result)}
{_section("Expectations", expectation_table(result))}
{_section("Faults and recovery", fault_table(result))}
{_timeline(panels, frame) if frame else ""}
{_section("RTT by plane", latency_table(result))}
{_section("Flows", flow_table(result))}
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


def _timeline(panels: Iterable[Panel], frame: Frame) -> str:
    cards = "\n".join(_card(panel, frame) for panel in panels)
    return f"<section><h2>Over time</h2>\n{cards}\n</section>"


def _card(panel: Panel, frame: Frame) -> str:
    legend = "".join(
        f"<li>{_key(panel, series.style)}{escape(series.name)}"
        f'<output data-panel="{panel.key}" data-series="{index}" aria-hidden="true"></output></li>'
        for index, series in enumerate(panel.series)
    )
    note = f'<p class="muted">{escape(panel.note)}</p>' if panel.note else ""
    return (
        f'<div class="card"><div class="panel-head"><h3>{escape(panel.title)}</h3>'
        f'<ul class="legend">{legend}</ul></div>\n{note}{draw_panel(panel, frame)}</div>'
    )


def _key(panel: Panel, style: str) -> str:
    """The sample of a line or area in the legend."""
    shape = (
        f'<rect class="area {style}" width="26" height="10"/>'
        if panel.form == "areas"
        else f'<path class="line {style}" d="M0,5L26,5"/>'
    )
    return f'<svg viewBox="0 0 26 10" aria-hidden="true">{shape}</svg>'


def _script(panels: Iterable[Panel], frame: Frame) -> str:
    values = f'<script type="application/json" id="frame">{_embedded(_cursor_values(panels, frame))}</script>'
    return f"{values}\n<script>\n{_asset('report.js')}</script>"


def _cursor_values(panels: Iterable[Panel], frame: Frame) -> str:
    """What the script needs: the time axis in drawing units, and every value as text."""
    values = {
        panel.key: [
            ["-" if value is None else panel.format(value) for value in series.values]
            for series in panel.series
        ]
        for panel in panels
    }
    return json.dumps(
        {
            "edges": frame.edges,
            "low": frame.axis.low,
            "high": frame.axis.high,
            "left": LEFT,
            "right": RIGHT,
            "width": WIDTH,
            "values": values,
        },
        separators=(",", ":"),
    )


def _embedded(text: str) -> str:
    """JSON that no markup within can end early."""
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return resources.files("testbed.scenario").joinpath("report_assets", name).read_text(encoding="utf-8")
