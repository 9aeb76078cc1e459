"""Starting the NIC agents of a lab, and knowing that they answer; and the drainers of its queues."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.client import AgentClient
from mrc_agents.nic.config import AgentConfig, NicSettings, config_document
from mrc_agents.nic.qp import EXPONENTIAL_COUNT
from mrc_agents.node_file import read_tail, remove_all_but
from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.errors import AgentError, FabricError
from mrc_testbed.fabric.folder_watch import FolderWatch
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.process import ProcessIdentity, is_alive, start_detached
from mrc_testbed.fabric.runtime import Report, Runtime, node_namespace
from mrc_testbed.fabric.state import ProcessRecord, RuntimeName
from mrc_testbed.fabric.state_file import write_private
from mrc_testbed.topology import port_queue, timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.transport.congestion import is_trimming, nic_rate_bps
from mrc_testbed.transport.reliable_connection import choose_rc_congestion

READY_TIMEOUT_NS: Final = 60_000_000_000
"""A hundred agents on two busy cores take ten seconds."""

_RTO_MIN_NS: Final = 50_000_000
"""Paced. Longer than a busy machine stands still. What a message loses at its end a tail loss probe finds
sooner.

In a shaped fabric it is at least twice the RTT of a packet that finds one queue on its way full."""
_PTO_UNSHAPED_NS: Final = 5_000_000
"""RTTs are microseconds there, and nothing is received while a CPU does something else. With 64 hosts on two
cores tail loss probes after a millisecond, each a system call, were what it did."""
_RTO_MIN_RTTS: Final = 8
_REORDER_UNSHAPED: Final = 16
"""Two CPUs may send on one path at a time, each in batches; a shaped port keeps its order exactly."""

_HELD_NS_MAX: Final = 10_000_000_000
"""By faults (delay, reorder), and in a shaped fabric by a drainer that stands still."""

_PROBE_CEILING_NS: Final = 1_000_000_000
"""Paced."""
_LOG_TAIL_LINES: Final = 5


def start_agents(
    paths: LabPaths, clos: Clos, runtime: Runtime, hosts: Sequence[str], report: Report
) -> list[ProcessRecord]:
    """Starts the agents of *hosts* and waits until each answers."""
    for host in hosts:
        remove_all_but(paths.node_folder(host), paths.agent_log(host).name)
    configs = {
        host: _write_config(paths, settings, runtime.name)
        for host, settings in nic_settings(clos, hosts).items()
    }
    deadline_ns = monotonic_ns() + READY_TIMEOUT_NS
    with FolderWatch(paths.node_folder(host) for host in hosts) as watch:
        agents = runtime.start_agents(configs)
        _await_answers(paths, agents, watch, deadline_ns, report)
    return [ProcessRecord.of(host, agent) for host, agent in agents.items()]


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
            if monotonic_ns() >= deadline_ns:
                raise FabricError(f"the agent of {host} does not answer{_log_tail(paths, host)}")
        if silent and not answering:
            watch.wait(silent.values(), deadline_ns)


def _answers(path: Path, host: str) -> bool:
    """Return True if the agent of *host* listens at *path* and says who it is."""
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


def _write_config(paths: LabPaths, settings: NicSettings, runtime: RuntimeName) -> Path:
    host = settings.host
    config = AgentConfig(
        **asdict(settings),
        pins=paths.node_pins(host),
        socket=paths.agent_socket(host),
        log=paths.agent_log(host),
        # In a container the agent is in the right namespace from the start.
        network_namespace=node_namespace(paths.lab, host) if runtime is RuntimeName.NETNS else None,
    )
    file = paths.agent_folder(host) / "agent.json"
    write_private(file, json.dumps(config_document(config), indent=1) + "\n")
    return file


def nic_settings(
    clos: Clos, hosts: Iterable[str], lateness_ns: int = timing.LATENESS_NS
) -> dict[str, NicSettings]:
    """Configuration of the agents of *hosts*, by host; *lateness_ns* as in `timer_attributes`."""
    probing = clos.spec.probing
    # Packets of a QP that has ended: its peer sends on until its retries end, and a queue may be full.
    rto_ns = _rto_ns(clos, lateness_ns)
    retries = range(clos.spec.nic.retry_limit + 1)
    retrying_ns = sum(rto_ns << min(retry, EXPONENTIAL_COUNT) for retry in retries)
    shared = NicSettings(
        host="",
        **timer_attributes(clos, lateness_ns),
        retry_limit=clos.spec.nic.retry_limit,
        probe_success_target=clos.spec.nic.probe_successes,
        packet_lifetime_ns=retrying_ns + port_queue.longest_way_ns(clos) + _HELD_NS_MAX,
        reorder_packets=0 if clos.spec.is_shaped else _REORDER_UNSHAPED,
        evs_name_paths=clos.spec.forwarding != "ecmp",
        shares_paths=clos.spec.nic.path_state == "nic" and clos.spec.forwarding != "ecmp",
        link_probe_interval_ns=0 if probing is None else probing.interval,
        link_probe_lag_rounds=1 if probing is None else probing.lag_rounds,
        base_rtt_ns=timing.base_rtt_ns(clos),
        byte_times_ps=[timing.byte_time_ps(clos, distance) for distance in range(len(clos.tiers))],
        is_trimming=is_trimming(clos),
        cc=clos.spec.nic.cc,
        rocev2=_rocev2(clos),
        # Probes pass queued data.
        probe_base_ns=max(timing.pace_ns(clos, lateness_ns), timing.base_rtt_ns(clos)),
        probe_ceiling_ns=timing.paced_ns(_PROBE_CEILING_NS, clos, lateness_ns),
    )
    return {
        host: replace(shared, host=host, rate_bps=nic_rate_bps(clos, clos.node(host).index)) for host in hosts
    }


def _rocev2(clos: Clos) -> dict[str, Any] | None:
    """Attributes of reliable connections of programs: those of `bench`; None: order is not kept."""
    if clos.is_adaptive:
        return None
    return choose_rc_congestion(clos, "rocev2").qp_attributes | {"pmtu_bytes": clos.spec.nic.path_mtu}


def _rto_ns(clos: Clos, lateness_ns: int) -> int:
    """The first time-out of a QP, and the longest before it doubles."""
    min_ns = timing.paced_ns(_RTO_MIN_NS, clos, lateness_ns)
    return max(min_ns, 2 * (timing.base_rtt_ns(clos) + port_queue.longest_wait_ns(clos)))


def timer_attributes(clos: Clos, lateness_ns: int = timing.LATENESS_NS) -> dict[str, int]:
    """The times of a new QP that AgentConfig names, in ns."""
    rto_ns = _rto_ns(clos, lateness_ns)
    if not clos.spec.is_shaped:
        return {"rto_ns": rto_ns, "rto_min_ns": rto_ns, "pto_min_ns": _PTO_UNSHAPED_NS, "reo_wnd_min_ns": 0}
    base_rtt_ns = timing.base_rtt_ns(clos)
    return {
        "rto_ns": rto_ns,
        "rto_min_ns": lateness_ns + _RTO_MIN_RTTS * base_rtt_ns,
        "pto_min_ns": lateness_ns + base_rtt_ns,
        "reo_wnd_min_ns": max(lateness_ns, base_rtt_ns // 4),
    }


def _log_tail(paths: LabPaths, host: str) -> str:
    try:
        lines = log_lines(paths.agent_log(host))
    except FileNotFoundError:
        return f"; it wrote no log ({paths.agent_log(host)})"
    except AgentError as error:
        return f"; its log cannot be read: {error}"
    return "; its log ends:\n" + "\n".join(lines[-_LOG_TAIL_LINES:])


_READ_BYTES_MAX: Final = 1 << 20


def log_lines(path: Path) -> list[str]:
    """The last lines of a log, as far as they lie in its last mebibyte.

    Raises:
        FileNotFoundError: there is none.
        AgentError: it is no regular file of ours.
    """
    return read_tail(path, _READ_BYTES_MAX).decode(errors="replace").splitlines()


DRAINER: Final = OBJECTS_DIR / "drainer"


def start_drainer(paths: LabPaths, index: int) -> ProcessRecord:
    """Starts drainer number *index* on the lab's pins. Its device map spans all network namespaces."""
    command = [str(DRAINER), "--pins", str(paths.fabric_pins), "--index", str(index)]
    process = start_detached(paths.lab, command, paths.drainer_log)
    return ProcessRecord.of(None, process)
