"""Panels of one look: time series, numbers, rankings, tables and heatmaps of all dashboards.

Every panel has a title, a description that says what it shows and how to read it, a unit of Grafana's,
queries with the legend of what they return, and a size: columns of 24, rows.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, heatmap, prometheus, stat, table
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import timeseries as series
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heatmap_kinds
from grafana_foundation_sdk.models import prometheus as prometheus_kinds

GREEN: Final = "green"
YELLOW: Final = "yellow"
ORANGE: Final = "orange"
RED: Final = "red"
GREY: Final = "#8e8e8e"
BLUE: Final = "blue"
PURPLE: Final = "purple"
TEAL: Final = "#1f9e94"
BROWN: Final = "#a0693a"
PINK: Final = "#d16ba5"

COUNT: Final = "short"
"""The unit of things that are counted."""

_NARROW: Final = 8
"""Columns of a panel that has no room for a legend beside its lines."""

SOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that the dashboard's first variable chooses."""

MAX_POINTS: Final = 240
"""Points of a line at most, because a query costs as much as it has. Grafana asks for one a second up to
5 min, one in 15 s for an hour.

Source: Grafana, packages/grafana-data/src/datetime/rangeutil.ts, roundInterval: 1.25 s become 1 s, 15 s stay.
"""

Query = tuple[str, str]
"""PromQL, and the legend of what it returns."""

Steps = Sequence[tuple[float, str]]
"""Thresholds: from this value on, that colour; below the first, green; blue when there are none."""

AnyPanel = series.Panel | stat.Panel | heatmap.Panel | bargauge.Panel | table.Panel
PanelT = TypeVar("PanelT", series.Panel, stat.Panel, heatmap.Panel, bargauge.Panel, table.Panel)

_PLANES: Final = (BLUE, PURPLE, TEAL, BROWN, PINK, "light-blue", "light-purple", GREY)
_REASONS: Final = {
    "link_down": RED,
    "loss": ORANGE,
    "icrc": PURPLE,
    "queue_full": YELLOW,
    "sack": BLUE,
    "nack": PURPLE,
    "timeout": RED,
    "tail": TEAL,
    "ack": GREY,
    "probe": GREEN,
    "late": YELLOW,
}
_COLOURS: Final[Mapping[str, Mapping[str, str]]] = {
    "{{state}}": {"SKIP": YELLOW, "ASSUMED_BAD": RED, "DENIED": GREY},
    "{{reason}}": _REASONS,
    "plane {{plane}}": {f"plane {plane}": colour for plane, colour in enumerate(_PLANES)},
    **{name: {name: colour} for name, colour in (("p50", BLUE), ("p99", ORANGE), ("p99.9", RED))},
    "max": {"max": PURPLE},
    "objective": {"objective": GREY},
}
"""Legend -> colours of series that mean the same wherever they are drawn; the others get the palette's, in
order. Planes have no colour of a traffic light."""


def time_series(
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    *,
    width: int = 12,
    height: int = 8,
    stacked: bool = False,
    steps: Steps = (),
    maximum: float | None = None,
    logarithmic: bool = False,
    from_zero: bool = True,
    alarming: bool = False,
    none: str = "",
) -> series.Panel:
    """Lines over time, or areas on top of one another; *steps* are drawn as dashed lines.

    The legend is a table on the right, the series with the highest maximum first; a list below in a narrow
    panel. *alarming* areas count what is wrong now: red, upright. *none* stands in the place of lines when
    there are none.
    """
    panel = _begun(series.Panel(), title, description, queries, width, height)
    is_area = stacked or alarming
    panel.unit(unit).color_scheme(build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC))
    panel.line_width(1).fill_opacity(60 if is_area else 0).show_points(kinds.VisibilityMode.NEVER)
    panel.stacking(
        common.StackingConfig().mode(kinds.StackingMode.NORMAL if is_area else kinds.StackingMode.NONE)
    )
    if alarming:
        panel.color_scheme(build.FieldColor().mode(model.FieldColorModeId.SHADES).fixed_color(RED))
        panel.line_interpolation(kinds.LineInterpolation.STEP_AFTER).decimals(0)
    panel.tooltip(
        common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)
    )
    is_one_line = len(queries) == 1 and "{{" not in queries[0][1]
    panel.legend(_legend(is_narrow=width <= _NARROW or is_one_line))
    for _, text in queries:
        for name, colour in _COLOURS.get(text, {}).items():
            panel.override_by_name(name, [_property("color", {"mode": "fixed", "fixedColor": colour})])
    if none:
        panel.no_value(none)
    if logarithmic:
        panel.scale_distribution(common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(10))
    elif from_zero:
        panel.min(0)
    if maximum is not None:
        panel.max(maximum)
    if steps:
        panel.thresholds(_thresholds(steps))
        panel.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED)
        )
    return panel


