"""`up --observe`: every panel has data of a live lab, and the data move as they should under a fault."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime
from math import isnan
from pathlib import Path
from urllib.request import urlopen

import pytest
from dashboard_files import PanelQuery, load_dashboards, queries
from grafana_double import TOKEN, GrafanaDouble, serving
from live_prometheus import require_program
from observed_lab import LINK, VERDICTS, ObservedLab, Run, observing, write
from waiting import DEADLINE_S
from watched_run import FLAP, WatchedRun, watch

from mrc_testbed.observe.stack_state import StackPaths, read_stack

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow("two runs under a whole stack; test_scrape.py is the short one"),
    pytest.mark.ci,
]

LAB = f"see{os.getpid()}"
SCRAPE_S = 1.0
REPORT_BYTES_MAX = 400_000
LATE_S = 30.0  # a busy machine misses some scrapes
FLOW_CONTROL = [
    f"fabric: {panel}"
    for panel in (
        "Ports in deadlock",
        "Share of time held back",
        "Link directions held back most",
        "Pauses, and waits for credit",
        "Ports that send most pauses",
        "Fullest ingress buffers",
    )
]
MAY_BE_EMPTY = {
    "overview: Alerts": "rules have tests of their own",
    "health: Packets that NICs refused": "there may be none",
    "planes: Profiles of QPs": "QPs of runs have none",
    **dict.fromkeys(FLOW_CONTROL, "the lab has none"),
    **dict.fromkeys(
        ("fabric: Suspected links", "overview: Suspected links"), "a flap may be too short to be suspected"
    ),
}


@pytest.fixture(scope="module")
def observed() -> Iterator[ObservedLab]:
    """A lab and its stack, on ports of the test's own."""
    with observing(LAB) as found:
        yield found


@pytest.fixture(scope="module")
def flap(observed: ObservedLab) -> Run:
    """A link flaps under a flow that meets no congestion."""
    fault = {"id": "flap1", "at": "3s", "for": "12s", "kind": "link-flap", "every": "3s", "down": "1s"}
    scenario = observed.command.write_scenario(
        "flap", [write("h0", "h3", "17s")], [{**fault, "select": {"links": LINK}}]
    )
    return observed.command.run(scenario)


@pytest.fixture(scope="module")
def incast(observed: ObservedLab, flap: Run) -> Run:
    """Two hosts write to one, with windows that do not give way, and all train together."""
    flows = [write("h0", "h3", "4s"), write("h1", "h3", "4s")]
    steps = {"name": "steps", "kind": "training", "size": "16KiB", "compute": "100ms", "duration": "4s"}
    return observed.command.run(observed.command.write_scenario("incast", [*flows, steps], [], "fixed"))


def test_up_ends_with_where_everything_is(observed: ObservedLab) -> None:
    state = read_stack(StackPaths(Path(observed.command.environment["MRC_TESTBED_STATE_DIR"])))
    assert state is not None
    assert observed.prometheus.url in observed.said
    assert f"127.0.0.1:{state.settings.exporter_port}/metrics" in observed.said
    assert "healthy" in observed.said
    assert "Grafana     none" in observed.said or "/d/mrc-overview" in observed.said


def test_it_is_well_and_says_so(observed: ObservedLab) -> None:
    found = json.loads(observed.command.succeeds("observe", "status", "-o", "json"))
    assert found["problems"] == []
    assert [service["name"] for service in found["services"]][:2] == ["exporter", "prometheus"]
    assert found["services"][1]["version"]


@pytest.mark.parametrize("query", sorted(set(queries()), key=str), ids=str)
def test_a_panel_had_data(observed: ObservedLab, flap: Run, incast: Run, query: PanelQuery) -> None:
    expression = query.for_lab(LAB)
    found = observed.prometheus.query_range(expression, flap.start_s, incast.end_s)
    values = [value for _, samples in found for _, value in samples if not isnan(value)]
    is_healed = flap.manifest["faults"][0]["restore"]["longest_ns"] is not None  # else the machine was busy
    may_be_empty = {*MAY_BE_EMPTY, *(() if is_healed else ("faults: Recovery time",))}
    is_of_a_third_tier = 'tier="t2"' in expression  # which the lab lacks
    assert values or is_of_a_third_tier or str(query) in may_be_empty, expression


