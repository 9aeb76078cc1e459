"""The real maps of a lab, loaded and pinned as `up` does it, but without nodes; and ways to fill them."""

import ctypes
import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mrc_agents.bpf.libbpf import BpfObject, library, open_pinned, run_once
from mrc_agents.bpf.maps import map_info
from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.fabric import data_plane
from mrc_testbed.fabric.file_systems import prepare_pins, remove_pins
from mrc_testbed.fabric.nic_data_plane import load_nic
from mrc_testbed.fabric.paths import LabPaths, lab_paths
from mrc_testbed.fabric.state import LabState, Phase, RuntimeName, write_state
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

Number = TypeVar("Number", bound=IntEnum)


class HistogramProgram:
    """Runs mrc_agents/include/mrc/histogram.h in the kernel."""

    def __init__(self, loaded: BpfObject) -> None:
        self._loaded = loaded
        self._program_fd = loaded.program_fd("add_time")

    @property
    def map_fd(self) -> int:
        return self._loaded.map_fd("times")

    def add(self, value_ns: int, key: int = 0) -> int:
        """The bucket's index, after the time was added to histogram *key*."""
        frame = struct.pack("=QI", value_ns, key).ljust(64, b"\0")
        return run_once(self._program_fd, frame)[0]


class MapsOnly(BpfObject):
    """An object of which only the maps are made: the verifier takes a second for the programs of a lab, and
    nobody runs them here. The smallest one stands for each.
    """

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options | {"programs": ()})

    def program_fd(self, name: str) -> int:  # noqa: ARG002 - as in the base class
        return _smallest_program().program_fd("load")


@cache
def _smallest_program() -> BpfObject:
    return BpfObject(OBJECTS_DIR / "load.bpf.o")


@dataclass
class PinnedLab:
    """A lab of which only the maps exist."""

    paths: LabPaths
    clos: Clos

    def bring_up(self) -> None:
        """Loads, fills and pins the maps, and says that the lab is up."""
        self.paths.folder.mkdir(parents=True)
        prepare_pins(self.paths)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(data_plane, "BpfObject", MapsOnly)
            with data_plane.SwitchDataPlane(self.paths, self.clos) as switch:
                switch.fill(self.clos)
                switch.pin(self.paths)
                for host in self.clos.hosts():
                    load_nic(self.paths, self.clos, host.name, switch.shared_maps())
        self.write_phase(Phase.UP)

    def write_phase(self, phase: Phase) -> None:
        write_state(
            self.paths,
            LabState(
                name=self.paths.lab, runtime=RuntimeName.NETNS, phase=phase, version="0", spec=self.clos.spec
            ),
        )

    def take_down(self) -> None:
        if not self.paths.folder.exists():
            return
        remove_pins(self.paths)
        shutil.rmtree(self.paths.folder)


@contextmanager
def lab_up(name: str, spec: TopologySpec) -> Iterator[PinnedLab]:
    """A lab of that name that is up."""
    lab = PinnedLab(lab_paths(name), Clos(spec))
    try:
        lab.bring_up()
        yield lab
    finally:
        lab.take_down()


def write_per_cpu(
    pin: Path, value_type: type[ctypes.Structure], key: int, values: Mapping[Number, list[int]]
) -> None:
    """Stores 64-bit numbers in one element of a pinned per-CPU map.

    Args:
        pin: the map.
        value_type: its values' layout, 64-bit numbers only.
        key: the element.
        values: index of the number -> its value on CPU 0, 1, ...; all others become 0.
    """
    cpus = int(library().libbpf_num_possible_cpus())
    count = ctypes.sizeof(value_type) // 8
    element = (ctypes.c_uint64 * (count * cpus))()
    for index, by_cpu in values.items():
        for cpu, value in enumerate(by_cpu):
            element[cpu % cpus * count + index] += value
    with opened(pin) as descriptor:
        code = library().bpf_map_update_elem(
            descriptor, ctypes.byref(ctypes.c_uint32(key)), ctypes.byref(element), 0
        )
    assert code == 0


@contextmanager
def opened(pin: Path) -> Iterator[int]:
    """Descriptor of a pinned map."""
    descriptor = open_pinned(pin)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def filling(twin_object: Path, pin: Path) -> Iterator[HistogramProgram]:
    """The program that adds times, on a pinned histogram map."""
    with opened(pin) as descriptor:
        entries = map_info(descriptor).max_entries
        with BpfObject(twin_object, max_entries={"times": entries}, reuse={"times": descriptor}) as loaded:
            yield HistogramProgram(loaded)
