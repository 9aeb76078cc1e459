"""From a workload as written to the pairs of hosts it sends between, and what came of each. Pure; of a trace
the files are read.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.workloads.collective import Collective, connections_of
from mrc_testbed.workloads.program import Program, check_connected
from mrc_testbed.workloads.spec import (
    CollectiveSpec,
    Incast,
    Permutation,
    ProgramSpec,
    SendRecv,
    TraceSpec,
    Training,
    Victim,
    WriteBw,
    WriteLat,
    victim_name,
)
from mrc_testbed.workloads.trace import PLACE_OF_RANK, JobTrace, read_job, trace_files

FlowWorkload = WriteBw | WriteLat | SendRecv | Incast | Permutation
"""Workloads whose flows are independent of one another."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The messages of one QP of a workload."""

    workload: str  # name of the workload
    # source, target: host names, never the same
    source: str
    target: str
    qp_index: int  # 0 .. QPs per pair - 1.


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """One QP's share of a workload, from its start to its end; warm-up included."""

    flow: Flow  # what it was to carry
    qpn: int  # QP number at the source
    start_ns: int  # CLOCK_MONOTONIC when its first message was posted
    end_ns: int  # CLOCK_MONOTONIC when its last message completed or it was given up
    messages: int  # completed, with success
    payload_bytes: int  # of those messages
    compared_bytes: int  # received memory that was compared with what was sent
    wrong_bytes: int  # of those, how many differ
    error: str | None  # why the QP or its peer failed; None when it did not


def bind_flows(workload: FlowWorkload, hosts: Sequence[str], qps: int, seed: int) -> tuple[Flow, ...]:
    """The flows of *workload*, in the order of its pairs.

    Args:
        hosts: all hosts of the fabric, in order.
        qps: QPs per pair when the workload does not say; at least 1.
    """
    match workload:
        case SendRecv():
            pairs = _ring(workload, hosts)
        case Incast():
            pairs = _incast(workload, hosts)
        case Permutation():
            pairs = _permutation(workload, hosts, seed)
        case _:
            pairs = _pairs(workload, hosts)
    count = 1 if isinstance(workload, WriteLat) else workload.qps or qps
    return _flows(workload.name, pairs, count)


def bind_victim(incast: Incast, victim: Victim, hosts: Sequence[str], qps: int) -> tuple[Flow, ...]:
    """The flows of an incast's victim."""
    [source] = _existing("victim.from", victim.from_host, hosts)
    [target] = _existing("victim.to", victim.to_host, hosts)
    if source == target:
        raise UsageError(f"victim: {source} would send to itself")
    if target == incast.to_host:
        raise UsageError(f"victim.to: {target} is the receiver of the incast; give another host")
    return _flows(victim_name(incast.name), [(source, target)], incast.qps or qps)


def bind_collective(
    workload: CollectiveSpec | Training, hosts: Sequence[str], qps: int
) -> tuple[Collective, tuple[Flow, ...]]:
    """The collective of *workload*, and a flow for each of its connections.

    Args:
        hosts: all hosts of the fabric, in order.
        qps: QPs per pair of ranks when the workload does not say; at least 1.
    """
    ranks = list(hosts) if workload.hosts == "all" else _existing("hosts", workload.hosts, hosts)
    kind = workload.collective if isinstance(workload, Training) else workload.kind
    if workload.root is not None and kind != "broadcast":
        raise UsageError(f"root: only a broadcast has one, not {kind}")
    if workload.root is not None and workload.root not in ranks:
        raise UsageError(f"root: {workload.root} is none of the hosts{did_you_mean(workload.root, ranks)}")
    collective = Collective(
        kind=kind,
        ranks=tuple(ranks),
        size_bytes=workload.size_bytes,
        dtype=workload.dtype,
        reduction=workload.reduce,
        channels=workload.qps or qps,
        root=ranks.index(workload.root) if workload.root is not None else 0,
        compute_ns=workload.compute_ns if isinstance(workload, Training) else None,
    )
    collective.check()
    flows = tuple(
        Flow(workload.name, ranks[each.source], ranks[each.target], each.channel)
        for each in connections_of(kind, len(ranks), collective.channels, collective.root)
    )
    return collective, flows


def bind_program(workload: ProgramSpec, hosts: Sequence[str]) -> Program:
    """The program of *workload*."""
    ranks = _rank_hosts(workload.hosts, hosts)
    if workload.stand_in is not None:
        check_connected(len(ranks))
    return Program(
        hosts=tuple(ranks),
        command=tuple(workload.command),
        environment=workload.environment,
        stand_in=workload.stand_in,
        compute=workload.compute,
        reports_steps=workload.steps,
    )


