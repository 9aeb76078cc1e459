"""tshark with our dissector loaded from where the package has it: nothing is copied into a user's folders."""

from pathlib import Path
from typing import Final

DISSECTOR: Final = Path(__file__).with_name("mrc.lua")


def tshark_arguments(forwarding: str = "srv6") -> list[str]:
    """Arguments that make tshark (or wireshark) understand MRC.

    UDP checksums are 0 on purpose (docs/reference/protocol.md, "Packet stack"), which is no error here.

    Args:
        forwarding: mode of the fabric, which decides what the parts of an EV are.
    """
    preferences = ("udp.ignore_ipv6_zero_checksum:TRUE", f"mrc.forwarding:{forwarding}")
    arguments = ["-X", f"lua_script:{DISSECTOR}"]
    for preference in preferences:
        arguments += ["-o", preference]
    return arguments
