"""The reference of losses: ranks of a script that gloo connects over the loopback of this machine."""

import json
import os
from collections import defaultdict
from collections.abc import Sequence

from mrc_testbed.fabric.ranks import Rank, free_port, rank_environment, run_ranks


def by_gloo(hosts: Sequence[str], command: Sequence[str]) -> list[str]:
    """Output of the ranks, each line with its rank in front, as `launch` writes it.

    Their status does not count: PyTorch aborts now and then while they end.
    """
    lines: list[str] = []

    def write(rank: Rank, is_error: bool, line: bytes) -> None:
        if not is_error:
            lines.append(f"[{rank.number}] {line.decode()}")

    master = "127.0.0.1", free_port("127.0.0.1")
    base = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        Rank(number, host, tuple(command), rank_environment(hosts, number, master, base))
        for number, host in enumerate(hosts)
    ]
    run_ranks(ranks, write)
    return lines


def losses(lines: Sequence[str]) -> dict[str, list[str]]:
    """Losses of each rank of mrc-torch's example, by step; other lines of `launch` are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        rank, _, text = line.partition(" ")
        if line.startswith("["):
            found[rank].append(json.loads(text)["loss"])
    return found
