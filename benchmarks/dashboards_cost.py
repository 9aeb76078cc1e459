"""The cost of watching 64 hosts: CPU time and size of a scrape, and the dashboards' queries over an hour.

Every host writes to the host at the same place of the next T0. An hour of scrapes is made of two pages of the
shaped lab, which has more series. Then each query is asked as Grafana asks it.
"""

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from dashboard_files import load_dashboards, panels

from benchmarks.exporter_cost import core_percent, cpu_ms
from benchmarks.figure import Figure
from benchmarks.metrics_history import HOUR_S, SCRAPE_S, Prometheus, prometheus_with_hour
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_testbed.metrics.exporter import Exporter
from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=4, t0=8, t1=4, hosts_per_t0=8)
SHAPED = SPEC.model_copy(update={"port_rate": 20_000_000})
WINDOW_PACKETS = 16
WARM_UP_S = 5
REPETITIONS = 5
LIMIT_MS = 200

_ANNOTATION_POINTS = 100
_ROUNDED_S = {1.5: 1, 3.5: 2, 7.5: 5, 12.5: 10, 17.5: 15, 25: 20, 45: 30, 90: 60}
"""Steps below these are rounded to these.

Source: Grafana, packages/grafana-data/src/datetime/rangeutil.ts, roundInterval.
"""


@dataclass(frozen=True, slots=True)
class Query:
    """A query with its variables replaced, and the first place where it stands."""

    place: str
    expression: str
    step_s: int
    is_instant: bool


def run() -> Iterator[Figure]:
    pages: list[bytes] = []
    yield from scrapes(pages)
    written = [target["expr"] for *_, target in _targets()]
    with prometheus_with_hour(pages[-2], pages[-1], written, _free_port()) as server:
        yield from _asking(server)


def scrapes(pages: list[bytes]) -> Iterator[Figure]:
    """Figures of the exporter alone; appends the pages."""
    yield from _scraping("unshaped", SPEC, pages)
    yield from _scraping("shaped", SHAPED, pages)


PARTS = {"scrapes": partial(scrapes, [])}


def _scraping(name: str, spec: TopologySpec, pages: list[bytes]) -> Iterator[Figure]:
    """Figures of the exporter; appends two pages with traffic, SCRAPE_S apart, to *pages*."""
    with live_lab(spec) as lab, ExitStack() as opened:
        step, count = spec.hosts_per_t0, spec.numbering.host_count
        transfers = [
            opened.enter_context(Transfer(lab, host, (host + step) % count, window_packets=WINDOW_PACKETS))
            for host in range(count)
        ]
        exporter = Exporter([lab.name])
        opened.callback(exporter.close)
        for transfer in transfers:
            transfer.start()
        pause(WARM_UP_S)
        pages.append(exporter.page())
        pause(SCRAPE_S)
        pages.append(exporter.page())
        for transfer in transfers:
            transfer.finish()
        scrape_ms = cpu_ms(exporter.page)
    lines = [line for line in pages[-1].splitlines() if not line.startswith(b"#")]
    what = f"{count} hosts, {name}:"
    yield Figure("dashboards_cost", f"{what} a page", "B", (len(pages[-1]),))
    yield Figure("dashboards_cost", f"{what} samples of a page", "", (len(lines),))
    yield Figure("dashboards_cost", f"{what} CPU time of a scrape", "ms", scrape_ms)
    share = core_percent(scrape_ms, 1 / SCRAPE_S)
    yield Figure(
        "dashboards_cost", f"{what} exporter, one scrape in {SCRAPE_S} s", "% of a core", share, "<= 1"
    )


