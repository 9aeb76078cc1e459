"""A lab that is a thousand times slower does the same: virtual time is as right at true rates as at others.

Rates and delays make the idle RTT 1 us in the fast lab and 1 ms in the slow one; the protocol's clocks go by
both in proportion (`timing.pace_ns`). What a QP computes of the RTTs that it measures is rounded to whole ns,
so labs are equal frame by frame where nothing hangs on that: no timer of a measured RTT ends, no window is
just short of a packet, and the order of EVs, which the clock shuffles, does not matter.
"""

from contextlib import closing
from math import sqrt
from pathlib import Path
from statistics import mean, variance

import pytest
from document_text import document
from runs import run
from stopped_clock import StoppedClock

from mrc_agents.abi import PortCounter
from mrc_agents.bpf.virtual import VirtualRuntime
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.scenario.execution import execute
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns
from mrc_testbed.virtual.world import VirtualLabView, planned_lab, world_in

FACTOR = 1000
FAST = {"rate": "16Gbit", "delay": "7ns", "unit": "us"}
SLOW = {"rate": "16Mbit", "delay": "7us", "unit": "ms"}
"""Every frame has an even number of bytes, and takes half as many ns, or us."""

ALL_TO_ALL = "kind: all-to-all"
ONE_FLOW = "kind: write-bw, from: h0, to: h3"
HEAD = document("""\
Scenario {{name: scaled}}
  transport: {transport}
""")
EXACT = (
    HEAD
    + """\
  topology:
    {{planes: 1, t0: 2, t1: 4, hosts_per_t0: 3, port_rate: {rate}, link_delay: {delay}, forwarding: stev,
     nic: {{path_mtu: 256B}}, queue: {{trim: {{enabled: false}}, ecn: {{enabled: false}}}}}}
  workloads: [{{name: all, {work}, size: 16KiB, warmup: 20{unit}, duration: 80{unit}}}]
"""
)
FRAMES_MIN = {ALL_TO_ALL: 10_000, ONE_FLOW: 4_000}
TRANSPORTS = {
    "fixed window": "{kind: mrc, cc: fixed, window: 24}",
    "nscc": "{kind: mrc}",
    "rocev2": "{kind: rocev2}",
    "spray-gbn": "{kind: spray-gbn}",
}
IN_TURN = ", ev_selector: round_robin}"
"""In place of an order of EVs that the clock shuffles."""


class LoggedRuntime(VirtualRuntime):
    """Runs event by event and writes down when frames crossed links."""

    def __init__(self) -> None:
        super().__init__()
        self.times_ns: list[int] = []

    def run(self, until_ns: int, events_max: int) -> int:
        """One event at most."""
        del events_max
        before = self.totals().arrivals
        now_ns = super().run(until_ns, 1)
        if self.totals().arrivals > before:
            self.times_ns.append(now_ns)
        return now_ns


def scaled(text: str, lab: dict[str, str], tmp_path: Path, seed: int = 1, **parts: str) -> Plan:
    file = tmp_path / "scaled.yaml"
    file.write_text(text.format(**lab, **parts))
    return resolve(load_scenario(file), seed=seed)


def arrivals(plan: Plan, tmp_path: Path) -> tuple[list[int], list[int]]:
    """Times since the beginning at which frames crossed links, and how many each port sent."""
    runtime = LoggedRuntime()
    with planned_lab(plan, StoppedClock(), runtime) as lab:
        with world_in(lab, plan, StoppedClock()) as world:
            done = execute(plan, None, world, VirtualLabView(), tmp_path / "runs")
        assert done.result.verdict.status is Status.PASSED, done.result.verdict.reason
        with closing(LabReader("virtual", lab.clos, lab.fabric_pins, lab.fabric_pins)) as reader:
            sent = list(reader.port_counters()[PortCounter.TX_PACKETS])
    return [time_ns - 1 for time_ns in runtime.times_ns], sent


