"""The compiled twins of NSCC."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from nscc_twins import KernelTwin, LibraryTwin, compile_library, compile_program, layouts

from agents.bpf.libbpf import BpfObject


@pytest.fixture(scope="session")
def twin_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The object of the XDP program."""
    return compile_program(tmp_path_factory.mktemp("nscc"))


@pytest.fixture(scope="session")
def types(twin_program: Path) -> SimpleNamespace:
    """Layouts and enumerations of the C code."""
    return layouts(twin_program)


@pytest.fixture(scope="session")
def library_twin(types: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> LibraryTwin:
    """NSCC as a shared library."""
    return LibraryTwin(compile_library(tmp_path_factory.mktemp("nscc")), types)


@pytest.fixture(scope="session")
def kernel_twin(twin_program: Path, types: SimpleNamespace) -> Iterator[KernelTwin]:
    """NSCC in the kernel."""
    with BpfObject(twin_program) as program:
        yield KernelTwin(program, types)
