"""An MRC packet as a switch sees it."""

import struct
from dataclasses import dataclass

from reference.icrc import icrc
from switch_bench import frame_for

from mrc_agents.abi import Dscp, TrafficClass

IP_UDP_BTH_BYTES = 40 + 8 + 12
BTH_END = 14 + 40 + IP_UDP_BTH_BYTES
CONTROL, DATA = TrafficClass.CONTROL, TrafficClass.DATA


@dataclass(frozen=True)
class Packet:
    """Headers that count, then payload and iCRC."""

    traffic_class: TrafficClass = DATA
    entropy: int = 0x1002_0003
    payload_bytes: int = 64
    is_trimmed: bool = False
    is_tunnelled: bool = True

    def frame(self, port_id: int) -> bytes:
        udp_bytes = 8 + 12 + self.payload_bytes + 4
        dscp = Dscp.TRIMMED if self.is_trimmed else Dscp.CONTROL if self.traffic_class == CONTROL else 4
        outer = bytearray(frame_for(port_id, 54, traffic_class=self.traffic_class))
        class_flow = 6 << 28 | dscp << 22 | self.entropy >> 16
        outer[14:18] = class_flow.to_bytes(4, "big")
        outer[20] = 41 if self.is_tunnelled else 17
        inner = class_flow.to_bytes(4, "big") + udp_bytes.to_bytes(2, "big") + bytes((17, 64)) + bytes(32)
        udp = struct.pack(">HHHH", self.entropy & 0xFFFF, 4791, udp_bytes, 0)
        bth = bytes((0xCA, 0, 0xFF, 0xFF)) + bytes(8)
        payload = bytes(i & 0xFF for i in range(self.payload_bytes))
        headers = bytes(outer) + (inner if self.is_tunnelled else b"") + udp + bth
        return headers + payload + icrc(headers[-IP_UDP_BTH_BYTES:] + payload)

    @property
    def begin(self) -> int:
        """Offset of the first byte behind the BTH."""
        return BTH_END if self.is_tunnelled else BTH_END - 40
