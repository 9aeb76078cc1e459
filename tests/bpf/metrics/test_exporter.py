"""The exporter over HTTP, on the real maps of a lab."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from map_filling import PinnedLab, filling, lab_up, opened, write_per_cpu
from prometheus_client.parser import text_string_to_metric_families
from waiting import DEADLINE_S

from mrc_agents.abi import (
    EvReason,
    EvState,
    EvTransitions,
    NicCounter,
    NicCounters,
    NicPaths,
    PortCounter,
    PortCounters,
    Qp,
    QpHead,
    QpState,
    QueueState,
    Req,
    TrafficClass,
)
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.fabric.state import Phase
from mrc_testbed.faults.fault import FaultEvent, ScheduledFault
from mrc_testbed.faults.ledger import Entry, Ledger
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.exporter import Exporter, MetricsServer, exporter_running
from mrc_testbed.metrics.exposition import CONTENT_TYPE
from mrc_testbed.metrics.measured import COLLECTIVE, STEP, MeasuredTimes, RecoveryTime, write_recovery
from mrc_testbed.metrics.metric import MetricType
from mrc_testbed.metrics.reader import ev_transition_index
from mrc_testbed.metrics.run_info import RunInfo, announce_run
from mrc_testbed.topology.spec import TopologySpec

Page = dict[str, dict[frozenset[tuple[str, str]], float]]


def scrape(url: str) -> Page:
    """Sample name -> labels -> value."""
    with urlopen(url, timeout=DEADLINE_S) as answer:  # noqa: S310 - the exporter's own URL
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        text = answer.read().decode()
    page: Page = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            page.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return page


def value(page: Page, name: str, **labels: str) -> float:
    return page[name][frozenset(labels.items())]


@pytest.fixture
def url(pinned_lab: PinnedLab) -> Iterator[str]:
    with exporter_running(port=0) as url:
        yield url


def count_bytes(lab: PinnedLab, placed_bytes: int) -> None:
    pin = lab.paths.node_pins("h1") / "nic_counters"
    write_per_cpu(pin, NicCounters, 0, {NicCounter.RX_PLACED_BYTES: [placed_bytes]})


def goodput(page: Page) -> float:
    return value(page, "mrc_goodput_bytes_total", lab="observed", node="h1")


def test_counters_reach_the_page_under_their_labels(pinned_lab: PinnedLab, url: str) -> None:
    paths = pinned_lab.paths
    nic = {NicCounter.TX_RETRANSMIT_SACK: [3, 4], NicCounter.DROP_R_KEY: [0, 9], NicCounter.TX_DATA: [100]}
    write_per_cpu(paths.node_pins("h0") / "nic_counters", NicCounters, 0, nic)
    uplink = pinned_lab.clos.link("p1-t0-0:2~p1-t1-0:0")
    port = {
        PortCounter.TX_BYTES: [2000],
        PortCounter.DROP_LINK_DOWN: [5],
        PortCounter.DROP_NO_ROUTE: [1, 1],
        PortCounter.PASSED_TO_STACK: [6],
    }
    write_per_cpu(paths.fabric_pins / "port_counters", PortCounters, uplink.lower.id, port)
    page = scrape(url)
    host = {"lab": "observed", "node": "h0"}
    assert value(page, "mrc_retransmits_total", **host, reason="sack") == 7
    assert value(page, "mrc_retransmits_total", **host, reason="timeout") == 0
    assert value(page, "mrc_nic_drops_total", **host, reason="r_key") == 9
    assert value(page, "mrc_tx_packets_total", **host, kind="data") == 100
    switch = {"lab": "observed", "plane": "1", "tier": "t0", "node": "p1-t0-0"}
    assert value(page, "mrc_port_tx_bytes_total", **switch, link=uplink.name) == 2000
    assert value(page, "mrc_link_drops_total", **switch, link=uplink.name, reason="link_down") == 5
    assert value(page, "mrc_switch_drops_total", **switch, reason="no_route") == 2
    assert value(page, "mrc_passed_to_stack_packets_total", lab="observed", tier="t0", node="p1-t0-0") == 6
    assert value(page, "mrc_ev_state", **host, plane="1", state="GOOD") == 0


def test_rtt_is_shown_by_plane_over_all_hosts(pinned_lab: PinnedLab, url: str, twin_object: Path) -> None:
    for host in ("h0", "h1"):
        with filling(twin_object, pinned_lab.paths.node_pins(host) / "rtt_histogram") as rtt:
            rtt.add(1000, key=0)
            rtt.add(50_000, key=1)
    page = scrape(url)
    assert value(page, "mrc_packet_rtt_seconds_count", lab="observed", plane="0") == 2
    assert value(page, "mrc_packet_rtt_seconds_sum", lab="observed", plane="1") == 100_000 / 1e9
    assert value(page, "mrc_packet_rtt_seconds_bucket", lab="observed", plane="0", le="0.000001024") == 2
    assert value(page, "mrc_packet_rtt_seconds_bucket", lab="observed", plane="1", le="0.000001024") == 0


def test_completion_times_are_shown_of_all_hosts_and_of_each(
    pinned_lab: PinnedLab, url: str, twin_object: Path
) -> None:
    for host, time_ns in (("h0", 9_000), ("h1", 70_000)):
        with filling(twin_object, pinned_lab.paths.node_pins(host) / "message_histogram") as messages:
            messages.add(time_ns)
    page = scrape(url)
    assert value(page, "mrc_message_completion_seconds_count", lab="observed") == 2
    assert value(page, "mrc_message_completion_seconds_sum", lab="observed") == 79_000 / 1e9
    for host, count in (("h0", 1), ("h1", 0)):
        sender = {"lab": "observed", "node": host}
        assert value(page, "mrc_sender_completion_seconds_bucket", **sender, le="0.00001024") == count
        assert value(page, "mrc_sender_completion_seconds_count", **sender) == 1


def test_evs_are_shown_by_the_links_across_t1s(state_root: Path) -> None:
    """Two links of T1 1 are crossed by a QP from h0 to h2; h0 reaches h1 without."""
    with lab_up("paths", TopologySpec(planes=2, t0=3, t1=2, hosts_per_t0=2)) as lab:
        for index, (peer, ev_state) in enumerate(((2, EvState.ASSUMED_BAD), (1, EvState.GOOD))):
            qp = Qp(state=QpState.RTS, head=QpHead(peer_host=peer), req=Req(next_psn=1))
            qp.cc.cwnd_bytes, qp.cc.max_wnd_bytes, qp.cc.inflight_bytes = 5, 6, 7
            for copy in range(3):
                qp.evs.ev[copy].entropy = lab.clos.ev(1, 1 if peer == 2 else 0, copy)
                qp.evs.ev[copy].plane, qp.evs.ev[copy].state = 1, ev_state
            with opened(lab.paths.node_pins("h0") / "qps") as descriptor:
                ArrayMap(descriptor, Qp).write(index, qp)
        with opened(lab.paths.node_pins("h0") / "nic_paths") as descriptor:
            falls = MappedArray(descriptor, NicPaths)[0].path
            falls[(1 * 2 + 1) * 2 + 1].falls = 7  # to row 1 by plane 1 and uplink 1
            falls[0].falls = 5  # within its own row
        with exporter_running(["paths"], port=0) as url:
            page = scrape(url)
    shown = {
        (dict(labels)["plane"], dict(labels)["node"], dict(labels)["link"], dict(labels)["state"]): count
        for labels, count in page["mrc_link_evs"].items()
    }
    assert len(shown) == 2 * 3 * 2 * 4
    names = ("sending_qps", "cwnd_bytes", "cwnd_max_bytes", "inflight_bytes")
    assert [value(page, f"mrc_{name}", lab="paths", node="h0") for name in names] == [2, 10, 12, 14]
    assert {labels: count for labels, count in shown.items() if count} == {
        ("1", "p1-t1-1", link, "ASSUMED_BAD"): 3 for link in ("p1-t0-0:3~p1-t1-1:0", "p1-t0-1:3~p1-t1-1:1")
    }
    suspicions = {dict(labels)["link"]: count for labels, count in page["mrc_link_suspicions_total"].items()}
    assert len(suspicions) == 2 * 3 * 2
    assert {link: count for link, count in suspicions.items() if count} == {
        "p1-t0-0:3~p1-t1-1:0": 7,
        "p1-t0-1:3~p1-t1-1:1": 7,
    }


def test_labs_whose_switches_hash_show_no_evs_by_link(state_root: Path) -> None:
    spec = TopologySpec(planes=1, t0=2, t1=1, hosts_per_t0=1, forwarding="ecmp")
    with lab_up("hashed", spec), exporter_running(["hashed"], port=0) as url:
        assert "mrc_link_evs" not in scrape(url)


@pytest.fixture
def shaped_lab(state_root: Path) -> Iterator[PinnedLab]:
    spec = TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2, port_rate=100_000_000)
    with lab_up("shaped", spec) as lab:
        yield lab


OF_FLOW_CONTROL = ("labs with PFC only.", "labs with credits only.", "labs with flow control only.")


def test_every_metric_of_the_catalogue_can_be_scraped(shaped_lab: PinnedLab) -> None:
    ledger = Ledger(shaped_lab.paths.faults)
    ledger.create()
    ledger.write(Entry(ScheduledFault(fault_id="f1", kind="loss", seed=1, nodes=("h0",)), Schedule(5)))
    with MeasuredTimes(shaped_lab.paths.folder, COLLECTIVE, "all-reduce") as times:
        times.add(2_000_000, 4096)
    with MeasuredTimes(shaped_lab.paths.folder, STEP, "all-reduce", "job") as times:
        times.add(3_000_000)
    write_recovery(shaped_lab.paths.folder, [RecoveryTime("f1", "detect", 5_000_000)])
    qp = Qp(state=QpState.RTS, ev_profile=1 + 3)
    qp.evs.ev[0].state = EvState.DENIED
    with opened(shaped_lab.paths.node_pins("h1") / "qps") as descriptor:
        for index, qp.cc_profile in enumerate((1 + 2, 1 + 2, 0)):
            ArrayMap(descriptor, Qp).write(index, qp)
    with (
        exporter_running(port=0, fault_kinds=["loss"]) as url,
        announce_run(shaped_lab.paths.folder, RunInfo("flap", "r1", 42)),
    ):
        page = scrape(url)
    # CPU use needs a second's worth of ticks; it has a test of its own
    recent = {"mrc_testbed_host_saturated", "mrc_testbed_cpu_busy_ratio", "mrc_testbed_cpu_softirq_ratio"}
    for metric in METRICS:
        if metric.help.endswith(OF_FLOW_CONTROL) or metric.name.startswith("mrc_link_probe"):
            continue  # see test_flow_control_metrics.py and tests/netns/probing
        suffix = "_count" if metric.type is MetricType.HISTOGRAM else ""
        assert metric.name in recent or page[metric.name + suffix], metric.name
        for labels in page.get(metric.name + suffix, ()):
            assert {name for name, _ in labels} == set(metric.labels)
    assert value(page, "mrc_fault_active", lab="shaped", fault_id="f1", kind="loss", place="h0") == 1
    assert value(page, "mrc_testbed_run_info", lab="shaped", scenario="flap", run="r1", seed="42") == 1
    assert value(page, "mrc_recovery_seconds", lab="shaped", fault_id="f1", phase="detect") == 0.005
    host = {"lab": "shaped", "node": "h1"}
    assert page["mrc_qp_info"] == {
        frozenset({**host, "ev_profile": "3", "cc_profile": number}.items()): 1 for number in ("", "2")
    }
    assert value(page, "mrc_ev_state", **host, plane="0", state="DENIED") == 3
    collective = {"lab": "shaped", "kind": "all-reduce"}
    assert value(page, "mrc_collective_bus_bytes_total", **collective) == 4096
    assert value(page, "mrc_collective_duration_seconds_sum", **collective) == 0.002
    assert value(page, "mrc_training_step_seconds_sum", **collective, workload="job") == 0.003


def test_ev_transitions_are_shown_by_plane_and_reason(pinned_lab: PinnedLab, url: str) -> None:
    class Place(IntEnum):
        LOST = ev_transition_index(EvState.GOOD, EvState.ASSUMED_BAD, EvReason.LOSS)
        DENIED = ev_transition_index(EvState.GOOD, EvState.DENIED, EvReason.ADMIN)

    for host in ("h0", "h1"):
        pin = pinned_lab.paths.node_pins(host) / "ev_transitions"
        write_per_cpu(pin, EvTransitions, 1, {Place.LOST: [3, 1], Place.DENIED: [1]})
    page = scrape(url)
    place = {"lab": "observed", "plane": "1", "from": "GOOD"}
    assert value(page, "mrc_ev_transitions_total", **place, to="ASSUMED_BAD", reason="loss") == 8
    assert value(page, "mrc_ev_transitions_total", **place, to="ASSUMED_BAD", reason="timeout") == 0
    assert value(page, "mrc_ev_transitions_total", **place, to="DENIED", reason="admin") == 2
    assert sum(page["mrc_ev_transitions_total"].values()) == 10


def test_a_run_that_has_ended_is_not_shown(pinned_lab: PinnedLab, url: str) -> None:
    with announce_run(pinned_lab.paths.folder, RunInfo("flap", "r1", 42)):
        assert "mrc_testbed_run_info" in scrape(url)
    assert "mrc_testbed_run_info" not in scrape(url)


def test_queues_are_shown_by_port_and_class(shaped_lab: PinnedLab) -> None:
    port = shaped_lab.clos.port("p0-t0-0:1")
    with opened(shaped_lab.paths.fabric_pins / "queue_state") as descriptor:
        queue = MappedArray(descriptor, QueueState)[port.id]
        queue.depth_bytes[TrafficClass.CONTROL] = 94
        queue.depth_bytes[TrafficClass.DATA] = 4348
    with exporter_running(port=0) as url:
        page = scrape(url)
    place = {"lab": "shaped", "plane": "0", "tier": "t0", "node": "p0-t0-0"}
    place["link"] = shaped_lab.clos.link(port.link_id).name
    assert value(page, "mrc_switch_queue_bytes", **place, **{"class": "control"}) == 94
    assert value(page, "mrc_switch_queue_bytes", **place, **{"class": "data"}) == 4348
    assert sum(page["mrc_switch_queue_bytes"].values()) == 94 + 4348


def test_outages_are_counted_by_link(pinned_lab: PinnedLab, url: str) -> None:
    ledger = Ledger(pinned_lab.paths.faults)
    ledger.create()
    link = pinned_lab.clos.link("h0:1")
    ledger.record(FaultEvent("applied", "f1", "link-flap", (link.name,), 1, 2, is_outage=True).as_record())
    page = scrape(url)
    assert value(page, "mrc_link_flaps_total", lab="observed", plane="1", link=link.name) == 1
    assert value(page, "mrc_faults_injected_total", lab="observed", kind="link-flap") == 1
    assert sum(page["mrc_link_flaps_total"].values()) == 1


def test_a_lab_that_goes_away_and_comes_back_is_followed(pinned_lab: PinnedLab, url: str) -> None:
    count_bytes(pinned_lab, 1000)
    assert goodput(scrape(url)) == 1000
    pinned_lab.write_phase(Phase.REMOVING)
    page = scrape(url)
    assert value(page, "mrc_testbed_lab_up", lab="observed") == 0
    assert "mrc_goodput_bytes_total" not in page
    pinned_lab.take_down()
    page = scrape(url)
    assert "mrc_testbed_lab_up" not in page
    assert "mrc_testbed_build_info" in page
    pinned_lab.bring_up()
    assert goodput(scrape(url)) == 0
    count_bytes(pinned_lab, 5)
    assert goodput(scrape(url)) == 5


def test_a_lab_asked_for_by_name_is_shown_as_down_until_it_is_up(pinned_lab: PinnedLab) -> None:
    with exporter_running(["later", "observed"], port=0) as url:
        page = scrape(url)
        assert value(page, "mrc_testbed_lab_up", lab="later") == 0
        assert value(page, "mrc_testbed_lab_up", lab="observed") == 1


def test_two_labs_are_shown_side_by_side(pinned_lab: PinnedLab) -> None:
    with lab_up("second", TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2)) as other:
        count_bytes(pinned_lab, 10)
        count_bytes(other, 20)
        with exporter_running(port=0) as url:
            page = scrape(url)
        assert goodput(page) == 10
        assert value(page, "mrc_goodput_bytes_total", lab="second", node="h1") == 20


def test_a_lab_with_a_missing_map_does_not_hide_the_others(pinned_lab: PinnedLab) -> None:
    with lab_up("broken", TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2)) as broken:
        (broken.paths.node_pins("h0") / "qps").unlink()
        with exporter_running(port=0) as url:
            page = scrape(url)
        assert value(page, "mrc_testbed_lab_up", lab="broken") == 0
        assert value(page, "mrc_testbed_lab_up", lab="observed") == 1


def test_counters_never_step_back_while_they_are_scraped(
    pinned_lab: PinnedLab, url: str, twin_object: Path
) -> None:
    stop = threading.Event()
    pin = pinned_lab.paths.node_pins("h0") / "message_histogram"

    def send() -> None:
        with filling(twin_object, pin) as messages:
            while not stop.is_set():
                messages.add(1_000_000)

    sender = threading.Thread(target=send)
    sender.start()
    pages: list[Page] = []
    counts: list[float] = []
    try:
        while len(pages) < 20 or counts[-1] == counts[0]:
            pages.append(scrape(url))
            counts.append(value(pages[-1], "mrc_message_completion_seconds_count", lab="observed"))
    finally:
        stop.set()
        sender.join()
    assert counts == sorted(counts)
    of_sender = [
        value(page, "mrc_sender_completion_seconds_count", lab="observed", node="h0") for page in pages
    ]
    assert of_sender == counts


def test_scrapes_at_the_same_time_all_succeed(url: str) -> None:
    pages: list[Page] = []
    scrapers = [threading.Thread(target=lambda: pages.append(scrape(url))) for _ in range(8)]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()
    assert len(pages) == 8
    assert all(value(page, "mrc_testbed_lab_up", lab="observed") == 1 for page in pages)


def test_head_has_the_headers_alone(url: str) -> None:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=DEADLINE_S)
    for _ in range(2):  # on one connection: a body that is there would be read as the next answer
        connection.request("HEAD", place.path)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Type"], answer.read()) == (200, CONTENT_TYPE, b"")
        assert int(answer.headers["Content-Length"]) > 0
    connection.close()


def test_other_paths_are_not_found(url: str) -> None:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=DEADLINE_S)
    connection.request("GET", "/elsewhere")
    answer = connection.getresponse()
    assert answer.status == 404
    assert b"/metrics" in answer.read()
    connection.request("GET", "/metrics?x=1")  # on the same connection
    assert connection.getresponse().status == 200
    connection.close()


def test_a_port_in_use_is_a_clear_error(state_root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PreflightError) as caught, exporter_running(port=port):
            pass
    assert caught.value.exit_code == 3
    assert caught.value.message == f"cannot serve metrics at 127.0.0.1:{port}: Address already in use"
    assert "--port" in str(caught.value.hint)


@pytest.mark.parametrize(("address", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70_000), ("nonsense", 1)])
def test_an_address_that_is_not_ours_is_a_clear_error(state_root: Path, address: str, port: int) -> None:
    with pytest.raises(PreflightError, match=f"cannot serve metrics at {address}:{port}"):
        MetricsServer(Exporter(), address, port)


def test_an_impossible_lab_name_is_refused(state_root: Path) -> None:
    with pytest.raises(UsageError, match="no name for a lab"), exporter_running(["../etc"], port=0):
        pass


def test_an_ipv6_address_can_be_served(pinned_lab: PinnedLab) -> None:
    with exporter_running(address="::1", port=0) as url:
        assert url.startswith("http://[::1]:")
        assert value(scrape(url), "mrc_testbed_lab_up", lab="observed") == 1


SERVE = """
import sys, threading
from mrc_testbed.metrics.exporter import exporter_running
try:
    with exporter_running(port=0) as url:
        print(url, flush=True)
        threading.Event().wait()
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_a_process_serves_until_it_is_interrupted(pinned_lab: PinnedLab) -> None:
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        page = scrape(process.stdout.readline().strip())
        assert value(page, "mrc_testbed_lab_up", lab="observed") == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
