"""A dashboard around its panels: variables, fault windows, links to the others, refresh."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from dashboards.panel import RED, SOURCE, AnyPanel

TAG: Final = "mrc-testbed"
UID_PREFIX: Final = "mrc-"
REFRESH: Final = "1s"
_INTERVALS: Final = ["1s", "2s", "5s", "10s", "30s", "1m"]

LAB: Final = 'lab="$lab"'
PLANE: Final = f'{LAB},plane=~"$plane"'
NODE: Final = f'{LAB},node=~"$node"'
PLANE_NODE: Final = f'{PLANE},node=~"$node"'
WINDOW: Final = "$__rate_interval"

PACKETS: Final = "count:packets/s"
FRAMES: Final = "count:frames/s"
EVS: Final = "count:EVs/s"
"""Units of rates; Grafana's own for packets gives 0.3 of them as 300 mp/s."""

ALERT_LINK: Final = ("What to do", "http://$exporter/alerts/${__data.fields.Alert}")
BOARD_LINK: Final = (
    "Look there",
    f"/d/{UID_PREFIX}${{__data.fields.Dashboard}}?var-lab=$lab&$__url_time_range",
)
RUN_LINK: Final = ("Report, once the run has ended", "http://$exporter/runs/${__data.fields.Run}")
"""Titles and addresses of links; the exporter serves runbooks and reports."""

_VARIABLES: Final = {
    "plane": ("Plane", f"label_values(mrc_packet_rtt_seconds_count{{{LAB}}}, plane)"),
    "node": ("Node", f"label_values(mrc_passed_to_stack_packets_total{{{LAB}}}, node)"),
}


@dataclass(frozen=True, slots=True)
class Section:
    """Panels below one heading."""

    title: str  # the heading
    panels: Sequence[AnyPanel]  # from left to right, then down


class FaultWindows(model.AnnotationQuery):
    """The times at which a fault was active; the SDK lacks what a query to Prometheus needs for it."""

    def to_json(self) -> dict[str, object]:
        extra = {"step": REFRESH, "tagKeys": "fault_id,kind"}
        texts = {"titleFormat": "{{fault_id}}", "textFormat": "{{kind}} on {{place}}"}
        return {**super().to_json(), **extra, **texts}


class _FaultWindowsBuilder(build.AnnotationQuery):
    def __init__(self) -> None:
        self._internal = FaultWindows(
            name="Faults",
            datasource=SOURCE,
            enable=True,
            icon_color=RED,
            expr=f"mrc_fault_active{{{LAB}}}",
        )


def board(
    name: str, title: str, description: str, sections: Sequence[Section], variables: Sequence[str] = ()
) -> model.Dashboard:
    """The dashboard *name*; of the variables `plane` and `node` it has those that its queries use.

    The variable `exporter`, which is not shown, is the address that links lead to.
    """
    builder = build.Dashboard(title).uid(UID_PREFIX + name).description(description).tags([TAG])
    builder.time("now-5m", "now").refresh(REFRESH).live_now(True).timezone("browser").readonly()
    builder.timepicker(build.TimePicker().refresh_intervals(_INTERVALS))
    builder.tooltip(model.DashboardCursorSync.CROSSHAIR)
    builder.with_variable(
        build.DatasourceVariable("datasource").label("Data source").type("prometheus").regex("")
    )
    builder.with_variable(_choice("lab", "Lab", "label_values(mrc_testbed_lab_up, lab)", many=False))
    for variable in variables:
        label, query = _VARIABLES[variable]
        builder.with_variable(_choice(variable, label, query, many=True))
    exporter = _choice("exporter", "", "label_values(mrc_testbed_build_info, instance)", many=False)
    builder.with_variable(exporter.hide(model.VariableHide.HIDE_VARIABLE))
    builder.annotation(_FaultWindowsBuilder())
    builder.link(
        build.DashboardLink("mrc-testbed")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )
    number = 0
    for section in sections:
        number += 1
        builder.with_row(build.Row(section.title).id(number))
        for panel in section.panels:
            number += 1
            builder.with_panel(panel.id(number))
    made = builder.build()
    for model_variable in made.templating.list_val or ():
        # of intervals only, which the SDK gives to every kind of variable, and Grafana's schema does not
        model_variable.auto = model_variable.auto_min = model_variable.auto_count = None
    return made


def _choice(name: str, label: str, query: str, *, many: bool) -> build.QueryVariable:
    variable = build.QueryVariable(name).label(label).query({"query": query, "refId": name, "qryType": 1})
    variable.datasource(SOURCE).refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable.sort(model.VariableSort.NATURAL_ASC).multi(many).include_all(many)
    if many:
        variable.all_value(".*").current(model.VariableOption(text="All", value="$__all", selected=True))
    return variable