def _asking(server: Prometheus) -> Iterator[Figure]:
    times_ms: dict[Query, tuple[float, ...]] = {}
    without_series = 0
    for query in _queries(server):
        answers = [_ask(server, query) for _ in range(REPETITIONS)]
        times_ms[query] = tuple(taken_ms for taken_ms, _ in answers)
        without_series += not answers[0][1]
    medians = {query: median(samples) for query, samples in times_ms.items()}
    late = sum(taken_ms > LIMIT_MS for taken_ms in medians.values())
    slowest = sorted(medians, key=lambda query: medians[query], reverse=True)[: max(1, late)]
    for rank, query in enumerate(slowest, 1):
        what = f"query over an hour, {rank}. slowest, {query.place}"
        yield Figure("dashboards_cost", what, "ms", times_ms[query], f"<= {LIMIT_MS}")
    yield Figure("dashboards_cost", "each query over an hour, its median", "ms", tuple(medians.values()))
    yield Figure("dashboards_cost", "different queries", "", (len(medians),))
    yield Figure("dashboards_cost", f"of them slower than {LIMIT_MS} ms", "", (late,), "0")
    yield Figure("dashboards_cost", "of them without a series", "", (without_series,))


def _ask(server: Prometheus, query: Query) -> tuple[float, bool]:
    """Milliseconds of an answer, and whether any series is in it."""
    if query.is_instant:
        asked = {"query": query.expression, "time": str(server.end_s)}
        taken_ms, data = server.ask("query", asked)
    else:
        span = {"start": str(server.start_s), "end": str(server.end_s), "step": f"{query.step_s}"}
        taken_ms, data = server.ask("query_range", {"query": query.expression, **span})
    return taken_ms, bool(data["result"])


def _targets() -> Iterator[tuple[str, str, int, Mapping[str, Any]]]:
    """Dashboard, title, points at most and query of all dashboards' panels and annotations."""
    for name, dashboard in load_dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield name, panel["title"], panel["maxDataPoints"], target
        for annotation in dashboard["annotations"]["list"]:
            yield name, annotation["name"], _ANNOTATION_POINTS, annotation


def _step_s(points: int) -> int:
    """Grafana's step: the range by the points, rounded; no less than the time between scrapes."""
    rounded_s = next(step_s for limit_s, step_s in _ROUNDED_S.items() if HOUR_S / points < limit_s)
    return max(rounded_s, SCRAPE_S)


def _queries(server: Prometheus) -> list[Query]:
    """The different queries."""
    values = {name: _variables(dashboard, server) for name, dashboard in load_dashboards().items()}
    found: dict[tuple[str, bool], Query] = {}
    for name, title, points, target in _targets():
        step_s, is_instant = _step_s(points), bool(target.get("instant"))
        intervals = {
            "__interval": f"{step_s}s",
            "__rate_interval": f"{max(step_s + SCRAPE_S, 4 * SCRAPE_S)}s",
        }
        expression = _replaced(target["expr"], values[name] | intervals)
        query = Query(f"{name}: {title}", expression, step_s, is_instant)
        found.setdefault((expression, is_instant), query)
    return list(found.values())


def _variables(dashboard: Mapping[str, Any], server: Prometheus) -> dict[str, str]:
    """Values of a dashboard's variables: all where that can be chosen, else the first."""
    values = {"__range": f"{HOUR_S}s", "__range_s": f"{HOUR_S}"}
    for variable in dashboard["templating"]["list"]:
        query = variable.get("query", "")
        text = query if isinstance(query, str) else query["query"]
        asked = re.fullmatch(r"label_values\((?:(.+), *)?(\w+)\)", text)
        if variable.get("includeAll"):
            values[variable["name"]] = variable.get("allValue") or ".*"
        elif asked:
            matcher, label = asked.groups()
            among = {"match[]": _replaced(matcher, values)} if matcher else {}
            values[variable["name"]] = server.ask(f"label/{label}/values", among)[1][0]
        else:
            values[variable["name"]] = text.partition(",")[0].strip()
    return values


def _replaced(expression: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$(?:([a-z_]\w*)|\{(\w+)[^}]*\})", lambda found: values[found[1] or found[2]], expression)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
