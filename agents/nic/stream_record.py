"""The records of two agents on a TCP connection: of one size, a message's bytes behind its own.

    HELLO    number: QP number of the end that is called, offset: that of the caller; answered likewise
    MESSAGE  number: from 1, r_key and offset: where its bytes go, length: how many follow
    DONE     number: of the last message that is whole at its place
    REFUSED  number: of a message whose key or bounds were wrong

A DONE for each message is what an RDMA acknowledgement is: the bytes are where they belong.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from mrc_testbed.agents.errors import AgentError

_LAYOUT: Final = struct.Struct("!HBBIIIQQ")
RECORD_BYTES: Final = _LAYOUT.size
_MAGIC: Final = 0x4D53


class RecordKind(IntEnum):
    HELLO = 1
    MESSAGE = 2
    DONE = 3
    REFUSED = 4


_KINDS: Final = frozenset(RecordKind)


class Record(NamedTuple):
    """One record; what its kind does not need is 0."""

    kind: RecordKind
    number: int
    offset: int = 0
    r_key: int = 0
    length: int = 0
    immediate: int | None = None

    def encode(self) -> bytes:
        """RECORD_BYTES bytes."""
        return _LAYOUT.pack(
            _MAGIC,
            self.kind,
            self.immediate is not None,
            self.immediate or 0,
            self.r_key,
            self.length,
            self.offset,
            self.number,
        )


def decode_record(encoded: bytes | bytearray | memoryview) -> Record:
    """The record in RECORD_BYTES bytes.

    Raises:
        AgentError: it is none.
    """
    magic, kind, has_immediate, immediate, r_key, length, offset, number = _LAYOUT.unpack(encoded)
    if magic != _MAGIC or kind not in _KINDS:
        raise AgentError("invalid record from an agent")
    return Record(RecordKind(kind), number, offset, r_key, length, immediate if has_immediate else None)
