"""One workload on a lab that is up, measured and compared: what `bench` does."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.live import Lab
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.reader import NicReader
from mrc_testbed.transport.transport_kind import AnyCongestion, TransportKind, choose_congestion
from mrc_testbed.units import format_size_bytes
from mrc_testbed.workloads.connectors import open_transport
from mrc_testbed.workloads.engine import WorkloadEngine
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.nccl import CollectiveResult, build_result
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.outcome import FlowOutcome
from mrc_testbed.workloads.perftest import BenchReport, build_report
from mrc_testbed.workloads.transport import Transport

DRAIN_TIMEOUT_NS: Final = 10_000_000_000
"""Time for messages that have begun to complete once the sending time is over."""

SayProgress = Callable[[str, int | None, int | None], None]
"""Receives the present step, and how much of it is done of how much where that is known."""

_SECOND_NS: Final = 1_000_000_000


def run_bench(
    lab: Lab,
    load: Load,
    *,
    duration_ns: int | None,
    seed: int,
    transport: TransportKind = "mrc",
    congestion: AnyCongestion | None = None,
    progress: SayProgress = lambda *_: None,
) -> BenchReport:
    """The report of *load* on *lab*; QPs and memory are given back, also when it fails or is interrupted.

    Args:
        lab: the lab.
        load: what to send.
        duration_ns: how long to send; None when the load has iterations.
        seed: decides the bytes sent and the choice of paths.
        transport: what carries the messages.
        congestion: of that transport; None for what fits the fabric.
        progress: called with each step, and every second of the sending.
    """
    with contextlib.ExitStack() as stack:
        engine = WorkloadEngine(_open(lab, transport, congestion))
        stack.callback(engine.close)
        completion = stack.enter_context(_completion_reader(lab, load))
        progress(f"{load.name}: registering memory, connecting {len(load.flows)} QPs", None, None)
        engine.prepare([load], seed)
        before = completion()
        outcomes = _carry_out(engine, load, duration_ns, f"{load.name}: sending", progress)
        return build_report(load, outcomes, engine.batches(load.name), completion().since(before))


def run_collective(
    lab: Lab,
    load: Load,
    *,
    warmup_operations: int,
    duration_ns: int | None,
    seed: int,
    transport: TransportKind = "mrc",
    congestion: AnyCongestion | None = None,
    progress: SayProgress = lambda *_: None,
) -> CollectiveResult:
    """The result of a collective *load* on *lab*; connections and memory are given back in any case.

    Args:
        lab: the lab.
        load: what to do; its iterations contain those of the warm-up.
        warmup_operations: how many at the beginning are not timed.
        duration_ns: how long to go on; None when the load has iterations.
        seed: decides the data and the choice of paths.
        transport: what carries the messages.
        congestion: of that transport; None for what fits the fabric.
        progress: called with each step, and every second of the sending.
    """
    if load.collective is None:
        raise ValueError(f"{load.name} is no collective")
    with (
        contextlib.closing(OperationPublisher(lab.state_dir)) as shown,
        contextlib.closing(WorkloadEngine(_open(lab, transport, congestion), shown)) as engine,
    ):
        what = f"{load.collective.kind} of {format_size_bytes(load.size_bytes)}"
        progress(f"{what}: connecting {len(load.flows)} QPs", None, None)
        engine.prepare([load], seed)
        outcomes = _carry_out(engine, load, duration_ns, what, progress)
        return build_result(
            load.collective,
            engine.operations(load.name),
            [outcome.error for outcome in outcomes if outcome.error],
            warmup_operations=warmup_operations,
        )


def _carry_out(
    engine: WorkloadEngine, load: Load, duration_ns: int | None, what: str, progress: SayProgress
) -> list[FlowOutcome]:
    progress(what, None, None)
    engine.start(load.name)
    begun_ns = now_ns = monotonic_ns()
    end_ns = None if duration_ns is None else begun_ns + duration_ns
    while end_ns is None or now_ns < end_ns:
        wake_ns = now_ns + _SECOND_NS
        if engine.wait(wake_ns if end_ns is None else min(wake_ns, end_ns)):
            break
        now_ns = monotonic_ns()
        if duration_ns is not None:
            progress(f"{what}, seconds", (now_ns - begun_ns) // _SECOND_NS, duration_ns // _SECOND_NS)
        elif load.collective is not None:
            progress(f"{what}, operations", len(engine.operations(load.name)), load.iterations)
        else:
            batches = engine.batches(load.name).values()
            messages = sum(batch.messages for flow in batches for batch in flow)
            progress(f"{what}, messages", messages, load.iterations and load.iterations * len(load.flows))
    if duration_ns is None:
        return engine.collect(monotonic_ns())
    engine.stop(load.name)
    return engine.collect(monotonic_ns() + DRAIN_TIMEOUT_NS)


def _open(lab: Lab, kind: TransportKind, congestion: AnyCongestion | None) -> Transport:
    return open_transport(lab, kind, congestion or choose_congestion(lab.clos, kind))


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
