"""Header bytes typed by hand from the tables of docs/reference/protocol.md: what they say, as an object, as
bytes.
"""

from reference.endpoint_header import Eeth, EndpointOperation, Erth
from reference.layout import Header
from reference.link_probe_header import Lph
from reference.opcode import Opcode
from reference.reliability_header import CcState, NackReason, Neth, PathAdvice, Peth, Seth
from reference.transport_header import Aeth, Bth, FormatType, ImmDt, Meth, NakCode, Reth, Tseth

GOLDEN: list[tuple[str, Header, str]] = [
    (
        "BTH of a WRITE Only that asks for a SACK and has a timestamp",
        Bth(Opcode.WRITE_ONLY, 0x123, 0xABCD, wants_ack=True, has_timestamp=True),
        "ca 00 ff ff 00 00 01 23 90 00 ab cd",
    ),
    (
        "BTH with se, m, pad 3, version 1, rtx and the largest numbers",
        Bth(
            Opcode.WRITE_LAST_IMMEDIATE,
            0xFFFFFF,
            0xFFFFFE,
            solicited_event=True,
            migration_request=True,
            pad_bytes=3,
            version=1,
            p_key=0x8001,
            is_retransmission=True,
        ),
        "c9 f1 80 01 00 ff ff ff 20 ff ff fe",
    ),
    (
        "BTH with se alone",
        Bth(Opcode.NACK, 1, 0, solicited_event=True),
        "dd 80 ff ff 00 00 00 01 00 00 00 00",
    ),
    ("METH", Meth(rqmsn=2, msn=7), "00 02 00 07"),
    ("TSETH in units of 128 ns", Tseth(0x1234), "12 34 00 01"),
    ("TSETH in coarse units", Tseth(0xFFFF, is_coarse=True), "ff ff 80 01"),
    ("RETH of 2048 bytes", Reth(0x1000, 0xDEADBEEF, 2048), "00 00 00 00 00 00 10 00 de ad be ef 00 00 08 00"),
    ("ImmDt", ImmDt(0x01020304), "01 02 03 04"),
    ("AETH acknowledging seven messages", Aeth.ack(7), "1f 00 00 07"),
    ("AETH refusing access", Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 0x010203), "62 01 02 03"),
    (
        "SETH: 0-4, 6, 7, 9-11 received, 11 just came, its EV to be skipped once",
        Seth(
            cack_psn=4,
            entropy=0x00010002,
            sack_bitmap=0x76,
            ack_psn_offset=7,
            advice=PathAdvice.SKIP_ONCE,
            source_qpn_low=0x456,
            destination_qpn_low=0x123,
        ),
        "00 20 00 07 00 01 00 02 04 56 01 23 00 00 00 04 00 00 00 01 00 00 00 00 00 00 00 76",
    ),
    (
        "SETH answering probe 0xfffe, with a bitmap below cack_psn and a new range of 1024 PSNs",
        Seth(
            cack_psn=0xFFFFFF,
            entropy=0x9000ABCD,
            sack_bitmap=0x8000_0000_0000_0001,
            sack_offset=-3,
            ack_psn_offset=-2,
            advice=PathAdvice.ALWAYS_SKIP,
            is_probe_response=True,
            cc_type=1,
            cc_flags=5,
            mpr=8,
        ),
        "00 42 ff fe 90 00 ab cd 00 00 00 00 00 ff ff ff 15 08 ff fd 80 00 00 00 00 00 00 01",
    ),
    (
        "CC_STATE after ten packets of 2048 bytes",
        CcState(0x1234, out_of_order_count=5, received_units=84),
        "12 34 00 05 00 00 00 54",
    ),
    (
        "CC_STATE with the largest penalty, restored",
        CcState(0, out_of_order_count=0x7FFF, restores_cwnd=True, cwnd_penalty=127, received_units=0xABCDEF),
        "00 00 7f ff ff ab cd ef",
    ),
    (
        "NETH: PSN 5 was trimmed",
        Neth(
            NackReason.TRIMMED,
            nack_psn=5,
            entropy=0x00010002,
            tx_timestamp=0x1234,
            source_qpn_low=0x456,
            destination_qpn_low=0x123,
        ),
        "00 00 01 00 00 01 00 02 04 56 01 23 00 00 00 05 20 00 12 34",
    ),
    (
        "PETH",
        Peth(probe_id=0x42, tx_timestamp=0x1234, source_qpn_low=0x123, destination_qpn_low=0x456),
        "00 00 00 00 00 42 00 00 01 23 04 56 12 34 00 01",
    ),
    (
        "PETH without a timestamp",
        Peth(1, 0, vendor_info=0xAA, is_coarse=True, format_type=FormatType.NONE),
        "00 00 00 aa 00 01 00 00 00 00 00 00 00 00 80 00",
    ),
    (
        "ERTH probing an EV",
        Erth(EndpointOperation.EV_PROBE, 0x1234),
        "00 01 00 00 00 00 00 00 00 00 00 00 12 34 00 01",
    ),
    (
        "ERTH: port 0 of four is down",
        Erth(EndpointOperation.PORT_STATUS_UPDATE, 0x1234, port_status_mask=0x0E),
        "00 00 00 00 00 00 00 0e 00 00 00 00 12 34 00 01",
    ),
    (
        "EETH answering an EV probe",
        Eeth(EndpointOperation.EV_PROBE, 0x1234),
        "00 04 00 00" + " 00" * 24 + " 12 34" + " 00" * 6,
    ),
    (
        "LPH: round 5 on path 3",
        Lph(3, 5, 0x0102030405060708),
        "00 00 00 03 00 00 00 05 01 02 03 04 05 06 07 08",
    ),
]