def test_the_page_of_a_busy_shaped_lab_is_clean_to_promtool(observed: ObservedLab, incast: Run) -> None:
    state = read_stack(StackPaths(Path(observed.command.environment["MRC_TESTBED_STATE_DIR"])))
    assert state is not None
    with urlopen(state.services[0].url, timeout=DEADLINE_S) as answer:  # noqa: S310 - the exporter's own URL
        page = answer.read()
    check = subprocess.run(
        [require_program("promtool"), "check", "metrics"], input=page, capture_output=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


def zero_s(run: Run) -> float:
    """UTC of the run's time 0."""
    return datetime.fromisoformat(run.manifest["time_zero_utc"]).timestamp()


def fault_times(run: Run) -> tuple[float, float]:
    """UTC of when the first outage began and the last ended."""
    begun = min(event["time_ns"] for event in run.events("fault-applied"))
    ended = max(event["time_ns"] for event in run.events("fault-cleared"))
    return zero_s(run) + begun / 1e9, zero_s(run) + ended / 1e9


def test_the_window_of_a_fault_is_where_the_fault_was(observed: ObservedLab, flap: Run) -> None:
    begun_s, ended_s = fault_times(flap)
    found = observed.prometheus.query_range(f'mrc_fault_active{{lab="{LAB}"}}', flap.start_s, flap.end_s)
    ((labels, samples),) = found
    assert (labels["fault_id"], labels["kind"]) == ("flap1", "link-flap")
    assert begun_s - SCRAPE_S <= samples[0][0] <= begun_s + LATE_S
    assert ended_s - LATE_S <= samples[-1][0] <= ended_s + LATE_S


def test_the_exact_windows_of_the_run_go_into_a_grafana(observed: ObservedLab, flap: Run) -> None:
    token = observed.command.folder / "token"
    token.write_text(TOKEN)
    begun_s, ended_s = fault_times(flap)
    with serving(GrafanaDouble()) as double:
        where = ("--grafana-url", double.url, "--token-file", str(token))
        said = observed.command.succeeds("observe", "dashboards", "annotate", str(flap.folder), *where)
        outages = len(list(flap.events("fault-applied")))
        assert f"{outages} of the {outages} fault windows" in said
        assert min(one["time"] for one in double.annotations) == pytest.approx(begun_s * 1000, abs=1)
        assert max(one["timeEnd"] for one in double.annotations) == pytest.approx(ended_s * 1000, abs=1)


def during(observed: ObservedLab, run: Run, expression: str) -> tuple[list[float], list[float]]:
    """Values of a query with one series, before the fault and while it acted and its window reaches."""
    begun_s, ended_s = fault_times(run)
    ((_, samples),) = observed.prometheus.query_range(expression, run.start_s, run.end_s)
    before = [value for time_s, value in samples if zero_s(run) + 1 < time_s < begun_s]
    inside = [value for time_s, value in samples if begun_s <= time_s <= ended_s + LATE_S]
    assert before
    assert inside
    return before, inside


def test_a_flap_raises_retransmissions_and_lowers_good_evs(observed: ObservedLab, flap: Run) -> None:
    lab = f'lab="{LAB}"'
    _, lost = during(observed, flap, f'sum(mrc_link_drops_total{{{lab},reason="link_down"}})')
    assert lost[-1] > 0
    calm, resent = during(observed, flap, f'sum(mrc_retransmits_total{{{lab},reason=~"sack|timeout"}})')
    assert resent[-1] > calm[-1]
    plane = f'{lab},plane="0"'
    _, avoided = during(observed, flap, f'sum(mrc_ev_state{{{plane},state!="GOOD"}})')
    assert max(avoided) > 0
    _, left = during(observed, flap, f'sum(mrc_ev_transitions_total{{{plane},to="ASSUMED_BAD"}})')
    assert left[-1] > left[0]
    outages = len(list(flap.events("fault-applied")))
    observed.prometheus.wait_for(f"sum(mrc_link_flaps_total{{{lab}}})", lambda value: value == outages)


def test_an_incast_marks_and_trims_at_the_last_hop(observed: ObservedLab, incast: Run) -> None:
    for metric in ("mrc_ecn_marks_total", "mrc_trims_total"):
        found = observed.prometheus.query_range(
            f'sum by (tier) (increase({metric}{{lab="{LAB}",tier="t0"}}[4s]))', incast.start_s, incast.end_s
        )
        ((_, samples),) = found
        assert max(value for _, value in samples) > 0, metric


@pytest.fixture(scope="module")
def watched(observed: ObservedLab) -> WatchedRun:
    """A link flaps until everybody has seen it."""
    return watch(observed, LINK)


def test_a_flap_has_the_same_id_on_the_page_in_top_and_in_what_grafana_draws(watched: WatchedRun) -> None:
    assert watched.page_faults == [FLAP]
    assert FLAP in watched.page_windows
    assert [line for line in watched.page_events if f"fault {FLAP} (link-flap)" in line] != []
    snapshot = watched.top["snapshot"]
    assert [(fault["id"], fault["is_interactive"]) for fault in snapshot["faults"]] == [(FLAP, False)]
    assert [place.partition("~")[0] for place in snapshot["faults"][0]["places"]] == [LINK]
    assert set(watched.windows) == set(load_dashboards())
    assert set(watched.windows.values()) == {(FLAP, "link-flap")}


def test_a_flap_has_the_same_id_in_the_results(watched: WatchedRun) -> None:
    assert watched.run.manifest["status"] == "interrupted"
    assert {event["fault"] for event in watched.run.events("fault-applied")} == {FLAP}
    assert FLAP in (watched.run.folder / "summary.md").read_text()
    found = watched.report
    assert len(found.ids_by_panel) >= 6
    assert all(ids == [FLAP] for ids in found.ids_by_panel)
    assert any(row.startswith(FLAP) for row in found.rows)
    assert [hint for hint in found.links if FLAP in hint] != []


def test_the_report_is_small_works_offline_by_keys_and_in_the_dark(watched: WatchedRun) -> None:
    path = watched.run.folder / "report.html"
    assert path.stat().st_size < REPORT_BYTES_MAX
    found = watched.report
    assert found.requested == {path.as_uri()}
    assert found.cursor_times[0] != found.cursor_times[1]
    assert found.cursor_value
    assert not found.is_cursor_left
    assert len(found.backgrounds) == 2


def test_the_stack_outlives_the_lab(observed: ObservedLab, incast: Run) -> None:
    command, lab_up = observed.command, f'mrc_testbed_lab_up{{lab="{LAB}"}}'
    command.succeeds("down", "-n", LAB)
    observed.prometheus.wait_for(f"absent({lab_up})", lambda value: value == 1)
    topology = str(command.folder / "lab.yaml")
    command.succeeds("up", "-n", LAB, "-t", topology, "--runtime", "netns")
    observed.prometheus.wait_for(lab_up, lambda value: value == 1)


def test_a_prometheus_that_dies_harms_no_run_and_is_reported(observed: ObservedLab, incast: Run) -> None:
    command = observed.command
    scenario = command.write_scenario("undisturbed", [write("h0", "h3", "4s")], [])
    paths = StackPaths(Path(command.environment["MRC_TESTBED_STATE_DIR"]))
    state = read_stack(paths)
    assert state is not None
    with subprocess.Popen(
        command.run_line(scenario),
        env=command.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        observed.prometheus.wait_for(
            f'mrc_testbed_run_info{{lab="{LAB}",scenario="undisturbed"}}', lambda value: value == 1
        )
        os.kill(state.services[1].pid, signal.SIGKILL)
        assert run.wait(DEADLINE_S) in VERDICTS
    finished = command("observe", "status")
    assert finished.returncode == 1
    assert "Prometheus has ended; its log" in finished.stdout
    settings = state.settings
    command.succeeds(
        *("observe", "up", "--prometheus-port", str(settings.prometheus_port)),
        *("--exporter-port", str(settings.exporter_port), "--grafana-port", str(settings.grafana_port)),
    )
    after = read_stack(paths)
    assert after is not None
    assert after.services[0] == state.services[0]  # the exporter was left alone
    observed.prometheus.wait_for(f'mrc_testbed_lab_up{{lab="{LAB}"}}', lambda value: value == 1)
    old = observed.prometheus.query_range(
        f'mrc_testbed_run_info{{lab="{LAB}"}}', incast.start_s, incast.end_s
    )
    assert old  # what it had stored is still there
