"""Measures what this machine can carry: a lab of its own under growing load until frames leave late."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mrc_testbed.agents.clock import monotonic_ns
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.live import Lab
from mrc_testbed.metrics.capacity import Capacity, this_machine
from mrc_testbed.metrics.fidelity import limits_for
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.sampler import take_reading
from mrc_testbed.metrics.series import add_hosts
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import base_rtt_ns
from mrc_testbed.workloads.connectors import open_mrc
from mrc_testbed.workloads.engine import WorkloadEngine
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load

_FIRST_RATE_BPS: Final = 25_000_000
_LAST_RATE_BPS: Final = 6_400_000_000
_HALVINGS: Final = 3
_SETTLE_S: Final = 0.3
_MEASURE_S: Final = 0.7
_TRIALS: Final = 3
"""A rate is too much when it is each time: other programs of the machine come and go."""

_TOO_FAST: Final = 3
"""Rates that hold nobody back, each half of the one before: machines differ in which they carry most with."""

_LATE_QUANTILE: Final = 0.99
_MESSAGE_BYTES: Final = 65536
_WORKLOAD: Final = "calibration"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Step:
    rate_bps: int
    frame_hops_per_s: float
    is_in_time: bool


def calibrate(progress: Progress = lambda _: None) -> Capacity:
    """Measure what this machine carries now, in the default lab with every host sending across T1s.

    Port rates grow twofold until one frame in a hundred leaves too late, then the rate between is sought; the
    most is what leaves ports that are too fast. Takes about twenty seconds; nothing remains of the lab.

    Raises:
        TestbedError: the lab could not be brought up, or carried nothing.
    """
    with _loaded_lab(progress) as (lab, reader):
        steps = _doubling(lab, reader, progress)
        in_time = [step for step in steps if step.is_in_time]
        if not in_time:
            raise FabricError(
                f"frames leave late even at {_FIRST_RATE_BPS // 10**6} Mbit/s ports",
                hint="stop what keeps this machine busy, then try again",
            )
        best = _between(lab, reader, in_time[-1], steps[-1], progress)
        flooded = _flooded(lab, reader, progress)
        progress("measuring without queues")
        unshaped = _unshaped(lab, reader)
    return Capacity(
        machine=this_machine(),
        taken=datetime.now(UTC).isoformat(timespec="seconds"),
        frame_hops_per_s=round(best.frame_hops_per_s),
        most_frame_hops_per_s=round(max(step.frame_hops_per_s for step in (*steps, best, *flooded))),
        unshaped_packets_per_s=round(unshaped),
    )


@contextmanager
def _loaded_lab(progress: Progress) -> Iterator[tuple[Lab, LabReader]]:
    name = f"calibration-{os.getpid()}"
    labs.up(
        TopologySpec(port_rate=_FIRST_RATE_BPS),
        name=name,
        runtime="netns",
        progress=lambda at: progress(at.what),
    )
    try:
        with (
            labs.attach(name) as lab,
            closing(LabReader(name, lab.clos, lab.paths.fabric_pins, lab.paths.pins / "nodes")) as reader,
            closing(WorkloadEngine(open_mrc(lab))) as engine,
        ):
            engine.prepare([_all_across_t1(lab.clos)], seed=1)
            engine.start(_WORKLOAD)
            yield lab, reader
    finally:
        labs.down(name)


def _all_across_t1(clos: Clos) -> Load:
    hosts = [host.name for host in clos.hosts()]
    flows = tuple(
        Flow(_WORKLOAD, host, hosts[(index + clos.spec.hosts_per_t0) % len(hosts)], 0)
        for index, host in enumerate(hosts)
    )
    return Load(_WORKLOAD, _MESSAGE_BYTES, depth=4, iterations=None, flows=flows)


def _doubling(lab: Lab, reader: LabReader, progress: Progress) -> list[_Step]:
    """Steps of growing rate; the last one is late, unless no rate is too much."""
    steps = []
    rate_bps = _FIRST_RATE_BPS
    while rate_bps <= _LAST_RATE_BPS:
        steps.append(_measure(lab, reader, rate_bps, progress))
        if not steps[-1].is_in_time:
            break
        rate_bps *= 2
    return steps


def _between(lab: Lab, reader: LabReader, good: _Step, late: _Step, progress: Progress) -> _Step:
    """The highest rate found in time between one that was and one that was not."""
    for _ in range(_HALVINGS if not late.is_in_time else 0):
        step = _measure(lab, reader, (good.rate_bps + late.rate_bps) // 2, progress)
        good, late = (step, late) if step.is_in_time else (good, step)
    return good


def _flooded(lab: Lab, reader: LabReader, progress: Progress) -> list[_Step]:
    """Measure the load that is carried when no port limits it, at several such rates."""
    progress("measuring with ports that are too fast")
    steps = []
    for rate_bps in (_LAST_RATE_BPS >> shift for shift in range(_TOO_FAST)):
        _set_rate(lab, rate_bps)
        steps.append(_measure_once(lab, reader, rate_bps))
    return steps


def _measure(lab: Lab, reader: LabReader, rate_bps: int, progress: Progress) -> _Step:
    progress(f"measuring ports of {rate_bps // 10**6} Mbit/s")
    _set_rate(lab, rate_bps)
    for _ in range(_TRIALS):
        step = _measure_once(lab, reader, rate_bps)
        if step.is_in_time:
            break
    return step


def _measure_once(lab: Lab, reader: LabReader, rate_bps: int) -> _Step:
    _pass(_SETTLE_S)
    before, start_ns = reader.queue_lateness(), monotonic_ns()
    _pass(_MEASURE_S)
    after, end_ns = reader.queue_lateness(), monotonic_ns()
    if before is None or after is None:
        raise FabricError("the calibration lab has no queues")
    lateness = after.since(before)
    found = lateness.percentiles_ns((_LATE_QUANTILE,))
    at_rate = resolve_topology(lab.spec.model_copy(update={"port_rate": rate_bps}))
    limit_ns = limits_for(base_rtt_ns(at_rate)).lateness_ns
    return _Step(
        rate_bps, lateness.count * 1e9 / (end_ns - start_ns), found is not None and found[0] <= limit_ns
    )


def _unshaped(lab: Lab, reader: LabReader) -> float:
    """Data packets acknowledged per second when frames are forwarded at once."""
    _set_rate(lab, 0)
    _pass(_SETTLE_S)
    before = take_reading(reader)
    _pass(_MEASURE_S)
    interval = take_reading(reader).since(before)
    acknowledged = add_hosts(interval.hosts.values()).acknowledged_bytes
    return acknowledged / lab.spec.nic.path_mtu * 1e9 / (interval.end_ns - interval.start_ns)


def _set_rate(lab: Lab, rate_bps: int) -> None:
    for port_id in range(lab.clos.numbering.port_count):
        lab.port_table[port_id].rate_bps = rate_bps


def _pass(seconds: float) -> None:
    threading.Event().wait(seconds)
