"""Units of panels: each is that of its data, and one row shows one quantity in one unit."""

import re
from collections import defaultdict
from typing import Any

import pytest
from dashboard_files import PanelQuery, load_dashboards, panels
from promql_units import RATE, Unit, unit_of

DASHBOARDS = load_dashboards()
BUCKETS = "heatmap"
"""Its values are counts; the unit is that of its vertical axis."""


def unit_of_panel(panel: dict[str, Any]) -> str:
    """Unit of the values, which a table has for one of its columns."""
    of_columns = [
        each["value"]
        for override in panel["fieldConfig"].get("overrides", ())
        for each in override["properties"]
        if each["id"] == "unit"
    ]
    unit = str(panel["fieldConfig"]["defaults"].get("unit") or of_columns[0])
    return re.sub("^count:.*/s$", RATE, unit)


def queries_of(name: str, panel: dict[str, Any]) -> list[PanelQuery]:
    return [PanelQuery(name, panel["title"], target["expr"]) for target in panel["targets"]]


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_a_panel_has_the_unit_of_its_data(name: str) -> None:
    for panel in panels(DASHBOARDS[name]):
        if panel["type"] == BUCKETS:
            assert panel["options"]["yAxis"]["unit"] == "s"
            continue
        for query in queries_of(name, panel):
            assert unit_of_panel(panel) in unit_of(query).of_grafana, panel["title"]


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_a_row_shows_a_quantity_in_one_unit(name: str) -> None:
    shown: dict[tuple[int, Unit], set[str]] = defaultdict(set)
    for panel in panels(DASHBOARDS[name]):
        if panel["type"] != BUCKETS:
            for query in queries_of(name, panel):
                found = unit_of(query)
                quantity = Unit(found.bytes, found.seconds, found.things if found.bytes == 0 else 0)
                shown[panel["gridPos"]["y"], quantity].add(unit_of_panel(panel))
    for (row, quantity), units in shown.items():
        assert len(units) == 1, (row, quantity, units)


@pytest.mark.parametrize(
    ("expression", "unit"),
    [
        ("8 * sum(rate(mrc_port_tx_bytes_total[4s]))", "bps"),
        ("sum by (node) (rate(mrc_goodput_bytes_total[4s])) * 8", "bps"),
        ("rate(mrc_goodput_bytes_total[4s])", "Bps"),
        ("histogram_quantile(0.99, sum by (le) (rate(mrc_packet_rtt_seconds_bucket[4s])))", "s"),
        ("rate(mrc_paused_seconds_total[4s])", "percentunit"),
        ("increase(mrc_paused_seconds_total[1m])", "s"),
        ("mrc_cwnd_bytes / (mrc_sending_qps > 0)", "bytes"),
        ("mrc_cwnd_bytes / (mrc_cwnd_max_bytes > 0)", "percentunit"),
        ("8 * sum(rate(mrc_a_bytes_total[4s])) / sum(rate(mrc_b_seconds_sum[4s]))", "bps"),
        ("sum(rate(mrc_x_seconds_sum[4s])) / sum(rate(mrc_x_seconds_count[4s]))", "s"),
        ("rate(mrc_trims_total[4s])", RATE),
        ("rate(mrc_trims_total[4s]) and mrc_link_up > 0", RATE),
        ("mrc_a_seconds / mrc_b_seconds or vector(0) and on () mrc_link_up", "percentunit"),
        ("count(mrc_link_up == 0)", "short"),
        ("time() - min_over_time(timestamp(mrc_fault_active)[1m:1s])", "s"),
        ("lab:mrc_goodput_bytes:rate5s", "Bps"),
        ("sum(lab_plane:mrc_link_drops:rate5s)", RATE),
        ("rate(lab_plane_reason:mrc_link_drops_total:sum[4s])", RATE),
        ("lab_plane:mrc_ev_bad:ratio", "percentunit"),
        ("1000 * ALERTS_FOR_STATE", "dateTimeFromNow"),
    ],
)
def test_the_unit_of_an_expression(expression: str, unit: str) -> None:
    assert unit in unit_of(PanelQuery("", "", expression)).of_grafana


def test_what_differs_in_its_unit_is_not_added() -> None:
    with pytest.raises(ValueError, match="meet in"):
        unit_of(PanelQuery("", "", "mrc_a_seconds + mrc_b_bytes"))
