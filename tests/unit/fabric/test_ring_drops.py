"""The drops of receive rings in /proc/net/dev."""

from mrc_testbed.fabric.doorbell import parse_dropped

DEVICES = (
    "Inter-|   Receive                      |  Transmit\n"
    " face |bytes packets errs drop fifo ...|bytes packets errs drop ...\n"
    "    lo:       0       0    0    9    0     0          0         0        0       0    0    0\n"
    "plane0: 2298342    1046    0   17    0     0          0         0   161084    1046    0    5\n"
    " down3:       1       1    0    4    0     0          0         0        0       0    0    0\n"
    "doorbell:     0       0    0    8    0     0          0         0        0       0    0    0\n"
)


def test_frames_dropped_on_receipt_are_added_up() -> None:
    assert parse_dropped(DEVICES) == 30
