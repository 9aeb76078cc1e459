"""The preload of Dask's scheduler and workers: versions, abilities of a machine, processes for runs."""

import platform
import sys
from importlib.metadata import version
from typing import Any, Final

from mrc_testbed.cluster.worker import RunPlugin
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.preflight import doctor_checks, virtual_time_check
from mrc_testbed.scenario.measure.provenance import cpu_model

with from_extra("cluster"):
    import dask
    from distributed import Scheduler, Worker

# the nanny imports this too, and starts a worker that may have children: the processes of runs
dask.config.set({"distributed.worker.daemon": False})

VERSION: Final = "mrc_testbed_version"
"""Handler of the scheduler: version of mrc-testbed."""

MACHINES: Final = "mrc_testbed_machines"
"""Handler of the scheduler: name of each worker -> its facts, and resource -> number of runs."""

FACTS: Final = "mrc_testbed"
"""Key of a worker's startup information: CPU and kernel."""

RESOURCES: Final = ("virtual", "lab")
"""Runs in virtual time, and runs on a lab, that a worker carries out at a time."""


async def dask_setup(server: Scheduler | Worker) -> None:
    """Prepare a scheduler or worker before it takes part; a worker that cannot take part ends its process."""
    if isinstance(server, Scheduler):
        _prepare_scheduler(server)
        return
    reason = await _refusal(server) or _equip(server)
    if reason:
        sys.stderr.write(f"{server.name}: {reason}\n")
        sys.exit(3)  # Dask logs any other exception, and goes on without its preload
    await server.plugin_add(RunPlugin(server.state.nthreads), catch_errors=False)


def _prepare_scheduler(scheduler: Scheduler) -> None:
    async def say_version() -> str:
        return version("mrc-testbed")

    async def list_machines() -> dict[str, dict[str, Any]]:
        return {
            str(worker.name): worker.extra[FACTS]
            | {name: worker.resources.get(name, 0) for name in RESOURCES}
            for worker in scheduler.workers.values()
            if FACTS in worker.extra
        }

    scheduler.handlers |= {VERSION: say_version, MACHINES: list_machines}


async def _refusal(worker: Worker) -> str:
    """Reason why a worker cannot work for its scheduler; empty for none."""
    scheduler, own = worker.scheduler.address, version("mrc-testbed")
    found = await getattr(worker.scheduler, VERSION)()
    if found is None:  # how Dask replies to what it does not know
        return f"the scheduler {scheduler} was started without --preload mrc_testbed.cluster"
    if found != own:
        return f"this is mrc-testbed {own}, and the scheduler {scheduler} has {found}: install the same"
    return ""


def _equip(worker: Worker) -> str:
    """Register what this machine is and can do; return why it can do nothing, empty if it can."""
    checks = doctor_checks()
    virtual = virtual_time_check()
    unmet = [each for each in checks if not each.is_met and not each.is_optional]
    able = {"virtual": worker.state.nthreads if virtual.is_met else 0, "lab": 0 if unmet else 1}
    for each in (*unmet, *(() if virtual.is_met else (virtual,))):
        sys.stderr.write(f"{worker.name}: {each.what}: {each.found}; {each.fix}\n")
    if not any(able.values()):
        return "this machine can run neither a lab nor virtual time"
    wanted = worker.state.total_resources  # --resources of its command line
    for name in RESOURCES:
        number = min(able[name], wanted.get(name, able[name]))
        worker.state.total_resources[name] = worker.state.available_resources[name] = number
    facts = {"cpu": cpu_model(), "kernel": platform.release()}
    worker.startup_information[FACTS] = lambda _: facts
    return ""
