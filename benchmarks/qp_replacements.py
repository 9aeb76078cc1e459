"""Ten thousand QPs, each in the place of another: no byte of an old one under a completion of a new one.

Two NICs with their agents' verbs; the fabric between them delays, duplicates and replays frames over the life
of many QPs of both transports, and agents die with QPs in use. All bytes are compared when a
message completes, and again when further frames have come. MRC_QP_REPLACEMENTS sets another number of QPs.
"""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from random import Random

from two_nics import Replacement, TwoNics

from benchmarks.figure import Figure
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

LIVES = 10_000
FABRIC = resolve_topology(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1))


def run() -> Iterator[Figure]:
    workers = os.cpu_count() or 1
    share = -(-int(os.environ.get("MRC_QP_REPLACEMENTS", LIVES)) // workers)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        account = sum(pool.map(_replace, range(workers), [share] * workers), Counter[str]())
    for name, unit, goal in (
        ("wrong_bytes", "byte", "0"),
        ("failed", "message", "0"),
        ("lives", "QP pair", f">= {share * workers:,}"),
        ("completed", "message", ""),
        ("abandoned", "QP pair", ""),
        ("restarts", "agent", ""),
    ):
        yield Figure("qp_replacements", name.replace("_", " "), unit, (account[name],), goal)


def _replace(seed: int, lives: int) -> "Counter[str]":
    with TwoNics(FABRIC, (0, 1), Random(seed)) as nics:
        replacement = Replacement(nics)
        for _ in range(lives):
            replacement.live()
    return Counter(asdict(replacement.account))
