"""The headers of endpoint operations, which need no connection: EV probes and port status.

    BTH 12   ERTH 16        Endpoint Request, to QP 2
    BTH 12   EETH 36        Endpoint Response, from QP 2

BTH.psn carries the request id in its low 16 bits, in both directions.

Source: docs/reference/protocol.md, "ERTH and EETH".
"""

from enum import IntEnum

from reference.layout import Header
from reference.transport_header import FormatType


class EndpointOperation(IntEnum):
    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1


class Erth(
    Header,
    layout="_:14 operation:2 _:8 vendor_info:8 port_status_mask:32 _:32"
    " tx_timestamp:16 is_coarse:flag _:11 format_type:4",
):
    operation: EndpointOperation
    tx_timestamp: int
    port_status_mask: int = 0
    vendor_info: int = 0
    is_coarse: bool = False
    format_type: int = FormatType.TIMESTAMP


class Eeth(Header, layout="_:12 operation:2 _:2 _:208 tx_timestamp:16 _:48"):
    operation: int  # any value: sources disagree on its place, so a receiver ignores it
    tx_timestamp: int
