"""The terminal's picture of a snapshot."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from mrc_testbed.live.feed import TailLine, Update
from mrc_testbed.live.jobs import JobView
from mrc_testbed.live.snapshot import FaultView, HostView, LinkView, PlaneView, Snapshot
from mrc_testbed.live.terminal import Screen, View, render, sorted_links
from mrc_testbed.metrics.series import Latency
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TierSpec, TopologySpec
from mrc_testbed.workloads.job import Pace

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1, port_rate=10_000_000))
RTT = Latency(10, 1_500_000, 2_000_000, 3_250_000, 4_000_000, 5_000_000)


def link_view(link_id: int, name: str) -> LinkView:
    state = {"h0:0~p0-t0-0:0": "down", "h1:1~p1-t0-1:0": "impaired"}.get(name, "up")
    load = 1.0 if name == "h0:1~p1-t0-0:0" else 0.0
    faults = () if state == "up" else ("optic",)
    return LinkView(name, CLOS.link(link_id).plane, state, load, load * 1e7, 0, 0, load / 4, 0, faults)  # type: ignore[arg-type]


SNAPSHOT = Snapshot(
    time_ns=2,
    interval_ns=10**9,
    goodput_bps=12_300_000,
    retransmits=17,
    dropped={"link_down": 3},
    rtt=RTT,
    completion=None,
    hosts=(
        HostView("h0", 0, 12_300_000, 17, ("profile 3", "CC profile 2")),
        HostView("h1", 12_300_000, 0, 0),
    ),
    planes=tuple(
        PlaneView(plane, {"GOOD": 30, "SKIP": 0, "ASSUMED_BAD": 2 * plane, "DENIED": 0}, 1e6, None)
        for plane in range(2)
    ),
    links=tuple(link_view(link.id, link.name) for link in CLOS.links()),
    faults=(FaultView("optic", "link-down", "", ("h0:0~p0-t0-0:0",), True, 1_500_000_000, True),),
    changes=(),
)
UPDATE = Update(3, 10**9, 0, None, CLOS, SNAPSHOT, (), (), (TailLine("12:00:01", "link down: x"),))


def text_of(update: Update, view: View, now_ns: int = 0) -> str:
    console = Console(file=io.StringIO(), width=160, no_color=True)
    with console.capture() as capture:
        console.print(render("lab", update, view, now_ns))
    return capture.get()


def test_the_picture_reports_figures_faults_and_events() -> None:
    text = text_of(UPDATE, View())
    for part in (
        "goodput 12.3 Mbit/s   RTT p50 1.5 ms  p99 3.25 ms  p99.9 4 ms",
        "retransmits 17 /s   frames dropped 3 /s link_down",
        "optic  link-down  1.5 s  manual  h0:0~p0-t0-0:0",
        "12:00:01  link down: x",
    ):
        assert part in text


def test_the_map_has_a_cell_per_link_of_each_t0() -> None:
    lines = text_of(UPDATE, View()).splitlines()
    [top] = [at for at, line in enumerate(lines) if line.startswith("plane  T0 0")]
    assert lines[top + 1].split() == ["0", "✕", "┊", "·", "·", "┊", "·"]
    assert lines[top + 2].split() == ["1", "█", "┊", "·", "!", "┊", "·"]


def test_the_map_of_three_tiers_has_the_links_of_each_t1_too() -> None:
    pods = Clos(TopologySpec(planes=1, tiers=[TierSpec(joins=1), TierSpec(joins=2), TierSpec(joins=2)]))
    first = pods.numbering.links_at(2).start
    links = [replace(link_view(0, "up"), state="down" if at == first else "up") for at in range(first + 2)]
    text = text_of(replace(UPDATE, clos=pods, snapshot=replace(SNAPSHOT, links=tuple(links))), View())
    lines = text.splitlines()
    [top] = [at for at, line in enumerate(lines) if line.startswith("plane  T0 0")]
    assert lines[top].split()[-4:] == ["T1", "0", "T1", "1"]
    assert lines[top + 1].split() == ["0", *["·", "┊", "·"] * 4, "✕", "·"]


def test_without_rates_loads_are_called_shares_of_the_busiest_link() -> None:
    bare = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1))
    text = text_of(replace(UPDATE, clos=bare), View())
    assert "state of the busiest up" in " ".join(text.split())
    assert "█ of the busiest, ✕ down" in text
    assert "of the busiest" not in text_of(UPDATE, View())


@pytest.mark.parametrize(
    ("sort", "first"), [("load", "h0:1~p1-t0-0:0"), ("state", "h0:0~p0-t0-0:0"), ("name", "h0:0~p0-t0-0:0")]
)
def test_links_are_sorted(sort: str, first: str) -> None:
    assert sorted_links(SNAPSHOT, sort)[0].name == first


def test_a_lab_with_flow_control_shows_how_long_links_were_held() -> None:
    lossless = Clos(CLOS.spec.model_copy(update={"flow_control": "pfc"}))
    line = next(
        line for line in text_of(replace(UPDATE, clos=lossless), View()).splitlines() if "100 %" in line
    )
    assert line.split()[-4:] == ["25", "%", "-", "-"]
    assert "paused" not in text_of(UPDATE, View())


def screen_of(update: Update, view: View, width: int, height: int) -> list[str]:
    """The lines of a terminal of that size."""
    console = Console(file=io.StringIO(), width=width, height=height, no_color=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(Screen("lab", update, view, 0), height=height, end="")
    return capture.get().split("\n")


def test_a_host_has_the_profiles_of_its_qps_beside_it() -> None:
    assert "h0, profile 3, CC profile 2" in text_of(UPDATE, View())


def test_the_chosen_link_is_marked_and_in_sight() -> None:
    chosen = sorted_links(SNAPSHOT, "name")[-1].name
    lines = screen_of(UPDATE, View(sort="name", chosen=chosen), 80, 14)
    assert any(line.startswith(">") and chosen in line for line in lines)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 10)])
def test_a_screen_has_as_many_lines_as_the_terminal_and_keys_below(width: int, height: int) -> None:
    lines = screen_of(UPDATE, View(), width, height)
    assert len(lines) - 1 == height
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("lab")
    assert "q quit" in lines[height - 1]


def test_what_is_broken_is_in_sight_on_a_small_screen() -> None:
    lines = screen_of(UPDATE, View(), 80, 24)
    for parts in (("optic", "link-down"), ("link down: x",), ("h0:0~p0-t0-0:0", "down", "optic")):
        assert any(all(part in line for part in parts) for line in lines)


def test_scrolling_shows_the_rest() -> None:
    assert "receives" not in "\n".join(screen_of(UPDATE, View(), 80, 16))
    assert "receives" in "\n".join(screen_of(UPDATE, View(scrolled=1000), 80, 16))


def test_the_newest_events_are_kept() -> None:
    evs = (TailLine(f"12:00:{at:02}.000", f"EV event {at}", "ev", at) for at in range(40))
    tail = (TailLine("11:59:59.000", "fault x begins", "fault", -1), *evs)
    shown = text_of(replace(UPDATE, tail=tail), View())
    assert "EV event 39" in shown
    assert "EV event 36" not in shown
    assert "fault x begins" in shown


def test_a_job_is_at_the_head() -> None:
    pace = Pace(20, 3.29, 299e6, 849e6, "h3", 0.41)
    job = JobView(
        "train",
        "step",
        pace,
        "step median 299 ms (n = 9) before, 849 ms (n = 8) while p0-t1-0 was away; no rank lost",
        (),
    )
    lines = text_of(replace(UPDATE, jobs=(job,)), View()).splitlines()
    assert lines[1].rstrip() == (
        "job train  3.29 steps/s  p50 299 ms  p99 849 ms  slowest rank h3, last in 41 %"
    )
    assert lines[2].strip() == job.headline


def test_a_problem_is_reported_and_so_is_a_pause() -> None:
    away = Update(4, 10**9, 0, "lab 'lab' is not up", CLOS, None, (), (), ())
    text = text_of(away, View(is_paused=True, answer="fault flap-1 added"))
    assert "! lab 'lab' is not up" in text
    assert "PAUSED" in text
    assert "fault flap-1 added" in text


def test_figures_that_are_overdue_are_called_old() -> None:
    assert "OLD" not in text_of(UPDATE, View(), now_ns=3 * 10**9)
    assert "12 s OLD" in text_of(UPDATE, View(), now_ns=12 * 10**9)
    never_read = replace(UPDATE, read_ns=None, snapshot=None)
    assert "OLD" not in text_of(never_read, View(), now_ns=12 * 10**9)
