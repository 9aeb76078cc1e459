"""The lab a run takes place in: one that is up with the right topology, or one made for the run."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.topology.spec import TopologySpec

logger = logging.getLogger(__name__)


@contextmanager
def lab_for_run(
    topology: TopologySpec,
    *,
    name: str,
    runtime: str | None = None,
    keep: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Lab]:
    """A live lab of that topology; one that was made for the run is removed afterwards.

    Args:
        topology: what the run needs.
        name: of the lab. When a lab of that name is up with another topology, the run gets one of its own.
        runtime: for a lab that is made; None: as `up` chooses.
        keep: leave a lab that was made for the run up.
        progress: hears what is going on.

    Raises:
        TestbedError: the lab could not be made, attached to or removed.
    """
    if name in lab.names() and lab.status(name).spec not in (None, topology):
        own = f"run-{os.getpid()}"
        logger.warning("lab %s is up with another topology: this run gets a lab of its own, %s", name, own)
        name = own
    is_ours = name not in lab.names()
    if is_ours:
        lab.up(topology, name=name, runtime=runtime, progress=lambda step: progress(step.what))
    try:
        with lab.attach(name) as attached:
            yield attached
    finally:
        if is_ours and not keep:
            progress(f"removing lab {name}")
            lab.down(name)
