"""Configuration of a NIC agent: one JSON object."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mrc_agents.abi import Limit
from mrc_agents.algorithms import CC
from mrc_agents.errors import UsageError


@dataclass(frozen=True, slots=True)
class NicSettings:
    host: str  # node name, `h3`
    rto_ns: int = 20_000_000  # retransmission time-out of new QPs
    retry_limit: int = 12  # time-outs in a row, without progress, that a QP survives
    packet_lifetime_ns: int = 10_000_000_000  # for so long after a QP has ended packets for it may arrive
    probe_base_ns: int = 1_000_000  # spacing of EV probes starts at ten times this, a round-trip time
    probe_ceiling_ns: int = 1_000_000_000  # spacing of EV probes, and of port status updates, at most
    probe_success_target: int = 3  # successful probes in a row that bring an EV back
    # rto_min_ns, pto_min_ns, reo_wnd_min_ns: floors of the times that new QPs measure; see QpAttributes
    rto_min_ns: int = 60_000_000_000
    pto_min_ns: int = 1_000_000
    reo_wnd_min_ns: int = 0
    reorder_packets: int = 0  # packets that may overtake another on one path of the fabric
    evs_name_paths: bool = True  # whether EVs of one plane and one uplink name the same path
    shares_paths: bool = False  # whether QPs share what they find out about paths
    rate_bps: int = 0  # of all ports together; 0: they have none, and windows are fixed
    base_rtt_ns: int = 0  # of a full packet over the longest path of the empty fabric; 0 with rate_bps
    # serialisation of a byte on all links to a host together, by its distance
    byte_times_ps: Sequence[int] = field(default_factory=lambda: [0] * Limit.TIER_MAX)
    is_trimming: bool = False  # whether switches trim instead of dropping
    cc: str = CC.usual  # the algorithm that its programs were loaded with
    link_probe_interval_ns: int = 0  # from one round of link probes to the next; 0: none unless asked for
    link_probe_lag_rounds: int = 1  # rounds after which a link probe that is not back has failed
    # attributes, as of create_rc_qp, of reliable connections of applications; None: the fabric does not keep
    # the order that they need
    rocev2: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig(NicSettings):
    pins: Path  # folder with the NIC's pinned maps and its program `nic`
    socket: Path  # where to listen
    log: Path  # file that receives the agent's log and its standard streams
    # path of the namespace to enter; None when the agent already runs in it
    network_namespace: Path | None = None


def load_config(path: Path) -> AgentConfig:
    try:
        document = json.loads(path.read_text())
        for key in ("pins", "socket", "log", "network_namespace"):
            if document.get(key) is not None:
                document[key] = Path(document[key])
        return AgentConfig(**document)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not the configuration of a NIC agent: {error}") from error


def config_document(config: AgentConfig) -> dict[str, Any]:
    """The JSON object that `load_config` reads."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
