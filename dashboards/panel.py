"""Panels of one look: what time series, numbers, heatmaps and timelines of all dashboards have in common.

Every panel has a title, a description that says what it shows and how to read it, a unit of Grafana's,
queries with the legend of what they return, and a size: columns of 24, rows.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, heatmap, prometheus, stat, statetimeline, table
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
GREY: Final = "text"

SOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that the dashboard's first variable chooses."""

Query = tuple[str, str]
"""PromQL, and the legend of what it returns."""

Steps = Sequence[tuple[float, str]]
"""Thresholds: from this value on, that colour; below the first, green."""

AnyPanel = series.Panel | stat.Panel | heatmap.Panel | statetimeline.Panel | bargauge.Panel | table.Panel
PanelT = TypeVar(
    "PanelT", series.Panel, stat.Panel, heatmap.Panel, statetimeline.Panel, bargauge.Panel, table.Panel
)


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
) -> series.Panel:
    """Lines over time, or areas on top of one another; *steps* are drawn as dashed lines."""
    panel = _begun(series.Panel(), title, description, queries, width, height)
    panel.unit(unit).color_scheme(build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    panel.line_width(1).fill_opacity(60 if stacked else 8).show_points(kinds.VisibilityMode.NEVER)
    panel.stacking(
        common.StackingConfig().mode(kinds.StackingMode.NORMAL if stacked else kinds.StackingMode.NONE)
    )
    panel.tooltip(
        common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)
    )
    panel.legend(_legend("last", "max"))
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
    height: int = 4,
    steps: Steps = (),
    texts: Mapping[int, tuple[str, str]] | None = None,
    decimals: int | None = None,
) -> stat.Panel:
    """The latest value, large, over its line; *texts* (value -> text, colour) replace the number."""
    panel = _begun(stat.Panel(), title, description, queries, width, height)
    panel.unit(unit).thresholds(_thresholds(steps)).no_value("none")
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


def timeline(
    title: str,
    description: str,
    queries: Sequence[Query],
    texts: Mapping[int, tuple[str, str]],
    *,
    width: int = 24,
    height: int = 8,
) -> statetimeline.Panel:
    """A bar per series, coloured by its state (value -> text, colour) over time."""
    panel = _begun(statetimeline.Panel(), title, description, queries, width, height)
    panel.mappings([_mapping(texts)]).show_value(kinds.VisibilityMode.AUTO)
    panel.color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    panel.thresholds(_thresholds(()))
    return panel.merge_values(True).row_height(0.85).line_width(0).fill_opacity(80).legend(_legend())


def ranking(
    title: str, description: str, unit: str, queries: Sequence[Query], *, width: int = 12, steps: Steps = ()
) -> bargauge.Panel:
    """Bars of the present values, one per series."""
    panel = _begun(bargauge.Panel(), title, description, queries, width, 8)
    panel.targets([query.instant() for query in _queries(queries)])
    panel.unit(unit).min(0).thresholds(_thresholds(steps)).no_value("none")
    panel.color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    return panel.orientation(kinds.VizOrientation.HORIZONTAL).display_mode(kinds.BarGaugeDisplayMode.BASIC)


def listing(
    title: str,
    description: str,
    expression: str,
    columns: Mapping[str, str],
    *,
    value: tuple[str, str],
    width: int = 12,
    height: int = 8,
) -> table.Panel:
    """A table of what one query returns now: *columns* (label -> heading), the value (heading, unit)."""
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
    return panel.unit(value[1]).no_value("none").show_header(True)


def _begun(
    panel: PanelT, title: str, description: str, queries: Sequence[Query], width: int, height: int
) -> PanelT:
    panel.title(title).description(description).datasource(SOURCE).span(width).height(height)
    panel.targets(list(_queries(queries)))
    return panel


def _queries(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [_query(expression, legend, index) for index, (expression, legend) in enumerate(queries)]


def _query(expression: str, legend: str, index: int) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(expression).range().ref_id(chr(ord("A") + index)).datasource(SOURCE)
    return query.legend_format(legend).editor_mode(prometheus_kinds.QueryEditorMode.CODE)


def _legend(*calculations: str) -> common.VizLegendOptions:
    shape = kinds.LegendDisplayMode.TABLE if calculations else kinds.LegendDisplayMode.LIST
    legend = common.VizLegendOptions().display_mode(shape).placement(kinds.LegendPlacement.BOTTOM)
    return legend.show_legend(True).calcs(list(calculations))


def _thresholds(steps: Steps) -> build.ThresholdsConfig:
    thresholds = [model.Threshold(value=None, color=GREEN)]
    thresholds += [model.Threshold(value=value, color=colour) for value, colour in steps]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def _mapping(texts: Mapping[int, tuple[str, str]]) -> model.ValueMap:
    return model.ValueMap(
        options={
            str(value): model.ValueMappingResult(text=text, color=colour, index=index)
            for index, (value, (text, colour)) in enumerate(texts.items())
        }
    )
