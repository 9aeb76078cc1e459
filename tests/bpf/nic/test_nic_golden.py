"""Frames written down by hand from docs/reference/protocol.md, so that NIC and Python cannot be wrong
together.

Host 3 (row 1, downlink 1) and host 4 (row 2, downlink 0) of a fabric with two links per pair of T0 and T1; EV
0x00010007 is plane 0, uplink 1 (T1 0, lane 1), copy 7.
"""

from far_end import FarEnd
from nic_bench import NicBench
from program_bench import Verdict

from mrc_agents.abi import Work

FIRST_PSN = 0xABCD
EV = 0x00010007
REGION_OFFSET = 0x2000

DATA_IN = """
    02 4d 52 00 00 18   02 4d 52 00 00 19   86 dd  ; from the T0, port 25, to the NIC, port 24
    61 20 00 01   00 60   29   3d  ; TRIMMABLE, ECT(0); three hops behind it
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 05  ; host 4, plane 0
    fc bb 00 00   c0 01   00 00 00 00 00 00 00 00 00 00  ; downlink 1 is left of the carrier
    61 20 00 01   00 38   11   40
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 05
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 04  ; host 3, plane 0
    00 07   12 b7   00 38   00 00
    c7   30   ff ff   00   00 04 00   10   00 ab cd  ; WRITE Middle, pad 3, QP 1024, TSETH
    00 00   00 02  ; message 2
    12 34   00 01
    00 00 00 00 00 00 10 00   5e c2 e7 05   00 00 27 10  ; to 0x1000, of a message of 10000 bytes
    68 65 6c 6c 6f   00 00 00  ; hello
    00 00 00 00
"""

SACK_OUT = """
    02 4d 52 00 00 19   02 4d 52 00 00 18   86 dd
    6b 80 00 01   00 64   29   40  ; CONTROL, not ECT
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 04
    fc bb 00 00   40 02   80 01   40 05   c0 00   00 00 00 00  ; T0 row 1, uplink 1, T0 row 2, downlink 0
    6b 80 00 01   00 3c   11   40
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 04
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 05
    00 07   12 b7   00 3c   00 00
    dc   00   ff ff   00   00 be ef   00   00 ab cd
    00 00   00 00   00 01 00 07   04 00   be ef   00   00 ab cd  ; it caused the SACK and is cack_psn itself
    00   00   00 01   00 00 00 00 00 00 00 00
    12 34   00 00   00   00 00 01  ; 96 nominal bytes are one unit
    00 00 00 00
"""

DATA_OUT = """
    02 4d 52 00 00 19   02 4d 52 00 00 18   86 dd
    61 20 00 01   00 60   29   40
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 04
    fc bb 00 00   40 02   80 01   40 05   c0 00   00 00 00 00
    61 20 00 01   00 38   11   40
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 04
    fd 6d 72 63 00 00 00 00   00 00 00 00 00 00 00 05
    00 07   12 b7   00 38   00 00
    ca   30   ff ff   00   00 be ef   10   00 ab cd  ; WRITE Only, pad 3, QP 0xbeef
    00 00   00 00
    tt tt   00 01  ; the clock
    00 00 00 00 00 00 30 00   00 c0 ff ee   00 00 00 05
    77 6f 72 6c 64   00 00 00  ; world
    00 00 00 00
"""


def octets(text: str, clock: bytes = b"") -> bytes:
    """The bytes written in *text*, of each line those before `;`, with *clock* at `tt tt`."""
    lines = [line.partition(";")[0] for line in text.replace("tt tt", clock.hex()).splitlines()]
    return bytes.fromhex("".join(lines))


def test_data_becomes_memory_and_a_sack(nic: NicBench, distant: FarEnd) -> None:
    nic.create_qp(0, distant.attributes(), 0xBEEF, first_psn=FIRST_PSN)
    assert nic.register(0x2705, REGION_OFFSET, 0x10000) == 0x5EC2E705
    outcome = nic.receive(octets(DATA_IN), 0)
    assert (outcome.verdict, outcome.frame) == (Verdict.REDIRECT, octets(SACK_OUT))
    assert bytes(nic.memory[REGION_OFFSET + 0x1000 :][:5]) == b"hello"


def test_work_becomes_data(nic: NicBench, distant: FarEnd) -> None:
    evs = tuple(EV | plane << 28 for plane in range(4))
    attributes = distant.attributes(evs=evs, backup_per_plane=0)
    nic.create_qp(0, attributes, 0xBEEF, first_psn=FIRST_PSN)
    nic.memory[0x500:0x505] = b"world"
    places = {"local_offset": 0x500, "local_slots": 1, "remote_offset": 0x3000, "remote_slots": 1}
    nic.post(Work(id=1, length=5, iterations=1, r_key=0x00C0FFEE, depth=1, **places))
    outcome = nic.kick()
    clock = outcome.frame[118:120]
    assert (outcome.verdict, outcome.frame) == (Verdict.REDIRECT, octets(DATA_OUT, clock))
