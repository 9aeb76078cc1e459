"""The capacity of this machine, by `mrc-testbed doctor --calibrate`, compared with a demand.

A measurement is of one machine and one version of the data plane, and its file of one format; any other does
not count, and is reported.
"""

import json
import logging
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from mrc_testbed.errors import FabricError

ASSUMED_FRAME_HOPS_PER_S: Final = 600_000.0
"""Rate of a shaped lab on two cores, where nothing was measured; see docs/explanation/fidelity.md."""

ASSUMED_MOST_FRAME_HOPS_PER_S: Final = 2_000_000.0
"""With no regard to lateness: more than twice what two cores carried, as here a wrong guess would refuse."""

UNTRUSTED_RUN: Final = "a run is UNTRUSTED"

_FILE: Final = "calibration.json"
_FORMAT: Final = 2
"""Goes up when what a figure means changes: in format 1, which has no number, the most was often too low."""

_CACHE: Final = Path("/var/cache/mrc-testbed")
_CPU_INFO: Final = Path("/proc/cpuinfo")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that a measurement is valid for."""

    cpu: str
    cpu_count: int
    kernel: str
    mrc_testbed: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """The measured capacity of a machine."""

    machine: Machine  # where
    taken: str  # date and time, ISO 8601 in UTC
    frame_hops_per_s: float  # frames that leave ports of a shaped lab per second while 99 of 100 are in time
    # the same with no regard to lateness, by one queue drainer and over veth links
    most_frame_hops_per_s: float
    unshaped_packets_per_s: float  # data packets delivered across T1s, each acknowledged, in an unshaped lab


@dataclass(frozen=True, slots=True)
class _Numbered:
    format: int = 1


_ADAPTER: Final = TypeAdapter(Capacity)
_NUMBERED: Final = TypeAdapter(_Numbered)


def this_machine() -> Machine:
    lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part")))
    return Machine(
        next(names, platform.machine()), os.cpu_count() or 1, platform.release(), version("mrc-testbed")
    )


def calibration_file() -> Path:
    """Where the measurement is kept: /var/cache/mrc-testbed, or the folder MRC_TESTBED_CACHE_DIR."""
    return Path(os.environ.get("MRC_TESTBED_CACHE_DIR") or _CACHE) / _FILE


def known_capacity() -> Capacity | None:
    """The capacity measured on this machine with this version; None if there is none.

    A file that does not count here is logged as a warning, with the reason.
    """
    path = calibration_file()
    try:
        found = _read(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        found = error.strerror or "it cannot be read"
    if isinstance(found, Capacity):
        return found
    logger.warning("%s is passed over: %s; doctor --calibrate recalibrates", path, found)
    return None


def _read(content: bytes) -> Capacity | str:
    """The measurement in a file, or why it does not count here."""
    try:
        number = _NUMBERED.validate_json(content, strict=True).format
        if number != _FORMAT:
            return f"its format is {number}, and {_FORMAT} is read here"
        capacity = _ADAPTER.validate_json(content, strict=True)
    except ValidationError as error:
        return f"it is no measurement: {error.errors()[0]['msg']}"
    here = asdict(this_machine())
    for what, value in asdict(capacity.machine).items():
        if value != here[what]:
            return f"it was measured with {what} {value}, and here it is {here[what]}"
    return capacity


def keep_capacity(capacity: Capacity) -> Path:
    """Writes the measurement down; the file it is in.

    Raises:
        FabricError: the file cannot be written.
    """
    path = calibration_file()
    draft = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"format": _FORMAT, **asdict(capacity)}
        draft.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise FabricError(f"{path} cannot be written: {error.strerror}") from error
    return path


def overload_warning(
    needed_frame_hops_per_s: float, who: str, known: Capacity | None, *, result: str = UNTRUSTED_RUN
) -> str | None:
    """The warning for a shaped lab that needs more than the machine carries in time; None if it can.

    Args:
        needed_frame_hops_per_s: at most, by the ports' rates.
        who: what asks for it, such as "all 8 hosts sending at once".
        known: of this machine; None: nothing was measured.
        result: what comes of it when frames leave late, a clause.
    """
    limit = timely_frame_hops_per_s(known)
    if needed_frame_hops_per_s <= limit:
        return None
    return (
        f"{who} can need {format_frames(needed_frame_hops_per_s)} frame hops/s; this machine carries about"
        f" {format_frames(limit)} ({_origin(known)}). Beyond {limit / needed_frame_hops_per_s:.0%} of that"
        f" load frames leave late and {result}: lower port_rate, or use fewer hosts"
    )


def overload_refusal(
    needed_frame_hops_per_s: float, who: str, known: Capacity | None, *, ease: float = 1.0
) -> str | None:
    """Why no run of who is about to ask that much can be right, however late its frames; None if one can.

    Args:
        needed_frame_hops_per_s: at most, by the ports' rates.
        who: what asks for it, such as "even two hosts".
        known: of this machine; None: nothing was measured.
        ease: how many times as much as the lab that was measured this one can at best carry.
    """
    most = ASSUMED_MOST_FRAME_HOPS_PER_S if known is None else known.most_frame_hops_per_s
    limit = most * ease
    if needed_frame_hops_per_s <= limit:
        return None
    return (
        f"{who} can need {format_frames(needed_frame_hops_per_s)} frame hops/s, and this machine carries"
        f" {format_frames(limit)} at most ({_origin(known)})"
    )


def timely_frame_hops_per_s(known: Capacity | None) -> float:
    """Frames that leave ports of a shaped lab per second and are in time; what is assumed for None."""
    return ASSUMED_FRAME_HOPS_PER_S if known is None else known.frame_hops_per_s


def _origin(known: Capacity | None) -> str:
    return "assumed; doctor --calibrate measures it" if known is None else f"measured {known.taken[:10]}"


def format_frames(count: float) -> str:
    """A count of frames per second for people: 1.25 M, 830 k."""
    return f"{count / 1e6:.2f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"
