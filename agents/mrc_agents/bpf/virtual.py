"""The programs and maps of virtual time: a library of this process in the place of the kernel.

The classes of `mrc_agents.bpf.maps` take a `VirtualMap` where they take a descriptor, and `run_live`
a `VirtualProgram`; a `VirtualFolder` stands for a folder of pins. One lab at a time, and one thread: maps and
time are the library's globals. What a closed lab has given out must not be touched any more.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import POINTER, Array, addressof, byref, c_char, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from ctypes import Structure as CStructure
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from mrc_agents.abi import (
    Event,
    FoundMap,
    MessageSchedule,
    TraceRecord,
    TraceSelection,
    VirtualLabParts,
    VirtualPayload,
    VirtualReport,
    VirtualSums,
    VirtualTotals,
)
from mrc_agents.errors import PreflightError
from mrc_agents.objects import OBJECTS_DIR, how_to_build

LIBRARY: Final = OBJECTS_DIR / "libmrc_virtual.so"
NO_NIC: Final = 0xFFFF_FFFF
_TIMER: Final = "timer"


class VirtualMap:
    """A map of the lab; `info` is what the kernel says about one."""

    def __init__(self, name: str, found: FoundMap) -> None:
        self.name = name
        self.type = found.type
        self.value_bytes = found.value_bytes
        self.count = found.count
        self._address = found.address
        self._stride = found.stride

    @cached_property
    def memory(self) -> Array[c_char]:
        """All elements, each in a multiple of 8 bytes."""
        return (c_char * (self.count * self._stride)).from_address(self._address)

    def read(self, index: int, into_address: int) -> bool:
        """Copies an element; whether there is one of that index."""
        if not 0 <= index < self.count:
            return False
        ctypes.memmove(into_address, self._address + index * self._stride, self.value_bytes)
        return True

    def address_of(self, index: int) -> int | None:
        """Address of an element; None if there is none of that index."""
        return self._address + index * self._stride if 0 <= index < self.count else None

    def write(self, index: int, value: CStructure | c_uint32) -> bool:
        """Stores an element but for its timer, which belongs to the data plane; whether there is one."""
        if not 0 <= index < self.count:
            return False
        to = self._address + index * self._stride
        timer = getattr(type(value), _TIMER, None)
        if timer is None:
            ctypes.memmove(to, byref(value), self.value_bytes)
        else:
            after = timer.offset + timer.size
            ctypes.memmove(to, byref(value), timer.offset)
            ctypes.memmove(to + after, byref(value, after), self.value_bytes - after)
        return True


class VirtualProgram:
    """The program of one NIC, for transmit buffers from its agent."""

    def __init__(self, library: ctypes.CDLL, nic: int) -> None:
        self._library = library
        self._nic = nic

    def run(self, frames: int) -> None:
        """Runs it on so many live frames."""
        self._library.mrc_virtual_run_nic(self._nic, frames)


class VirtualFolder:
    """Where maps and programs of a lab are found by name; `folder / host` has those of a host's NIC."""

    def __init__(self, runtime: "VirtualRuntime", nic_of: Mapping[str, int], nic: int = NO_NIC) -> None:
        self.runtime = runtime  # the lab
        self._nic_of = nic_of
        self._nic = nic

    def __truediv__(self, host: str) -> "VirtualFolder":
        return VirtualFolder(self.runtime, self._nic_of, self._nic_of[host])

    def map_fd(self, name: str) -> VirtualMap:
        """A map of the fabric, or of the NIC: what the classes of maps take for a descriptor."""
        return self.runtime.map(name, self._nic)

    def program(self) -> VirtualProgram:
        return self.runtime.program(self._nic)


