"""One workload on a lab that is up, measured and compared: what `bench` does."""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from agents.nic.client import AgentClient
from testbed.fabric.live import Lab
from testbed.metrics.histogram import Histogram, merge
from testbed.metrics.reader import NicReader
from testbed.workloads.engine import QpShape, WorkloadEngine
from testbed.workloads.load import Load
from testbed.workloads.perftest import BenchReport, build_report

DRAIN_TIMEOUT_NS: Final = 10_000_000_000
"""How long messages that have begun may take to complete once the time is over."""


def run_bench(
    lab: Lab,
    load: Load,
    *,
    duration_ns: int | None,
    seed: int,
    progress: Callable[[str], None] = lambda _: None,
) -> BenchReport:
    """The report of *load* on *lab*; QPs and memory are given back, also when it fails or is interrupted.

    Args:
        lab: the lab.
        load: what to send.
        duration_ns: how long to send; None when the load has iterations.
        seed: decides the bytes sent and the order of EVs.
        progress: hears what is going on.

    Raises:
        UsageError: the load does not fit the NICs.
        AgentError: a NIC agent died or did not answer.
    """
    with contextlib.ExitStack() as stack:
        engine = WorkloadEngine(lab.clos, lambda host: AgentClient(lab.paths.agent_socket(host)))
        stack.callback(engine.close)
        completion = stack.enter_context(_completion_reader(lab, load))
        progress(f"{load.name}: registering memory, connecting {len(load.flows)} QPs")
        engine.prepare([load], QpShape(), seed)
        before = completion()
        progress(f"{load.name}: sending")
        engine.start(load.name)
        if duration_ns is not None:
            engine.wait(time.monotonic_ns() + duration_ns)
            engine.stop(load.name)
            outcomes = engine.collect(time.monotonic_ns() + DRAIN_TIMEOUT_NS)
        else:
            engine.wait(None)
            outcomes = engine.collect(time.monotonic_ns())
        return build_report(load, outcomes, engine.laps(load.name), completion().since(before))


@contextlib.contextmanager
def _completion_reader(lab: Lab, load: Load) -> Iterator[Callable[[], Histogram]]:
    """Reads the completion times of all messages that the load's sources have ever sent."""
    with contextlib.ExitStack() as stack:
        nics = []
        for host in load.sources:
            nic = NicReader(lab.paths.node_pins(host), lab.spec.planes)
            stack.callback(nic.close)
            nics.append(nic)
        yield partial(_read, nics)


def _read(nics: list[NicReader]) -> Histogram:
    return merge(nic.message_completion() for nic in nics)