def number(
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    *,
    width: int = 4,
    height: int = 5,
    steps: Steps = (),
    texts: Mapping[int, tuple[str, str]] | None = None,
    decimals: int | None = None,
    none: str = "none",
) -> stat.Panel:
    """The latest value, large, over its line; *texts* (value -> text, colour) replace the number.

    It is green to red by its *steps*, blue without, since then nothing judges it.
    """
    panel = _begun(stat.Panel(), title, description, queries, width, height)
    panel.unit(unit).thresholds(_thresholds(steps)).no_value(none)
    panel.color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    panel.graph_mode(kinds.BigValueGraphMode.AREA).color_mode(kinds.BigValueColorMode.VALUE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    if decimals is not None:
        panel.decimals(decimals)
    if texts is not None:
        panel.mappings([_mapping(texts)])
    return panel


def buckets_over_time(title: str, description: str, expression: str, *, width: int = 24) -> heatmap.Panel:
    """A heatmap of the histogram whose buckets *expression* returns by `le`: colour is the count."""
    panel = _begun(heatmap.Panel(), title, description, [(expression, "{{le}}")], width, 10)
    panel.targets([_query(expression, "{{le}}", 0).format(prometheus_kinds.PromQueryFormat.HEATMAP)])
    panel.y_axis(heatmap.YAxisConfig().unit("s"))
    panel.scale_distribution(common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(2))
    panel.color(
        heatmap.HeatmapColorOptions()
        .mode(heatmap_kinds.HeatmapColorMode.SCHEME)
        .scheme("Viridis")
        .scale(heatmap_kinds.HeatmapColorScale.EXPONENTIAL)
        .exponent(0.4)  # one slow packet among thousands must be seen
        .steps(64)
    )
    panel.filter_values(heatmap.FilterValueRange().le(1e-9))
    return panel.cell_gap(0).show_legend()


def ranking(
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    *,
    width: int = 12,
    height: int = 8,
    steps: Steps = (),
) -> bargauge.Panel:
    """Bars of the present values, one per series."""
    panel = _begun(bargauge.Panel(), title, description, queries, width, height)
    panel.targets([query.instant() for query in _queries(queries)])
    panel.unit(unit).min(0).thresholds(_thresholds(steps)).no_value("none")
    panel.color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.name_placement(kinds.BarGaugeNamePlacement.LEFT).sizing(kinds.BarGaugeSizing.MANUAL)
    panel.min_viz_height(16).max_viz_height(26).value_mode(kinds.BarGaugeValueMode.TEXT)
    panel.text(common.VizTextDisplayOptions().title_size(12).value_size(14))
    return panel.orientation(kinds.VizOrientation.HORIZONTAL).display_mode(kinds.BarGaugeDisplayMode.BASIC)


def listing(
    title: str,
    description: str,
    expression: str,
    columns: Mapping[str, str],
    *,
    value: tuple[str, str],
    links: Mapping[str, tuple[str, str]] | None = None,
    widths_px: Mapping[str, int] | None = None,
    width: int = 12,
    height: int = 8,
) -> table.Panel:
    """A table of what one query returns now.

    Args:
        title: of the panel.
        description: of the panel.
        expression: of the query.
        columns: heading of each label that is shown.
        value: heading and unit of the values, in the last column.
        links: heading -> title and URL of the link of its cells.
        widths_px: heading -> width of its column; the others share the rest.
        width: of the panel, in columns.
        height: of the panel, in rows.
    """
    panel = _begun(table.Panel(), title, description, [], width, height)
    query = _query(expression, "", 0).format(prometheus_kinds.PromQueryFormat.TABLE)
    panel.targets([query.instant()])
    wanted = [*columns, "Value"]
    panel.transformations(
        [
            model.DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": wanted}}),
            model.DataTransformerConfig(
                id_val="organize",
                options={
                    "indexByName": {name: index for index, name in enumerate(wanted)},
                    "renameByName": {**columns, "Value": value[0]},
                },
            ),
        ]
    )
    for heading, (name, url) in (links or {}).items():
        panel.override_by_name(heading, [_property("links", [{"title": name, "url": url}])])
    for heading, width_px in (widths_px or {}).items():
        panel.override_by_name(heading, [_property("custom.width", width_px)])
    panel.override_by_name(value[0], [_property("unit", value[1])])
    return panel.no_value("none").show_header(True)


def _legend(*, is_narrow: bool) -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(True).sort_by("Max").sort_desc(True)
    if is_narrow:
        legend.display_mode(kinds.LegendDisplayMode.LIST).placement(kinds.LegendPlacement.BOTTOM)
        return legend.calcs(["last"])
    legend.display_mode(kinds.LegendDisplayMode.TABLE).placement(kinds.LegendPlacement.RIGHT)
    return legend.calcs(["last", "max"])


def _property(name: str, value: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=name, value=value)


def _begun(
    panel: PanelT, title: str, description: str, queries: Sequence[Query], width: int, height: int
) -> PanelT:
    panel.title(title).description(description).datasource(SOURCE).span(width).height(height)
    panel.targets(list(_queries(queries))).max_data_points(MAX_POINTS)
    return panel


def _queries(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [_query(expression, legend, index) for index, (expression, legend) in enumerate(queries)]


def _query(expression: str, legend: str, index: int) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(expression).range().ref_id(chr(ord("A") + index)).datasource(SOURCE)
    return query.legend_format(legend).editor_mode(prometheus_kinds.QueryEditorMode.CODE)


def _thresholds(steps: Steps) -> build.ThresholdsConfig:
    thresholds = [model.Threshold(value=None, color=GREEN if steps else BLUE)]
    thresholds += [model.Threshold(value=value, color=colour) for value, colour in steps]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def _mapping(texts: Mapping[int, tuple[str, str]]) -> model.ValueMap:
    return model.ValueMap(
        options={
            str(value): model.ValueMappingResult(text=text, color=colour, index=index)
            for index, (value, (text, colour)) in enumerate(texts.items())
        }
    )