@pytest.mark.parametrize(
    ("transport", "work"),
    [
        *((transport, ALL_TO_ALL) for transport in TRANSPORTS.values()),
        *((TRANSPORTS[name].replace("}", IN_TURN), ONE_FLOW) for name in ("fixed window", "nscc")),
    ],
)
def test_where_every_frame_takes_whole_ns_all_frames_move_alike(
    transport: str, work: str, tmp_path: Path
) -> None:
    fast, slow = (scaled(EXACT, lab, tmp_path, transport=transport, work=work) for lab in (FAST, SLOW))
    assert [base_rtt_ns(resolve_topology(plan.topology)) for plan in (fast, slow)] == [1000, 1_000_000]
    fast_ns, fast_sent = arrivals(fast, tmp_path)
    slow_ns, slow_sent = arrivals(slow, tmp_path)
    assert len(fast_ns) > FRAMES_MIN[work]
    assert slow_ns == [FACTOR * time_ns for time_ns in fast_ns]
    assert slow_sent == fast_sent


@pytest.mark.parametrize("transport", ["rocev2", "spray-gbn"])
def test_a_window_of_five_packets_that_follows_from_the_rtt_carries_the_same(
    transport: str, tmp_path: Path
) -> None:
    fast, slow = (
        scaled(EXACT, lab, tmp_path, transport=TRANSPORTS[transport], work=ONE_FLOW) for lab in (FAST, SLOW)
    )
    (fast_ns, fast_sent), (slow_ns, slow_sent) = arrivals(fast, tmp_path), arrivals(slow, tmp_path)
    assert len(fast_ns) == len(slow_ns) > FRAMES_MIN[ONE_FLOW]
    assert slow_sent == fast_sent


LOSSY = (
    HEAD
    + """\
  topology:
    {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 3, port_rate: {rate}, link_delay: {delay}, forwarding: stev,
     nic: {{path_mtu: 256B}}}}
  workloads:
    - {{name: all, kind: incast, to: h0, from: [h3, h4, h5], size: 16KiB, depth: 4,
       warmup: 20{unit}, duration: {length}{unit}}}
  faults:
    - {{id: loss, at: 10{unit}, until: cleared, kind: loss, ratio: 0.5%,
       select: {{links: {{between: [host, t0]}}}}}}
"""
)
FAST_FRACTIONS = {"rate": "100Gbit", "delay": "107ns", "unit": "us"}
SLOW_FRACTIONS = {"rate": "100Mbit", "delay": "107us", "unit": "ms"}
"""A full frame takes 28.64 ns."""


@pytest.mark.parametrize(
    ("transport", "length"),
    [pytest.param("nscc", 960, marks=pytest.mark.slow("the longest")), ("rocev2", 240), ("spray-gbn", 240)],
)
def test_where_times_are_rounded_and_frames_are_lost_shares_and_losses_are_alike(
    transport: str, length: int, tmp_path: Path
) -> None:
    shares: list[dict[str, list[float]]] = []
    losses: list[int] = []
    for lab in (FAST_FRACTIONS, SLOW_FRACTIONS):
        of_host: dict[str, list[float]] = {"h3": [], "h4": [], "h5": []}
        lost = 0
        for seed in range(1, 9):
            parts = {"transport": TRANSPORTS[transport], "length": str(length)}
            plan = scaled(LOSSY, lab, tmp_path, seed, **parts)
            recording = run(plan, tmp_path / "runs").result.recording
            port_bps = plan.topology.planes * (plan.topology.port_rate or 0)
            capacity_bytes = port_bps * ((plan.end_ns or 0) - plan.start_ns) / 8e9
            for flow, byte_count in recording.flow_readings[-1].acknowledged_bytes.items():
                of_host[flow.source].append(byte_count / capacity_bytes)
            drops = [reading.port_drops["loss"] for reading in recording.readings]
            lost += drops[-1] - drops[0]
        shares.append(of_host)
        losses.append(lost)
    assert losses[0] > 1000
    assert abs(losses[0] - losses[1]) <= 3 * sqrt(sum(losses))
    for fast, slow in zip(shares[0].values(), shares[1].values(), strict=True):
        assert len(fast) == len(slow) == 8
        assert mean(fast) == pytest.approx(mean(slow), abs=0.01)
        assert abs(mean(fast) - mean(slow)) <= 3 * sqrt((variance(fast) + variance(slow)) / 8)
