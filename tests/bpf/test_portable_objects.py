"""Compiled objects depend on no kernel's structures, so one build serves all kernels."""

import re
import struct
import subprocess
from pathlib import Path

import pytest

from mrc_agents.objects import OBJECTS_DIR

pytestmark = pytest.mark.parametrize("path", sorted(OBJECTS_DIR.glob("*.bpf.o")), ids=lambda path: path.name)

_BTF_MAGIC = 0xEB9F
_EXTENSION = struct.Struct("<HBBI 4I 2I")
"""struct btf_ext_header of libbpf; its last two: the place of CO-RE relocations, and their bytes."""


def _readelf(what: str, path: Path) -> str:
    command = ["readelf", what, "--wide", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_no_field_of_a_kernel_structure_is_relocated(path: Path) -> None:
    found = re.search(r" \.BTF\.ext +PROGBITS +\w+ (\w+)", _readelf("--sections", path))
    if path.name == "abi.bpf.o":  # types alone
        assert found is None
        return
    assert found is not None
    header = _EXTENSION.unpack_from(path.read_bytes(), int(found[1], 16))
    assert header[0] == _BTF_MAGIC
    assert header[3] >= _EXTENSION.size
    assert header[-1] == 0


def test_no_symbol_is_left_for_a_kernel_to_resolve(path: Path) -> None:
    symbols = re.findall(r"^ +\d+: .* (\w+) (\S*)$", _readelf("--symbols", path), re.MULTILINE)
    assert ("UND", "") in symbols  # the first of every table
    assert [name for section, name in symbols if section == "UND" and name] == []
