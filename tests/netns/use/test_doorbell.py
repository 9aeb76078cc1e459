"""The doorbell of a host: an interface by which programs give the NIC frames."""

from pathlib import Path
from typing import Final

import pytest
from rdma_program import NOBODY, finish, said_by_both, start

from mrc_agents.abi import DoorbellFormat, Limit
from mrc_testbed.fabric.doorbell import DOORBELL
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.rdma import RdmaTransport

ITERATIONS: Final = "200"
LATENCY: Final = ("ib_write_lat", "-d", "mrc0", "-s", "2", "-n", ITERATIONS)

RANDOM_FRAMES: Final = 200
RING: Final = f"""
import fcntl, os, random, struct
doorbell = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
fcntl.ioctl(doorbell, 0x400454CA, struct.pack("=16sH22x", b"{DOORBELL}", 0x1102))
choice = random.Random(5)
for magic in (None, {DoorbellFormat.MAGIC}, {DoorbellFormat.RC_MAGIC}):
    for _ in range({RANDOM_FRAMES}):
        frame = choice.randbytes(choice.randrange(14, {Limit.FRAME_BYTES_MAX}))
        os.write(doorbell, frame if magic is None else struct.pack("=I", magic) + frame)
"""
"""Random frames, and doorbells of QPs that there are not."""


def hang(live: Lab) -> None:
    """Any program gives its host a doorbell."""
    assert finish(start(live, "h0", "true"))[0] == 0


def frames(live: Lab, host: str) -> tuple[int, int]:
    """Frames from the doorbell: those that became packets, those that found none to send."""
    with entered(live.namespace(host)):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    (counts,) = (line.split()[1:] for line in lines if line.split()[0] == f"{DOORBELL}:")
    return int(counts[1]), int(counts[3])


@pytest.mark.parametrize("transport", [each.value for each in RdmaTransport])
def test_small_messages_of_nobody_leave_by_the_doorbell(live: Lab, transport: str) -> None:
    hang(live)
    before = frames(live, "h0")
    said_by_both(live, *LATENCY, transport=transport)
    sent, dropped = (now - then for then, now in zip(before, frames(live, "h0"), strict=True))
    assert sent + dropped >= int(ITERATIONS)
    assert sent > 9 * dropped  # an ACK between a message and its frame sends the message


def test_frames_that_request_nothing_do_nothing(live: Lab) -> None:
    hang(live)
    sent, dropped = frames(live, "h0")
    before = live.agent("h0").counters()
    status, _, complained = finish(start(live, "h0", *NOBODY, "python3", "-c", RING))
    assert status == 0, complained
    after = live.agent("h0").counters()
    assert [after[name] - before[name] for name in ("tx_data", "kick_packets")] == [0, 0]
    assert frames(live, "h0") == (sent, dropped + 3 * RANDOM_FRAMES)
