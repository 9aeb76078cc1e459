"""From a workload as written to the pairs of hosts it sends between. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import UsageError, did_you_mean
from testbed.workloads.spec import SendRecv, Workload, WriteBw, WriteLat


@dataclass(frozen=True, slots=True)
class Flow:
    """What one QP of a workload carries.

    Attributes:
        workload: name of the workload.
        source, target: host names, never the same.
        qp_index: 0 .. QPs per pair - 1.
    """

    workload: str
    source: str
    target: str
    qp_index: int


def bind_flows(workload: Workload, hosts: Sequence[str], qps: int) -> tuple[Flow, ...]:
    """The flows of *workload*, in the order of its pairs.

    Args:
        workload: as written.
        hosts: all hosts of the fabric, in order.
        qps: QPs per pair when the workload does not say; at least 1.

    Raises:
        UsageError: a host does not exist, sends to itself, or is named twice; or lists do not pair up.
    """
    pairs = _ring(workload, hosts) if isinstance(workload, SendRecv) else _pairs(workload, hosts)
    count = 1 if isinstance(workload, WriteLat) else workload.qps or qps
    return tuple(
        Flow(workload.name, source, target, qp_index) for source, target in pairs for qp_index in range(count)
    )


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
