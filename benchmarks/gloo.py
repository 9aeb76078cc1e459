"""The reference of losses: ranks of a script that gloo connects over the loopback of this machine."""

import json
import os
from collections import defaultdict
from collections.abc import Sequence

from mrc_testbed.fabric.ranks import Rank, RunningRanks, free_port, rank_environment


def by_gloo(hosts: Sequence[str], command: Sequence[str], steps: int) -> list[str]:
    """Output of the ranks, each line with its rank in front, as `launch` writes it.

    How they end does not count: PyTorch aborts now and then, or waits for ever, as the destructor of gloo's
    process group joins a thread that needs the lock of the interpreter that the destructor holds.

    Args:
        hosts: one for each rank.
        command: of each rank, which prints a line per step.
        steps: after which ranks are ended.
    """
    lines: list[str] = []
    left = {number: steps for number, _ in enumerate(hosts)}

    def write(rank: Rank, is_error: bool, line: bytes) -> None:
        if not is_error and left[rank.number]:
            left[rank.number] -= 1
            lines.append(f"[{rank.number}] {line.decode()}")

    master = "127.0.0.1", free_port("127.0.0.1")
    base = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        Rank(number, host, tuple(command), rank_environment(hosts, number, master, base))
        for number, host in enumerate(hosts)
    ]
    with RunningRanks(write) as running:
        running.start(ranks)
        while any(left.values()) and not running.is_over:
            running.serve(None)
    return lines


def losses(lines: Sequence[str]) -> dict[str, list[str]]:
    """Losses of each rank of mrc-torch's example, by step; other lines of `launch` are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        rank, _, text = line.partition(" ")
        if line.startswith("["):
            found[rank].append(json.loads(text)["loss"])
    return found
