"""The end of ranks whose launcher was killed: `python -I -S rank_guard.py`, with its pipe as stdin.

The launcher writes the pid of each rank, one a line; a rank leads a process group. The pipe ends with the
launcher, also by SIGKILL: then the groups of ranks that still run are killed.
"""

import os
import select
import signal
import sys


def guard() -> None:
    """Wait for the end of stdin, and kill what then runs."""
    ranks = {}
    for line in sys.stdin:
        try:
            ranks[int(line)] = os.pidfd_open(int(line))
        except ProcessLookupError:
            continue  # it has ended at once
    for pid, descriptor in ranks.items():
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(0):  # it has not ended: the number is still its own
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    guard()
