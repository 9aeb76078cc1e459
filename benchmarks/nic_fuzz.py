"""A million damaged and random frames at a NIC: no wrong write, no stuck QP, every drop counted by reason.

Each process has a NIC of its own and a QP that sends and receives; a reference judges every frame by itself,
from its bytes, and all of the NIC's memory is compared every hundred frames. The first frame that does what
it may not ends the benchmark with an error. MRC_FUZZ_FRAMES sets another number of frames.
"""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random

from far_end import FarEnd
from fuzzed_qp import FuzzedQp
from nic_bench import NicBench

from benchmarks.figure import Figure
from mrc_agents.abi import NicCounter
from mrc_agents.nic.work_queue import QPN_MIN
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

FRAMES = 1_000_000
COMPARE_EVERY = 100
ALIVE_EVERY = 20_000
FABRIC = resolve_topology(TopologySpec(planes=4, t0=3, t1=2, hosts_per_t0=2, uplinks_per_pair=2))
HOST, PEER = 3, 4


def run() -> Iterator[Figure]:
    frames = int(os.environ.get("MRC_FUZZ_FRAMES", FRAMES))
    workers = os.cpu_count() or 1
    share = -(-frames // workers)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        counters = sum(pool.map(_fuzz, range(workers), [share] * workers), Counter[str]())
    yield Figure(
        "nic_fuzz", "frames, each judged right", "frame", (counters.pop("judged"),), f">= {frames:,}"
    )
    yield Figure(
        "nic_fuzz", "times the QP was brought to complete new work", "times", (counters.pop("alive"),)
    )
    for name, count in sorted(counters.items()):
        yield Figure("nic_fuzz", name, "frame", (count,))


def _fuzz(seed: int, frames: int) -> "Counter[str]":
    """Count of the NIC's outcomes; raises AssertionError with the frame that broke a rule."""
    random = Random(seed)
    alive = 0
    with NicBench(FABRIC, HOST) as nic:
        before = nic.counters()
        qp = FuzzedQp(nic, FarEnd(FABRIC, HOST, PEER, qpn=QPN_MIN), random, compare_every=COMPARE_EVERY)
        for number in range(1, frames + 1):
            plane = random.randrange(FABRIC.spec.planes)
            frame = qp.damaged(qp.good_frame(plane))
            qp.judge(frame, plane if random.randrange(20) else random.randrange(FABRIC.spec.planes))
            if number % ALIVE_EVERY == 0 or number == frames:
                qp.check_alive()
                qp.renew()
                alive += 1
        grown = {counter: value - before[counter] for counter, value in nic.counters().items()}
    shown = {counter.name.lower(): count for counter, count in grown.items() if _is_shown(counter) and count}
    return Counter(shown | {"alive": alive, "judged": qp.frames})


def _is_shown(counter: NicCounter) -> bool:
    return counter.name.startswith(("DROP_", "RX_")) and counter is not NicCounter.RX_PLACED_BYTES
