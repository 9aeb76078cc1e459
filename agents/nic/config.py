"""What a NIC agent is told when it starts: one JSON object."""

import json
from dataclasses import dataclass, fields
from pathlib import Path

from testbed.errors import UsageError


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Configuration of one NIC agent.

    Attributes:
        host: node name, `h3`.
        pins: folder with the NIC's pinned maps and its program `nic`.
        socket: where to listen.
        log: file that receives the agent's log and its standard streams.
        network_namespace: path of the namespace to enter; None when the agent already runs in it.
        rto_ns: retransmission time-out of new QPs.
        retry_limit: time-outs in a row, without progress, that a QP survives.
        probe_base_ns: spacing of EV probes starts at ten times this, a round-trip time.
        probe_success_target: answers in a row that bring an EV back.
    """

    host: str
    pins: Path
    socket: Path
    log: Path
    network_namespace: Path | None = None
    rto_ns: int = 20_000_000
    retry_limit: int = 30
    probe_base_ns: int = 1_000_000
    probe_success_target: int = 3


def load_config(path: Path) -> AgentConfig:
    """The configuration in a file.

    Raises:
        UsageError: it is not an object with exactly our keys.
    """
    try:
        document = json.loads(path.read_text())
        for key in ("pins", "socket", "log", "network_namespace"):
            if document.get(key) is not None:
                document[key] = Path(document[key])
        return AgentConfig(**document)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not the configuration of a NIC agent: {error}") from error


def config_document(config: AgentConfig) -> dict[str, str | int | None]:
    """The JSON object that `load_config` reads."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
