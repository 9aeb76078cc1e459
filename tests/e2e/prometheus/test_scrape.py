"""Debian's Prometheus scrapes a live lab, and what it stored is what the lab did."""

import re
import subprocess
from urllib.request import urlopen

import pytest
from live_prometheus import LAB, Prometheus, host_write, require_program
from port_faults import write_port_fault
from waiting import DEADLINE_S

from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import stop_processes
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.metrics.endpoint_metrics import PACKET_RTT_SECONDS
from mrc_testbed.metrics.histogram import merge

pytestmark = pytest.mark.root

LENGTH = 64 * 1024


def test_the_page_is_clean_to_promtool(exporter_url: str, live_lab: Lab) -> None:
    host_write(live_lab, LENGTH, 10)
    with urlopen(exporter_url, timeout=DEADLINE_S) as answer:  # noqa: S310 - the exporter's own URL
        page = answer.read()
    check = subprocess.run(
        [require_program("promtool"), "check", "metrics"], input=page, capture_output=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


def test_what_hosts_received_is_stored(prometheus: Prometheus, live_lab: Lab) -> None:
    expression = f'mrc_goodput_bytes_total{{lab="{LAB}",node="h1"}}'
    before = prometheus.wait_for(expression, lambda _: True)
    host_write(live_lab, LENGTH, 100)
    prometheus.wait_for(expression, lambda value: value == before + 100 * LENGTH)
    prometheus.wait_for(f'mrc_testbed_lab_up{{lab="{LAB}"}}', lambda value: value == 1)


def test_the_quantile_that_prometheus_computes_is_that_of_the_fine_histogram(
    prometheus: Prometheus, live_lab: Lab
) -> None:
    host_write(live_lab, LENGTH, 500)
    reader = open_reader(LAB)
    histogram = merge(merge(nic.packet_rtt()) for nic in reader.nics.values())
    reader.close()
    prometheus.wait_for(
        f'sum({PACKET_RTT_SECONDS.name}_count{{lab="{LAB}"}})', lambda value: value == histogram.count
    )
    for ratio in (0.5, 0.99, 0.999):
        fine = histogram.percentiles_ns((ratio,))
        assert fine is not None
        quantile = (
            f'histogram_quantile({ratio}, sum by (le) ({PACKET_RTT_SECONDS.name}_bucket{{lab="{LAB}"}}))'
        )
        seconds = prometheus.wait_for(quantile, lambda _: True)
        assert seconds * 1e9 == pytest.approx(fine[0], rel=0.094)


def test_a_dead_link_shows_as_link_drops_and_retransmits(prometheus: Prometheus, live_lab: Lab) -> None:
    uplink = live_lab.clos.link("p0-t0-0:1").lower
    link_up = f'mrc_link_up{{lab="{LAB}",node="{uplink.node.name}",link=~"p0-t0-0:1~.*"}}'
    retransmits = f'sum(mrc_retransmits_total{{lab="{LAB}"}})'
    drops = f'sum(mrc_link_drops_total{{lab="{LAB}",reason="link_down",plane="0",tier="t0"}})'
    lost_evs = f'sum(mrc_ev_transitions_total{{lab="{LAB}",plane="0",to="ASSUMED_BAD"}})'
    before_evs = prometheus.wait_for(lost_evs, lambda _: True)
    before = prometheus.wait_for(retransmits, lambda _: True)
    prometheus.wait_for(link_up, lambda value: value == 1)
    write_port_fault(live_lab, uplink.id, is_down=True)
    try:
        prometheus.wait_for(link_up, lambda value: value == 0)
        host_write(live_lab, LENGTH, 20)
    finally:
        write_port_fault(live_lab, uplink.id)
    prometheus.wait_for(drops, lambda value: value > 0)
    # probes are lost on the dead link too, so retransmissions are fewer than drops
    prometheus.wait_for(retransmits, lambda value: value > before)
    prometheus.wait_for(link_up, lambda value: value == 1)
    prometheus.wait_for(lost_evs, lambda value: value > before_evs)


def test_counters_go_on_when_an_agent_is_started_again(exporter_url: str, live_lab: Lab) -> None:
    host_write(live_lab, LENGTH, 20)
    before = counters(exporter_url)
    assert before
    (agent,) = [process.identity for process in live_lab.state.processes if process.node == "h1"]
    stop_processes([agent], 10_000_000_000)
    dead = counters(exporter_url)
    assert all(dead[series] >= value for series, value in before.items())
    assert labs.restart(LAB, ["h1"]).restarted == ("h1",)
    with labs.attach(LAB) as again:
        host_write(again, LENGTH, 20)
    after = counters(exporter_url)
    assert all(after[series] >= value for series, value in dead.items())
    received = f'mrc_goodput_bytes_total{{lab="{LAB}",node="h1"}}'
    assert after[received] == before[received] + 20 * LENGTH


def counters(url: str) -> dict[str, float]:
    """The counters of hosts, as they stand on the page."""
    with urlopen(url, timeout=DEADLINE_S) as answer:  # noqa: S310 - the exporter's own URL
        lines = answer.read().decode().splitlines()
    numbers = (
        line.rpartition(" ") for line in lines if re.match(r"mrc_\w+_(total|count|bucket){.*node=", line)
    )
    return {series: float(value) for series, _, value in numbers}
