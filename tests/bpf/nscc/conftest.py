"""The compiled twins of NSCC."""

from collections.abc import Iterator
from ctypes import Structure, c_uint64
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import compile_library, compile_program, layouts
from nscc_twins import KernelTwin, LibraryTwin

from mrc_agents.abi import FabricConfig
from mrc_agents.algorithms import CC, names_of
from mrc_agents.bpf.libbpf import BpfObject

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def twin_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The object of the XDP program."""
    return compile_program(HERE / "nscc_twin.bpf.c", tmp_path_factory.mktemp("nscc"))


@pytest.fixture(scope="session")
def types(twin_program: Path) -> SimpleNamespace:
    """Layouts and enumerations of the C code."""
    return layouts(twin_program)


@pytest.fixture(scope="session")
def library_twin(types: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> LibraryTwin:
    """NSCC as a shared library, which ends the process on undefined behaviour, such as a shift too far."""
    checks = "-fsanitize=undefined", "-fsanitize-trap=undefined"
    return LibraryTwin(compile_library(HERE / "nscc_twin.c", tmp_path_factory.mktemp("nscc"), *checks), types)


@pytest.fixture(scope="session")
def kernel_twin(twin_program: Path, types: SimpleNamespace) -> Iterator[KernelTwin]:
    """NSCC in the kernel."""
    with BpfObject(twin_program) as program:
        yield KernelTwin(program, types, types.Nscc)


class _AimdState(Structure):
    """struct aimd."""

    _fields_ = (("increase_square_bytes", c_uint64), ("hold_bytes", c_uint64))


@pytest.fixture(scope="session")
def aimd_twin(twin_program: Path, types: SimpleNamespace) -> Iterator[KernelTwin]:
    """AIMD in the kernel."""
    config = bytes(FabricConfig(cc_algorithm=names_of(CC).index("aimd")))
    with BpfObject(twin_program, rodata=config) as program:
        yield KernelTwin(program, types, _AimdState)
