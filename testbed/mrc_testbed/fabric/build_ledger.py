"""The ledger: what was about to be done to the machine, one JSON line per operation.

A line is in the file before its operation begins, so the ledger names at least everything that exists; read
backwards it is the order in which to take things away. It is not synced to disk: it must outlive a killed
process, and when the machine itself dies, so does all that the ledger could name.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mrc_agents.closing import Closing
from mrc_testbed.fabric.plan import Operation, OperationKind
from mrc_testbed.fabric.state_file import private_descriptor

_TARGET_KEYS: Final[Mapping[OperationKind, str]] = {
    OperationKind.CREATE_NODE: "node",
    OperationKind.CREATE_LINK: "link",
    OperationKind.LOAD_NIC: "host",
    OperationKind.CONNECT_NODE: "node",
    OperationKind.START_AGENT: "host",
}
"""Key of the target of the operations that have one."""


class BuildLedger(Closing):
    """The ledger of a lab, open for appending."""

    def __init__(self, path: Path) -> None:
        self._file = os.fdopen(private_descriptor(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0)

    def close(self) -> None:
        self._file.close()

    def announce(self, operations: Sequence[Operation]) -> None:
        """Records *operations* in one write; call it before performing the first."""
        lines = [json.dumps(encode_operation(operation)) + "\n" for operation in operations]
        self._file.write("".join(lines).encode())


def encode_operation(operation: Operation) -> dict[str, str]:
    key = _TARGET_KEYS.get(operation.kind)
    return {"operation": operation.kind} | ({key: operation.target} if key else {})


def decode_operation(value: object) -> Operation:
    """The operation that `encode_operation` made *value* of.

    Raises:
        ValueError: it made nothing of the kind.
    """
    if isinstance(value, dict):
        for kind in OperationKind:
            operation = Operation(kind, str(value.get(_TARGET_KEYS.get(kind), "")))
            if encode_operation(operation) == value:
                return operation
    raise ValueError(f"not an operation: {value!r}")


def read_ledger(path: Path) -> tuple[Operation, ...]:
    """All operations that can be read, in the order of the file.

    A line that cannot be read is passed over: the last one may be cut short by SIGKILL, and `down` looks for
    leftovers by label and name as well.
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    operations = []
    for line in lines:
        try:
            operations.append(decode_operation(json.loads(line)))
        except ValueError:
            continue
    return tuple(operations)
