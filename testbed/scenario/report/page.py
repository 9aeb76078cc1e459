"""report.html: one run on one page. Pure."""

import json
from collections.abc import Iterable
from html import escape

from testbed.scenario.measure.verdict import Status
from testbed.scenario.report.distribution import build_distributions, draw_distribution
from testbed.scenario.report.expectation_table import JudgedExpectation, expectation_table
from testbed.scenario.report.fabric import fabric_drawing
from testbed.scenario.report.figure import draw_run
from testbed.scenario.report.job_strip import job_strips
from testbed.scenario.report.outline import Section, asset, contents, draw_sections, folded, page
from testbed.scenario.report.panel import build_frame, build_panels, shown_intervals
from testbed.scenario.report.panel_drawing import LEFT, RIGHT, WIDTH, Frame, Panel, Series, draw_panel
from testbed.scenario.report.result import RunResult
from testbed.scenario.report.table import (
    alerts,
    collective_table,
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
_WHOLE_MAX = 1e5
_CONCLUSIVE = (Status.PASSED, Status.FAILED)


def build_report(result: RunResult) -> str:
    """The page as HTML text."""
    shown = shown_intervals(result.recording.readings, result.recording.plan.reading_interval_ns)
    panels = build_panels(result.recording, shown)
    frame = build_frame(result.recording, shown) if shown else None
    sections = _sections(result, panels, frame)
    body = f"""<article class="run">
{_head(result)}
{alerts(result)}
{contents(sections)}
{job_strips(result)}
{tiles(result)}
{draw_sections(sections)}
<footer>Shaded: faults while they were active; grey: warm-up and what came after the run.
Made by mrc-testbed {escape(result.provenance.mrc_testbed)}.</footer>
{_cursor(panels, frame) if frame else ""}
</article>"""
    return page(f"{result.plan.scenario}: {result.verdict.status.value}", body, script=cursor_script())


def cursor_script() -> str:
    """The program of pages with reports of runs in them."""
    return asset("report.js")


def embedded_report(report: str, prefix: str) -> str:
    """What a report shows, for a page of several.

    Args:
        report: from `build_report`.
        prefix: of its anchors, which others have too.
    """
    inner = report.partition('<article class="run">')[2].rpartition("</article>")[0]
    for attribute in (' id="', ' href="#'):
        inner = inner.replace(attribute, attribute + prefix)  # texts have no quotes: they are escaped
    return inner.replace("<h1>", "<h2>").replace("</h1>", "</h2>")


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


def _sections(result: RunResult, panels: Iterable[Panel], frame: Frame | None) -> list[Section]:
    expectations = map(JudgedExpectation.of, result.verdict.outcomes)
    return [
        Section("figure", "Figure", _figure(result)),
        Section("expectations", "Expectations", expectation_table(expectations)),
        Section("faults", "Faults and recovery", fault_table(result)),
        Section("time", "Over time", "\n".join(_card(panel, frame) for panel in panels) if frame else ""),
        Section("latency", "Latency distribution", _distributions(result)),
        Section("planes", "Planes", plane_table(result)),
        Section("evs", "EV state changes by reason", transition_table(result)),
        Section("collectives", "Collectives", collective_table(result)),
        Section("flows", "Flows", flow_table(result)),
        Section("fabric", "Fabric", fabric_drawing(result)),
        Section("fidelity", "Fidelity of the testbed", fidelity_table(result)),
        Section("provenance", "Provenance", provenance_table(result)),
    ]


def _figure(result: RunResult) -> str:
    """What the scenario's `figure:` asks for; step time stands at the head already."""
    drawn = draw_run(result.recording, is_file=False, without=["step-time"])
    return f'<div class="card">{drawn}</div>' if drawn else ""


def _card(panel: Panel, frame: Frame) -> str:
    legend = "".join(
        f"<li>{_key(series.style, is_area=panel.form in ('areas', 'lanes'))}{escape(series.name)}"
        f'<output data-panel="{panel.key}" data-series="{index}" aria-hidden="true"></output></li>'
        for index, series in enumerate(panel.series)
    )
    note = f'<p class="muted">{escape(panel.note)}</p>' if panel.note else ""
    drawn = (
        f'<div class="card"><div class="panel-head"><h3>{escape(panel.title)}</h3>'
        f'<ul class="legend">{legend}</ul></div>\n{note}{draw_panel(panel, frame)}</div>'
    )
    return folded(f"{panel.title}: {panel.silence}", drawn) if panel.silence else drawn


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


def _cursor(panels: Iterable[Panel], frame: Frame) -> str:
    values = _embedded(_cursor_values(panels, frame))
    return f'<script type="application/json" class="frame">{values}</script>'


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
    return f"[{','.join(map(_digits, series.values))}]"


def _digits(value: float | None) -> str:
    """Three digits; whole numbers that are longer in full."""
    if value is None:
        return "null"
    return f"{value:.0f}" if value == round(value) and abs(value) < _WHOLE_MAX else f"{value:.3g}"


def _embedded(text: str) -> str:
    """JSON that no markup within can end early."""
    return text.replace("<", "\\u003c")
