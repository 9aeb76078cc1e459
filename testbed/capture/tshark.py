"""tshark with our dissector loaded from where the package has it: nothing is copied into a user's folders."""

from pathlib import Path
from typing import Final

DISSECTOR: Final = Path(__file__).with_name("mrc.lua")


def tshark_arguments() -> list[str]:
    """Arguments that make tshark (or wireshark) understand MRC.

    UDP checksums are 0 on purpose (docs/protocol.md, "Packet stack"), which is no error here.
    """
    return ["-X", f"lua_script:{DISSECTOR}", "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]
