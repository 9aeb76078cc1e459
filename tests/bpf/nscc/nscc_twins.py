"""NSCC in C, twice: in the kernel under BPF_PROG_TEST_RUN, and as a shared library."""

import ctypes
from collections.abc import Mapping
from ctypes import Structure, byref, c_uint32, sizeof
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TypeAlias

from reference.congestion import Congestion

from mrc_agents.bpf.libbpf import BpfObject, library, run_once
from mrc_agents.protocol.cc_profile import CcParameters


def state_fields(congestion: Congestion) -> dict[str, int]:
    """The reference's state as struct mrc_cc and the algorithm's own have it."""
    return {name: int(value) for name, value in asdict(congestion).items() if name != "parameters"}


def read_fields(value: Structure, own: type[Structure]) -> dict[str, int]:
    """All members of a struct mrc_cc but padding, those of the algorithm among them."""
    parts = (value, own.from_buffer_copy(bytes(value.own)[: sizeof(own)]))
    names = ((part, name) for part in parts for name, *_ in part._fields_)
    return {name: getattr(part, name) for part, name in names if name != "own" and "pad" not in name}


class LibraryTwin:
    """The shared library."""

    def __init__(self, library_path: Path, types: SimpleNamespace) -> None:
        self._types = types
        self._step = ctypes.CDLL(str(library_path)).step
        self._step.restype = c_uint32
        self._cc = types.Cc()
        self._parameters = types.CcParameterStruct()

    def begin(self, parameters: CcParameters) -> None:
        self._cc = self._types.Cc()
        self._parameters = self._types.CcParameterStruct(**asdict(parameters))
        self.step({"kind": self._types.StepKind.START})

    def step(self, event: Mapping[str, int]) -> int:
        return int(self._step(byref(self._cc), byref(self._parameters), byref(self._types.Step(**event))))

    def state(self) -> dict[str, int]:
        return read_fields(self._cc, self._types.Nscc)


class KernelTwin:
    """The XDP program, its state in a map under a spin lock; `own` is what the algorithm keeps."""

    def __init__(self, program: BpfObject, types: SimpleNamespace, own: type[Structure]) -> None:
        self._types = types
        self._own = own
        self._program_fd = program.program_fd("step")
        self._map_fd = program.map_fd("states")

        class Locked(Structure):
            _fields_ = (
                ("lock", c_uint32),
                ("pad0", c_uint32),
                ("cc", types.Cc),
                ("parameters", types.CcParameterStruct),
                ("pad1", c_uint32),
            )

        self._locked = Locked

    def begin(self, parameters: CcParameters) -> None:
        value = self._locked(parameters=self._types.CcParameterStruct(**asdict(parameters)))
        assert library().bpf_map_update_elem(self._map_fd, byref(c_uint32(0)), byref(value), 0) == 0
        self.step({"kind": self._types.StepKind.START})

    def step(self, event: Mapping[str, int]) -> int:
        answer, _ = run_once(self._program_fd, bytes(self._types.Step(**event)))
        return answer

    def state(self) -> dict[str, int]:
        value = self._locked()
        assert library().bpf_map_lookup_elem(self._map_fd, byref(c_uint32(0)), byref(value)) == 0
        return read_fields(value.cc, self._own)


Twin: TypeAlias = LibraryTwin | KernelTwin
