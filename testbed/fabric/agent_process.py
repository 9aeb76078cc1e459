"""Starting the NIC agents of a lab, and knowing that they answer."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agents.nic.client import AgentClient
from agents.nic.config import AgentConfig, config_document
from testbed.errors import AgentError, FabricError
from testbed.fabric.folder_watch import FolderWatch
from testbed.fabric.process import ProcessIdentity, is_alive
from testbed.fabric.runtime import Report, Runtime, node_namespace
from testbed.fabric.state import LabPaths, ProcessRecord, RuntimeName
from testbed.topology import port_queue, timing
from testbed.topology.clos import Clos
from testbed.topology.congestion import is_trimming, nic_rate_bps

READY_TIMEOUT_NS: Final = 60_000_000_000
"""A hundred agents on two busy cores take ten seconds."""

_RTO_MIN_NS: Final = 50_000_000
"""Longer than a busy machine stands still. What a message loses at its end a tail probe finds sooner.

In a shaped fabric it is at least twice the RTT of a packet that finds one queue on its way full."""
_TAIL_MIN_NS: Final = 1_000_000
_TAIL_UNSHAPED_NS: Final = 5_000_000
"""RTTs are microseconds there, and nothing is heard while a CPU does something else. With 64 hosts on two
cores tail probes after a millisecond, each a system call, were what it did."""
_TAIL_RTTS: Final = 3
_REORDER_UNSHAPED: Final = 16
"""Two CPUs may send on one path at a time, each in batches; a shaped port keeps its order exactly."""

_PROBE_BASE_MIN_NS: Final = 1_000_000
_LOG_TAIL_LINES: Final = 5


def start_agents(
    paths: LabPaths, clos: Clos, runtime: Runtime, hosts: Sequence[str], report: Report
) -> list[ProcessRecord]:
    """Starts the agents of *hosts* and waits until each answers.

    Returns:
        The agents' processes.

    Raises:
        FabricError: an agent ended, or did not answer in time; the end of its log is quoted.
    """
    rto_ns = max(_RTO_MIN_NS, 2 * (timing.base_rtt_ns(clos) + port_queue.longest_wait_ns(clos)))
    configs = {host: _write_config(paths, clos, runtime.name, host, rto_ns) for host in hosts}
    deadline_ns = time.monotonic_ns() + READY_TIMEOUT_NS
    with FolderWatch(paths.node_folder(host) for host in hosts) as watch:
        agents = runtime.start_agents(configs)
        _await_answers(paths, agents, watch, deadline_ns, report)
    return [
        ProcessRecord(node=host, pid=agent.pid, start_ticks=agent.start_ticks)
        for host, agent in agents.items()
    ]


def _await_answers(
    paths: LabPaths,
    agents: Mapping[str, ProcessIdentity],
    watch: FolderWatch,
    deadline_ns: int,
    report: Report,
) -> None:
    silent = dict(agents)
    while silent:
        answering = [host for host in silent if _answers(paths.agent_socket(host), host)]
        for host in answering:
            del silent[host]
        report(len(answering))
        for host, agent in silent.items():
            if not is_alive(agent):
                raise FabricError(f"the agent of {host} ended{_log_tail(paths, host)}")
            if time.monotonic_ns() >= deadline_ns:
                raise FabricError(f"the agent of {host} does not answer{_log_tail(paths, host)}")
        if silent and not answering:
            watch.wait(silent.values(), deadline_ns)


def _answers(path: Path, host: str) -> bool:
    """Whether the agent of *host* listens at *path* and says who it is."""
    if not path.exists():
        return False
    try:
        client = AgentClient(path)
    except AgentError:
        return False  # bound, but not listening yet: its next step changes the socket's mode, which wakes us
    with client:
        name = client.hello()["host"]
    if name != host:
        raise FabricError(f"{path} is answered by the agent of {name}")
    return True


def _write_config(paths: LabPaths, clos: Clos, runtime: RuntimeName, host: str, rto_ns: int) -> Path:
    probing = clos.spec.probing
    config = AgentConfig(
        host=host,
        pins=paths.node_pins(host),
        socket=paths.agent_socket(host),
        log=paths.agent_log(host),
        # In a container the agent is in the right namespace from the start.
        network_namespace=node_namespace(paths.lab, host) if runtime is RuntimeName.NETNS else None,
        rto_ns=rto_ns,
        retry_limit=clos.spec.nic.retry_limit,
        tail_ns=_tail_ns(clos),
        reorder_packets=0 if clos.spec.is_shaped else _REORDER_UNSHAPED,
        evs_name_paths=clos.spec.forwarding != "ecmp",
        rate_bps=nic_rate_bps(clos, clos.node(host).index),
        link_probe_interval_ns=0 if probing is None else probing.interval,
        link_probe_lag_rounds=1 if probing is None else probing.lag_rounds,
        base_rtt_ns=timing.base_rtt_ns(clos),
        is_trimming=is_trimming(clos),
        probe_base_ns=max(_PROBE_BASE_MIN_NS, timing.base_rtt_ns(clos)),  # probes pass queued data
    )
    file = paths.agent_config(host)
    file.write_text(json.dumps(config_document(config), indent=1) + "\n")
    return file


def _tail_ns(clos: Clos) -> int:
    """Silence of a QP after which it sends a tail probe."""
    if not clos.spec.is_shaped:
        return _TAIL_UNSHAPED_NS
    return max(_TAIL_MIN_NS, _TAIL_RTTS * timing.base_rtt_ns(clos))


def _log_tail(paths: LabPaths, host: str) -> str:
    try:
        lines = paths.agent_log(host).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return f"; it wrote no log ({paths.agent_log(host)})"
    return "; its log ends:\n" + "\n".join(lines[-_LOG_TAIL_LINES:])
