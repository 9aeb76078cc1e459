"""Ten minutes of frames through lines whose links, drainers and thresholds change all the time, byte by byte.

MRC_SOAK_SECONDS in the environment makes it shorter or longer.
"""

import os
import time
from collections.abc import Iterator

from shaped_line import LinkShape, ShapedLine
from soak import Soaked, soak_round

from benchmarks.figure import Figure
from benchmarks.pinger import private_bpffs

SECONDS = 600.0
DRAINERS = 2
SHAPE = LinkShape(200 * 10**6, delay_ns=20_000, data_buffer_bytes=40_000, control_buffer_bytes=10_000)
LINKS = 3
POOL_FRAMES = 512  # it runs empty now and then
TARGETS = {"wrong frames": "0", "frames lost without being counted": "0"}


def soak(seconds: float) -> Soaked:
    """Rounds until the time is over; each ends only when every frame and descriptor is accounted for."""
    total = Soaked()
    with private_bpffs() as bpffs:
        line = ShapedLine(
            f"mrc-soak-{os.getpid()}", [SHAPE] * LINKS, bpffs, pool_frames=POOL_FRAMES, drainer_count=DRAINERS
        )
        try:
            line.start_drainer()
            with line.socket_at(0) as near, line.socket_at(line.port_count - 1) as far:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    soak_round(line, (near, far), total.rounds, total)
        finally:
            line.close()
    return total


def run() -> Iterator[Figure]:
    total = soak(float(os.environ.get("MRC_SOAK_SECONDS", SECONDS)))
    values = {
        "rounds": total.rounds,
        "frames sent": total.sent,
        "frames received": total.received,
        "of them trimmed": total.trimmed,
        "frames dropped and counted": total.dropped,
        "drainers killed": total.kills,
        "frames lost without being counted": total.sent - total.received - total.dropped,
        "wrong frames": total.wrong,
    }
    for name, value in values.items():
        yield Figure("queue_soak", name, "", (float(value),), TARGETS.get(name, ""))