def bind_trace(workload: TraceSpec, hosts: Sequence[str]) -> tuple[JobTrace, tuple[Flow, ...]]:
    """The trace of *workload*, whose files are read, and a flow in each direction of each connection."""
    files = trace_files(workload.files)
    ranks = _rank_hosts(workload.hosts, hosts)
    of_all = len(ranks) if PLACE_OF_RANK not in workload.files else None
    job, digest = read_job(workload.format, files, of_all, workload.dependencies)
    if workload.hosts == "all":
        ranks = _rank_hosts(len(job.graphs), hosts)
    if len(ranks) != len(job.graphs):
        raise UsageError(f"hosts: {len(ranks)}; the trace has {len(job.graphs)} ranks")
    factors = workload.compute, workload.bytes
    trace = JobTrace(tuple(ranks), workload.format, files, digest, *factors, workload.dependencies)
    trace.check(job)
    pairs = [(ranks[source], ranks[target]) for source, target in job.pairs()]
    return trace, _flows(workload.name, pairs, 1)


def _rank_hosts(wanted: int | str | list[str], hosts: Sequence[str]) -> Sequence[str]:
    """Hosts of ranks, as a field says them."""
    if not isinstance(wanted, int):
        return hosts if wanted == "all" else _existing("hosts", wanted, hosts)
    if wanted > len(hosts):
        raise UsageError(f"hosts: {wanted}; the fabric has {len(hosts)} hosts, and a host has one rank")
    return hosts[:wanted]


def _flows(name: str, pairs: Sequence[tuple[str, str]], count: int) -> tuple[Flow, ...]:
    return tuple(
        Flow(name, source, target, qp_index) for source, target in pairs for qp_index in range(count)
    )


def _incast(workload: Incast, hosts: Sequence[str]) -> list[tuple[str, str]]:
    [target] = _existing("to", workload.to_host, hosts)
    if workload.from_hosts == "all":
        return [(host, target) for host in hosts if host != target]
    sources = _existing("from", workload.from_hosts, hosts)
    if target in sources:
        raise UsageError(f"from: {target} would send to itself")
    return [(source, target) for source in sources]


def _permutation(workload: Permutation, hosts: Sequence[str], seed: int) -> list[tuple[str, str]]:
    sources = list(hosts) if workload.from_hosts == "all" else _existing("from", workload.from_hosts, hosts)
    targets = list(hosts) if workload.to_hosts == "all" else _existing("to", workload.to_hosts, hosts)
    if len(sources) != len(targets):
        raise UsageError(
            f"{len(sources)} hosts in from and {len(targets)} in to do not pair up; "
            "a permutation needs as many receivers as senders"
        )
    if sources == targets and len(sources) == 1:
        raise UsageError(f"{sources[0]} would send to itself")
    drawn = random.Random(f"{seed}/{workload.name}/permutation")
    receivers = drawn.sample(targets, len(targets))
    for place, source in enumerate(sources):
        if receivers[place] == source:
            # A neighbour's receiver is not this host: it has only one.
            other = (place + 1) % len(sources)
            receivers[place], receivers[other] = receivers[other], receivers[place]
    return list(zip(sources, receivers, strict=True))


def _ring(workload: SendRecv, hosts: Sequence[str]) -> list[tuple[str, str]]:
    ring = list(hosts) if workload.hosts == "all" else _existing("hosts", workload.hosts, hosts)
    if workload.shift % len(ring) == 0:
        raise UsageError(f"shift: {workload.shift} makes each of the {len(ring)} hosts send to itself")
    return [(host, ring[(index + workload.shift) % len(ring)]) for index, host in enumerate(ring)]


def _pairs(workload: WriteBw | WriteLat, hosts: Sequence[str]) -> list[tuple[str, str]]:
    sources = _existing("from", workload.from_hosts, hosts)
    targets = _existing("to", workload.to_hosts, hosts)
    if len(sources) == 1:
        sources = sources * len(targets)
    if len(targets) == 1:
        targets = targets * len(sources)
    if len(sources) != len(targets):
        raise UsageError(
            f"{len(sources)} hosts in from and {len(targets)} in to do not pair up; "
            "give lists of the same length, or a single host on one side"
        )
    for source, target in zip(sources, targets, strict=True):
        if source == target:
            raise UsageError(f"{source} would send to itself")
    return list(zip(sources, targets, strict=True))


def _existing(key: str, names: str | list[str], hosts: Sequence[str]) -> list[str]:
    listed = [names] if isinstance(names, str) else names
    for index, name in enumerate(listed):
        if name not in hosts:
            raise UsageError(
                f"{key}: there is no host {name!r}{did_you_mean(name, hosts)} "
                f"(hosts are {hosts[0]} to {hosts[-1]})"
            )
        if name in listed[:index]:
            raise UsageError(f"{key}: {name} is named twice")
    return list(listed)
