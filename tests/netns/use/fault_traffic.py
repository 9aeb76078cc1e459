"""Traffic for faults to act on."""

import time
from collections.abc import Callable
from contextlib import closing

from waiting import DEADLINE_NS

from mrc_testbed.fabric.live import Lab
from mrc_testbed.workloads.connectors import open_mrc
from mrc_testbed.workloads.engine import WorkloadEngine
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.load import Load

SECOND_NS = 10**9


def send(
    live: Lab,
    seconds: float,
    source: str = "h0",
    target: str = "h2",
    meanwhile: Callable[[], None] = lambda: None,
) -> FlowOutcome:
    """Writes from one host to the other for a while; *meanwhile* is called when that has begun."""
    engine = WorkloadEngine(open_mrc(live))
    with closing(engine):
        flows = (Flow("main", source, target, 0),)
        engine.prepare([Load("main", 64 << 10, 4, None, flows)], 1)
        engine.start("main")
        meanwhile()
        engine.wait(time.monotonic_ns() + int(seconds * SECOND_NS))
        engine.stop("main")
        [outcome] = engine.collect(time.monotonic_ns() + DEADLINE_NS)
    return outcome