class VirtualRuntime:
    """The library, and the one lab that it holds.

    Args:
        path: of the library; None: where `make virtual` puts it.
    """

    def __init__(self, path: Path | None = None) -> None:
        try:
            self._library = _declared(ctypes.CDLL(str(path or LIBRARY), use_errno=True))
        except OSError as error:
            raise PreflightError(
                f"the library of virtual time: {error}", hint=how_to_build("virtual")
            ) from error

    def begin(
        self,
        entries: Mapping[str, int],
        config: bytes,
        nic_of_port: Sequence[int],
        *,
        seed: int,
        payload: VirtualPayload,
        shuffles_ties: bool = False,
    ) -> Self:
        """Makes a lab whose maps are zeroed; its time is 1 ns.

        Args:
            entries: elements of maps; those not named have as many as declared.
            config: a FabricConfig.
            nic_of_port: by port id; NO_NIC for a switch's.
        """
        for name, count in entries.items():
            if self._library.mrc_virtual_set_entries(name.encode(), count):
                raise KeyError(name)
        nics = (c_uint32 * len(nic_of_port))(*nic_of_port)
        kept = ctypes.create_string_buffer(config, len(config))
        lab = VirtualLabParts(
            config=addressof(kept),
            config_bytes=len(config),
            nic_of_port=addressof(nics),
            port_count=len(nic_of_port),
            nic_count=1 + max((nic for nic in nic_of_port if nic != NO_NIC), default=-1),
            seed=seed,
            payload=payload,
            shuffles_ties=shuffles_ties,
        )
        if self._library.mrc_virtual_begin(byref(lab)):
            reason = os.strerror(ctypes.get_errno())
            raise PreflightError(f"memory of the lab: {reason}", hint="make the lab or nic.memory smaller")
        return self

    def end(self) -> None:
        """Free the lab's memory."""
        self._library.mrc_virtual_end()

    def map(self, name: str, nic: int = NO_NIC) -> VirtualMap:
        found = FoundMap()
        if self._library.mrc_virtual_find_map(name.encode(), nic, byref(found)):
            raise KeyError(name)
        return VirtualMap(name, found)

    def program(self, nic: int) -> VirtualProgram:
        return VirtualProgram(self._library, nic)

    def now_ns(self) -> int:
        return int(self._library.mrc_virtual_now())

    def run(self, until_ns: int, events_max: int) -> int:
        """The time after running until then, until a NIC reports, or for so many events."""
        return int(self._library.mrc_virtual_run(until_ns, events_max))

    def load(self, port_id: int, frame: bytes) -> None:
        """Lets a frame of background traffic enter the queue of a port."""
        self._library.mrc_virtual_load(port_id, frame, len(frame))

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Lets frames cross the link of a port, or be lost there."""
        self._library.mrc_virtual_set_carrier(port_id, is_up)

    def attend(self, nic: int, *, is_attended: bool) -> None:
        """Set whether QPs of a NIC get frames at once when they request them; else requests are reports."""
        self._library.mrc_virtual_attend(nic, is_attended)

    def take_reports(self) -> list[tuple[int, Event]]:
        """(NIC, event) of all that NICs have reported since the last call, oldest first."""
        count = c_uint32()
        first = self._library.mrc_virtual_reports(byref(count))
        reports = [(first[i].nic, Event.from_buffer_copy(first[i].event)) for i in range(count.value)]
        self._library.mrc_virtual_take_reports()
        return reports

    def empty_ring(self, nic: int) -> None:
        """Somebody has read what a NIC reported while nobody attended it."""
        self._library.mrc_virtual_empty_ring(nic)

    def begin_operation(self, schedule: MessageSchedule) -> None:
        """Post the messages of a schedule that wait for nothing; it stays where it is, with its arrays."""
        self._library.mrc_virtual_begin_operation(byref(schedule))

    def take_arrival(self, schedule: MessageSchedule, transfer: int) -> None:
        """Reduce a message whose arrival was reported, and post those that wait for it."""
        self._library.mrc_virtual_take_arrival(byref(schedule), transfer)

    def expect(self, schedule: MessageSchedule, *, is_expected: bool) -> None:
        """Take arrivals of a schedule's messages here, or leave them to Python again."""
        self._library.mrc_virtual_expect(byref(schedule), is_expected)

    def read(self, sums: VirtualSums) -> None:
        """Fill in the counts of all NICs together."""
        self._library.mrc_virtual_read(byref(sums))

    def trace(self, selection: TraceSelection | None) -> None:
        """Record what a selection names from now on, in place of what was recorded before; None: nothing."""
        self._library.mrc_virtual_trace(None if selection is None else byref(selection))

    def traced(self) -> Array[TraceRecord]:
        """The records so far, as long as nothing runs."""
        count = c_uint64()
        first = self._library.mrc_virtual_traced(byref(count))
        return (
            (TraceRecord * count.value).from_address(addressof(first.contents))
            if first
            else (TraceRecord * 0)()
        )

    def totals(self) -> VirtualTotals:
        totals = VirtualTotals()
        self._library.mrc_virtual_read_totals(byref(totals))
        return totals


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library with the types of api.h."""
    signatures: dict[str, tuple[object, ...]] = {
        "set_entries": (c_int, c_char_p, c_uint32),
        "begin": (c_int, POINTER(VirtualLabParts)),
        "end": (None,),
        "find_map": (c_int, c_char_p, c_uint32, POINTER(FoundMap)),
        "now": (c_uint64,),
        "run": (c_uint64, c_uint64, c_uint64),
        "run_nic": (None, c_uint32, c_uint32),
        "load": (None, c_uint32, c_char_p, c_uint32),
        "set_carrier": (None, c_uint32, c_int),
        "attend": (None, c_uint32, c_int),
        "reports": (POINTER(VirtualReport), c_void_p),
        "take_reports": (None,),
        "empty_ring": (None, c_uint32),
        "begin_operation": (None, POINTER(MessageSchedule)),
        "take_arrival": (None, POINTER(MessageSchedule), c_uint32),
        "expect": (None, POINTER(MessageSchedule), c_int),
        "trace": (None, POINTER(TraceSelection)),
        "traced": (POINTER(TraceRecord), c_void_p),
        "read": (None, POINTER(VirtualSums)),
        "read_totals": (None, POINTER(VirtualTotals)),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"mrc_virtual_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
