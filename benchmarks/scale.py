"""A large fabric: how long it takes to be up and gone, and what a packet costs in it.

Eight planes of 8 T0 and 8 T1; 8 to 64 hosts, each of which writes to the host at the same place of the next
T0, so that every packet crosses three switches. A delivered packet is one acknowledged for the first time;
its cost is what the machine was busy for meanwhile, everything included, divided by their number.

What grows with hosts is what a core must have at hand: every host has a NIC program, ports and QPs of its
own, and packets under way. With the same window for each QP these grow as well; with as many packets under
way in all, only the hosts do. With direct links what is between the hosts' own interfaces costs the same.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product

from benchmarks.cpu_time import busy_s
from benchmarks.figure import Figure
from benchmarks.transfer import LAB_NAME, Transfer, pause
from benchmarks.unshaped import LINKS
from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.queue_engine import QueueEngine
from mrc_testbed.topology.queue_spec import LinkMode
from mrc_testbed.topology.spec import TopologySpec

T0_COUNT = 8
HOSTS_PER_T0 = (1, 2, 4, 8)
REPETITIONS = 3
SECONDS = 1.0
WARM_UP_S = 2.0
WINDOW_PACKETS = 16
IN_FLIGHT_PACKETS = 1024


def run(sizes: Sequence[int] = HOSTS_PER_T0) -> Iterator[Figure]:
    costs: dict[tuple[LinkMode, bool, int], float] = {}
    for hosts_per_t0 in sizes:
        spec = TopologySpec(planes=8, t0=T0_COUNT, t1=8, hosts_per_t0=hosts_per_t0)
        hosts = spec.numbering.host_count
        start_ns = time.monotonic_ns()
        labs.up(spec, name=LAB_NAME, runtime="netns")
        up_s = (time.monotonic_ns() - start_ns) / 1e9
        try:
            with labs.attach(LAB_NAME) as lab:
                windows = {False: WINDOW_PACKETS, True: IN_FLIGHT_PACKETS // hosts}
                for links, (is_same_in_all, window) in product(LINKS, windows.items()):
                    _change_links(lab, links)
                    packets, micros, wrong = _measure(lab, window)
                    what = f"{links} links, {hosts} hosts send, window {window}:"
                    yield Figure("scale", f"{what} delivered", "packet/s", packets)
                    figure = Figure("scale", f"{what} CPU per delivered packet", "us", micros)
                    costs[links, is_same_in_all, hosts] = figure.median
                    yield figure
                    yield Figure("scale", f"{what} wrong bytes", "B", (wrong,), "0")
        finally:
            start_ns = time.monotonic_ns()
            labs.down(LAB_NAME)
            down_s = (time.monotonic_ns() - start_ns) / 1e9
        size = f"128 switches, {hosts} hosts, {spec.numbering.link_count} links"
        yield Figure("scale", f"{size}: up", "s", (up_s,))
        yield Figure("scale", f"{size}: down", "s", (down_s,))
    few, many = T0_COUNT * min(sizes), T0_COUNT * max(sizes)
    for links, is_same_in_all in product(LINKS, (False, True)):
        ratio = costs[links, is_same_in_all, many] / costs[links, is_same_in_all, few]
        what = "as many packets under way in all" if is_same_in_all else "the same window each"
        name = f"{links} links, CPU per packet, {many} hosts / {few} hosts, {what}"
        yield Figure("scale", name, "ratio", (ratio,), "0.8 to 1.2")


PARTS = {"ends": partial(run, (HOSTS_PER_T0[0], HOSTS_PER_T0[-1]))}


def _change_links(lab: Lab, links: LinkMode) -> None:
    with QueueEngine(lab.paths, is_shaped=False) as engine:
        engine.set_direct(range(lab.clos.numbering.port_count), is_direct=links == "direct")


def _measure(lab: Lab, window_packets: int) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Packets per second and microseconds of CPU per packet, one each per repetition, and wrong bytes."""
    step, count = lab.spec.hosts_per_t0, lab.clos.numbering.host_count
    rates, micros = [], []
    with ExitStack() as opened:
        transfers = [
            opened.enter_context(Transfer(lab, host, (host + step) % count, window_packets=window_packets))
            for host in range(count)
        ]
        for transfer in transfers:
            transfer.start()
        pause(WARM_UP_S)
        for _ in range(REPETITIONS):
            packets, spent_s, start_ns = _acked(transfers), busy_s(), time.monotonic_ns()
            pause(SECONDS)
            packets, spent_s = _acked(transfers) - packets, busy_s() - spent_s
            rates.append(packets * 1e9 / (time.monotonic_ns() - start_ns))
            micros.append(spent_s * 1e6 / packets)
        wrong = sum(transfer.finish() for transfer in transfers)
    return tuple(rates), tuple(micros), wrong


def _acked(transfers: list[Transfer]) -> int:
    return sum(int(transfer.near.verbs.counters()["acked_packets"]) for transfer in transfers)
