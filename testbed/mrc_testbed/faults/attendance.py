"""Attendance of a lab's faults: by a process, and what is done when there is none."""

import contextlib
from collections.abc import Iterator
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FabricError, TestbedError
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import is_alive, is_stopped, kill_processes
from mrc_testbed.fabric.repair import UnderFaults
from mrc_testbed.fabric.status import LabStatus, status
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.effects import CarrierDown, absent_hosts
from mrc_testbed.faults.lab_target import LabTarget
from mrc_testbed.faults.ledger import Entry, FaultPhase, Ledger
from mrc_testbed.faults.reaper import ensure_reaper, reaper_process
from mrc_testbed.shown import format_time

OVERDUE_NS: Final = 250_000_000
"""A fault that is not reverted so long after its end has been forgotten."""


def under_faults(lab: str) -> UnderFaults:
    """The deviations that a lab's faults want; a port counts that flaps, or that a fault is just leaving."""
    entries = Ledger(lab_paths(lab).faults).entries().values()
    acting = (effect for entry in entries if entry.phase is FaultPhase.ON for effect in entry.fault.effects)
    lowered = (each for entry in entries for each in entry.fault.effects if isinstance(each, CarrierDown))
    return UnderFaults(absent_hosts(acting), frozenset(effect.port_id for effect in lowered))


def status_under_faults(lab: str) -> LabStatus:
    """The status of a lab, except what its faults account for."""
    faults = under_faults(lab)
    found = status(lab, faults)
    if not found.is_healthy and (now := under_faults(lab)) != faults:
        found = status(lab, faults | now)  # what was seen may be a fault that has begun since
    return found


def require_working(lab: str) -> None:
    """Returns when packets can pass all of a lab, but for what its faults want so."""
    found = status_under_faults(lab)
    if not found.is_healthy:
        problems = "\n".join(f"- {problem}" for problem in found.problems)
        raise FabricError(
            f"lab {lab!r} does not work:\n{problems}",
            hint=f"repair it: mrc-testbed up -n {lab}; break it on purpose: mrc-testbed fault add",
        )


def attend(lab: str) -> list[str]:
    """One sentence for each fault that outlived its end, having ended it, and for each that might."""
    ledger = Ledger(lab_paths(lab).faults)
    entries = list(ledger.entries().values())
    now_ns = monotonic_ns()
    shown = (each for each in entries if not each.fault.is_hidden)
    problems = [*_unattended(ledger, entries), *(problem for each in shown for problem in _unreached(each))]
    overdue = [entry for entry in entries if _is_overdue(entry, now_ns)]
    if overdue:
        outcome = _end_stale(lab, ledger)
        problems += [f"{_describe_end(entry, now_ns)}; {outcome}" for entry in overdue]
    return problems


def repair_faults(lab: str) -> list[str]:
    """Repair what the faults of a lab need to end on time; returns what was done, in words."""
    ledger = Ledger(lab_paths(lab).faults)
    if not ledger.active_folder.is_dir():
        return []
    done = _end_stopped_reaper(ledger)
    with contextlib.closing(LabTarget(lab)) as target:
        controller = FaultController(ledger, target)
        done += [f"fault {event.fault_id} is ended" for event in controller.clear_stale()]
    return done + _start_reaper(lab, ledger)


def restore_reaper(lab: str) -> list[str]:
    """Start a reaper for the faults of a lab if it lacks one; returns what was done, in words."""
    ledger = Ledger(lab_paths(lab).faults)
    if not _needs_reaper(ledger, list(ledger.entries().values())):
        return []
    return _end_stopped_reaper(ledger) + _start_reaper(lab, ledger)


def _end_stopped_reaper(ledger: Ledger) -> list[str]:
    reaper = reaper_process(ledger)
    if reaper is None or not is_stopped(reaper):
        return []
    kill_processes([reaper])
    return ["the fault reaper was stopped and is replaced"]


def _start_reaper(lab: str, ledger: Ledger) -> list[str]:
    if not _needs_reaper(ledger, list(ledger.entries().values())):
        return []
    done = ["the fault reaper is started"] if reaper_process(ledger) is None else []
    ensure_reaper(lab)
    return done


def _unattended(ledger: Ledger, entries: list[Entry]) -> Iterator[str]:
    if not _needs_reaper(ledger, entries):
        return
    reaper = reaper_process(ledger)
    ids = ", ".join(entry.fault.fault_id for entry in entries if _has_end(entry)) or "of a run"
    if reaper is None:
        yield f"nobody ends faults on time ({ids}): the fault reaper is dead; mrc-testbed restart"
    elif is_stopped(reaper):
        yield f"nobody ends faults on time ({ids}): the fault reaper (pid {reaper.pid}) is stopped"


def _needs_reaper(ledger: Ledger, entries: list[Entry]) -> bool:
    return any(map(is_alive, ledger.leases())) or any(map(_has_end, entries))


def _has_end(entry: Entry) -> bool:
    return entry.schedule.end_ns is not None or entry.lease is not None or entry.phase is FaultPhase.CLEARING


def _unreached(entry: Entry) -> Iterator[str]:
    if entry.unreached and not entry.is_being_changed:
        what = "has not begun" if entry.phase is FaultPhase.ON else "has not ended"
        hosts = ", ".join(entry.unreached)
        yield f"fault {entry.fault.fault_id} {what} at {hosts}, which has not answered; it is asked again"


def _is_overdue(entry: Entry, now_ns: int) -> bool:
    if entry.is_being_changed or entry.unreached:
        return False
    return entry.is_stale(now_ns - OVERDUE_NS)


def _describe_end(entry: Entry, now_ns: int) -> str:
    fault_id = entry.fault.fault_id
    if entry.schedule.end_ns is not None and entry.schedule.is_over(now_ns):
        late = format_time(now_ns - entry.schedule.end_ns)
        return f"fault {fault_id} was overdue by {late}"
    if entry.lease is not None and not is_alive(entry.lease):
        return f"fault {fault_id} has outlived its run (pid {entry.lease.pid})"
    return f"fault {fault_id} was half cleared"


def _end_stale(lab: str, ledger: Ledger) -> str:
    try:
        with contextlib.closing(LabTarget(lab)) as target:
            FaultController(ledger, target).clear_stale()
    except TestbedError as error:
        return f"it cannot be ended: {error.message}"
    return "it is ended now"
