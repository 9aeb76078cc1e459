"""The headers of endpoint operations, which need no connection: EV probes and port status.

    BTH 12   ERTH 16        Endpoint Request, to QP 2
    BTH 12   EETH 36        Endpoint Response, from QP 2

BTH.psn carries the request id in its low 16 bits, in both directions.

Source: docs/reference/protocol.md, "ERTH and EETH".
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from reference.layout import Header, Layout
from reference.transport_header import FormatType


class EndpointOperation(IntEnum):
    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1


@dataclass(frozen=True, slots=True)
class Erth(Header):
    """Endpoint request, 16 bytes.

    Args:
        operation: an EndpointOperation; 2 and 3 are not defined.
        port_status_mask: bit i set: the sender's port to plane i works; 0 in an EV probe.
        tx_timestamp: the sender's clock, modulo 2^16.
        vendor_info: 0.
        is_coarse: unit of the timestamp as in Tseth.
        format_type: FormatType.TIMESTAMP.
    """

    operation: EndpointOperation
    tx_timestamp: int
    port_status_mask: int = 0
    vendor_info: int = 0
    is_coarse: bool = False
    format_type: int = FormatType.TIMESTAMP

    LAYOUT: ClassVar = Layout(
        "_:14 operation:2 _:8 vendor_info:8 port_status_mask:32 _:32"
        " tx_timestamp:16 is_coarse:flag _:11 format_type:4",
        operation=EndpointOperation,
    )


@dataclass(frozen=True, slots=True)
class Eeth(Header):
    """Endpoint response, 36 bytes.

    Args:
        operation: echoed, at bits 3:2 of byte 1. Sources disagree on the place, so a receiver goes by the
            request id and ignores it: any of the four values is accepted.
        tx_timestamp: reflected.
    """

    operation: int
    tx_timestamp: int

    LAYOUT: ClassVar = Layout("_:12 operation:2 _:2 _:208 tx_timestamp:16 _:48")
