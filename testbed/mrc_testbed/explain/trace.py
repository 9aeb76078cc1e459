"""The trace of a run that is repeated in virtual time: which part is recorded; records by QP and packet.

A plan, its seed and this version give the same run to the byte, so nothing of it has to be kept. Who looks
sets an alarm of the lab, or has the library write a trace.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mrc_agents.abi import TraceKind, TraceRecord, TraceSelection
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.measure.recording import Journal, Recording
from mrc_testbed.scenario.run.runner import Runner
from mrc_testbed.scenario.run.signal_clock import NO_DESCRIPTOR, SignalClock
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.virtual.lab import VirtualLab
from mrc_testbed.virtual.world import planned_lab, world_in

Records = NDArray[Any]
"""An array with the fields of a TraceRecord."""

QpPlace = tuple[int, int]
"""Host index and QP index."""

RECORDS_MAX: Final = 1 << 24
"""A gigabyte; a trace that is longer is of no one operation."""

EVER_NS: Final = (1 << 63) - 1
_ANYWHERE: Final = 0xFFFF_FFFF
PSN_MASK: Final = (1 << 24) - 1

_ACKS: Final = {0x01: "CNP", 0x11: "ACK", 0x1C: "SACK", 0x1D: "NACK"}
_PROBES: Final = {0x00: "LINK PROBE", 0x18: "ENDPOINT", 0x19: "ENDPOINT", 0x1E: "PROBE"}
_PACKETS: Final = dict.fromkeys(range(0x06, 0x0C), "WRITE") | _ACKS | _PROBES
"""By the operation of an opcode, its low five bits."""


def packet_name(opcode: int) -> str:
    """Name of a packet, the same for MRC and reliable connections."""
    return _PACKETS.get(opcode & 0x1F, f"{opcode:#04x}")


class Tracer:
    """Has a lab record a part of its run.

    Args:
        windows: by QP, times whose frames and events are wanted; None: those of all QPs.
        port_id: only frames there; None: anywhere.
    """

    def __init__(
        self,
        kinds: Iterable[TraceKind],
        from_ns: int = 0,
        until_ns: int = EVER_NS,
        *,
        windows: Mapping[QpPlace, Sequence[tuple[int, int]]] | None = None,
        port_id: int | None = None,
    ) -> None:
        self._selection = TraceSelection(from_ns, until_ns, records_max=RECORDS_MAX)
        self._selection.kinds = sum(1 << kind for kind in kinds)
        self._selection.port = _ANYWHERE if port_id is None else port_id
        self._windows = windows
        self._kept: list[Records] = []  # the library has their addresses alone
        self._lab: VirtualLab | None = None
        self.records: Records = np.zeros(0, np.dtype(TraceRecord))  # once they were taken

    def begin(self, lab: VirtualLab) -> None:
        self._lab, selection = lab, self._selection
        if self._windows is not None:
            qps = lab.runtime.map("qps", 0).count
            counts = np.zeros(lab.clos.numbering.host_count * qps + 1, np.uint32)
            ordered = sorted(self._windows.items())
            for (host, qp), windows in ordered:
                counts[host * qps + qp + 1] = len(windows)
            first = np.cumsum(counts, dtype=np.uint32)
            pairs = np.array([each for _, windows in ordered for each in windows], np.uint64)
            self._kept = [first, pairs]
            selection.window_first, selection.windows = first.ctypes.data, pairs.ctypes.data
        lab.runtime.trace(selection)

    def take(self, *_: object) -> None:
        """Take what was recorded, while there is the lab."""
        if self._lab is None:
            raise ValueError("not begun")
        records = self._lab.runtime.traced()
        if len(records) >= RECORDS_MAX:
            raise UsageError(f"the trace has {RECORDS_MAX} records", hint="choose a shorter operation")
        self.records = np.frombuffer(bytes(records), self.records.dtype)


class Index:
    """Records of some kinds, to be found by QP, or by QP and PSN; each in the order of their times."""

    def __init__(self, records: Records, *kinds: TraceKind, by_psn: bool = True) -> None:
        chosen = records[np.isin(records["kind"], kinds)]
        psn = chosen["psn"] & PSN_MASK if by_psn else np.zeros(len(chosen), np.uint32)
        keys = _key(chosen["host"].astype(np.uint64), chosen["qp"], psn)
        order = np.lexsort((chosen["time_ns"], keys))
        self._keys, self._records = keys[order], chosen[order]

    def of(self, place: QpPlace, psn: int = 0) -> Records:
        """Those of a QP and, by PSN, of its low 24 bits."""
        key = np.uint64(_key(*place, psn & PSN_MASK))
        return self._records[np.searchsorted(self._keys, key) : np.searchsorted(self._keys, key, "right")]


def _key(host: Any, qp: Any, psn: Any) -> Any:
    return host << 40 | qp << 24 | psn


Look = Callable[[VirtualLab, Recording], object]


class _Alarm:
    """Has somebody look at the lab at a time, and ends the run."""

    def __init__(self, lab: VirtualLab, recording: Recording, machine: SignalClock, look: Look) -> None:
        self._lab, self._recording, self._machine, self._look = lab, recording, machine, look
        self.has_looked = False

    def on_time(self) -> None:
        if not self.has_looked:
            self.has_looked = True
            self._look(self._lab, self._recording)
            self._machine.interrupt("the moment")


def repeat(
    plan: Plan, begin: Callable[[VirtualLab], object], look: Look, until_ns: int | None = None
) -> Recording:
    """The recording of a run that was repeated, as a whole or up to a time.

    Args:
        begin: called before anything happens.
        look: called once: at that time, after all events that are due then, or when the run is over.
        until_ns: lab time at which the run ends; None: it takes place as a whole.
    """
    machine = SignalClock(NO_DESCRIPTOR)
    with planned_lab(plan, machine) as lab:
        begin(lab)
        with world_in(lab, plan, machine) as world:
            runner = Runner(plan, world, Journal(), lambda _: None)
            alarm = _Alarm(lab, runner.recording, machine, look)
            lab.set_alarm(alarm, until_ns)
            runner.run()
            alarm.on_time()
            return runner.recording
