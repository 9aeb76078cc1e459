"""Where headers begin in a frame over SRv6, and a way to damage them."""

from typing import Final

OUTER_AT: Final = 14
INNER_AT: Final = 54
UDP_AT: Final = 94
BTH_AT: Final = 102
AFTER_BTH: Final = 114
METH_AT: Final = 114
RETH_AT: Final = 122
PAYLOAD_AT: Final = 138


def patched(octets: bytes, at: int, value: int, width: int = 1) -> bytes:
    """*octets* with *width* bytes replaced by *value*, big endian."""
    return octets[:at] + value.to_bytes(width, "big") + octets[at + width :]
