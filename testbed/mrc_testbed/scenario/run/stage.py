"""The lab a run takes place in: one that is up with the right topology, or one made for the run."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.known_labs import is_claimed_elsewhere, is_in_use, orphans
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import owner_identity
from mrc_testbed.fabric.status import status as lab_status
from mrc_testbed.faults.attendance import require_working
from mrc_testbed.topology.spec import TopologySpec

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

    A lab that was made for a run which was killed is taken over if it bears the name, and removed otherwise.
    One that is half built, and whose builder is gone, is rebuilt.

    Args:
        name: of the lab. When a lab of that name is up with another topology, or of another state folder, the
            run gets one of its own.
        runtime: for a lab that is made; None: as `up` chooses.
        keep: leave a lab that was made for the run up.
    """
    remove_orphans(progress, spared=name)
    is_elsewhere = is_claimed_elsewhere(name)
    if is_elsewhere or (is_in_use(name) and lab_status(name).spec != topology):
        # a run in another PID namespace may have the same number
        names = (f"run-{number}" for number in count(os.getpid()))
        own = next(each for each in names if not (is_in_use(each) or is_claimed_elsewhere(each)))
        why = "of another state folder" if is_elsewhere else "up with another topology"
        logger.warning("lab %s is %s: this run gets a lab of its own, %s", name, why, own)
        name = own
    is_ours = not is_in_use(name)
    if is_ours:
        lab.up(
            topology,
            name=name,
            runtime=runtime,
            reconfigure=True,  # a lab of that name is what a killed run has left
            made_for=None if keep else owner_identity(),
            progress=lambda step: progress(step.what),
        )
    else:
        require_working(name)
    try:
        with lab.attach(name) as attached:
            yield attached
    finally:
        if is_ours and not keep:
            progress(f"removing lab {name}")
            lab.down(name)


def remove_orphans(progress: Callable[[str], None], *, spared: str | None = None) -> None:
    """Removes labs of runs that were killed, but for the one called *spared*."""
    for name in orphans():
        if name == spared:
            continue
        progress(f"removing lab {name}, whose run is gone")
        try:
            lab.down(name)
        except TestbedError as error:
            logger.warning("lab %s, whose run is gone, stays: %s", name, error)
