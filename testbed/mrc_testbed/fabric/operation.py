"""Operations: the values a plan and a ledger consist of.

Each says what comes to exist. Taking it away (removal.py) needs fewer kinds, because things go with what
contains them: links, addresses, XDP programs and device map entries with the nodes, programs and maps with
the lab's pins.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True)
class PreparePins:
    """The BPF file system is mounted and holds a folder for the lab."""


@dataclass(frozen=True, slots=True)
class CreateNode:
    """A switch or host: a container or nothing, and a named network namespace."""

    node: str


@dataclass(frozen=True, slots=True)
class CreateLink:
    """A veth pair between two nodes."""

    link: str


@dataclass(frozen=True, slots=True)
class LoadFabric:
    """The switch program and the maps that the fabric shares, filled and pinned."""


@dataclass(frozen=True, slots=True)
class LoadNic:
    """Program and maps of one NIC, pinned."""

    host: str


@dataclass(frozen=True, slots=True)
class ConnectNode:
    """A node's interfaces have addresses and XDP programs, are up, and can be redirected to."""

    node: str


@dataclass(frozen=True, slots=True)
class StartDrainer:
    """The process that moves frames out of the queues of a shaped fabric."""


@dataclass(frozen=True, slots=True)
class StartAgent:
    """The control process of one NIC."""

    host: str


Operation = (
    PreparePins | CreateNode | CreateLink | LoadFabric | LoadNic | ConnectNode | StartDrainer | StartAgent
)

_KINDS: Final[Mapping[str, type[Operation]]] = {
    kind.__name__: kind
    for kind in (
        PreparePins,
        CreateNode,
        CreateLink,
        LoadFabric,
        LoadNic,
        ConnectNode,
        StartDrainer,
        StartAgent,
    )
}
_KIND_KEY: Final = "operation"


def encode_operation(operation: Operation) -> dict[str, str]:
    return {_KIND_KEY: type(operation).__name__, **asdict(operation)}


def decode_operation(value: object) -> Operation:
    """The operation that `encode_operation` made *value* of.

    Raises:
        ValueError: it made nothing of the kind.
    """
    if isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values()):
        arguments = {str(key): str(argument) for key, argument in value.items() if key != _KIND_KEY}
        kind = _KINDS.get(value.get(_KIND_KEY, ""))
        if kind is not None and arguments.keys() == {field.name for field in fields(kind)}:
            return kind(**arguments)
    raise ValueError(f"not an operation: {value!r}")
