"""The ledger: what was about to be done to the machine, one JSON line per operation.

A line is in the file before its operation begins, so the ledger names at least everything that exists; read
backwards it is the order in which to take things away. It is not synced to disk: it must outlive a killed
process, and when the machine itself dies, so does all that the ledger could name.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from mrc_agents.closing import Closing
from mrc_testbed.fabric.operation import Operation, decode_operation, encode_operation
from mrc_testbed.fabric.state_file import private_descriptor


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
