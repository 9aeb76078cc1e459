"""The fabric as the report shows it: a drawing in which what faults hit stands out. Pure."""

from html import escape
from typing import Final

from markupsafe import Markup

from mrc_testbed.drawing.svg import graph_svg
from mrc_testbed.report.page import html, part
from mrc_testbed.scenario.report.result import RunResult
from mrc_testbed.topology.resolve import resolve_topology

_NAMESPACE: Final = ' xmlns="http://www.w3.org/2000/svg"'
"""HTML does without it."""


def fabric_drawing(result: RunResult) -> Markup:
    """The fabric of a run; links and nodes that its faults hit stand out, all others fade.

    Each of those says in its tool-tip which faults these were. A large fabric is drawn as a sample.
    """
    clos = resolve_topology(result.plan.topology)
    reasons: dict[str, list[str]] = {}
    for fault in result.plan.faults:
        for place in (*fault.links, *fault.nodes):
            reasons.setdefault(place, []).append(f"{fault.fault_id} ({fault.kind})")
    marks = {place: ", ".join(dict.fromkeys(faults)) for place, faults in reasons.items()}
    links = [link.id for link in clos.links() if link.name in marks]
    drawing = graph_svg(clos, links, marks).replace(_NAMESPACE, "", 1)
    missing = sum(f'data-name="{escape(place)}"' not in drawing for place in marks)
    if not marks:
        note = "No fault was part of this run."
    else:
        note = "Thick: links that faults hit. Point at one for its name and its faults."
    if missing:
        note += f" {missing} of the {len(marks)} are not in this sample of the fabric."
    return part("drawing", note, html(drawing))
