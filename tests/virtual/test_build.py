"""The sources of the library: the C of NIC and switch as it is, but for the timing wheel; gaps fail."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from runs import ROOT

PROGRAMS = (
    "agents/mrc_agents/nic/bpf/nic.bpf.c",
    "agents/mrc_agents/nic/bpf/rc/rc.bpf.c",
    "agents/mrc_agents/switch/bpf/forward.bpf.c",
    "agents/mrc_agents/switch/bpf/emit.bpf.c",
    "agents/mrc_agents/switch/bpf/load.bpf.c",
)
OWN = "agents/mrc_agents/virtual/"
OWN_LAYOUTS = "agents/mrc_agents/include/mrc/virtual_abi.h"
WHEEL = "agents/mrc_agents/queue/wheel.h"
FLAGS = [f"-Iagents/mrc_agents/{each}" for each in ("virtual/shim", "include", "", "_objects", "virtual")]
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)


def sources_in_kernel() -> set[str]:
    """Our files that the kernel's programs are made of, found by their includes."""
    found: set[Path] = set()
    waiting = [ROOT / name for name in PROGRAMS]
    while waiting:
        file = waiting.pop().resolve()
        if file in found:
            continue
        found.add(file)
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            own = (ROOT / "agents/mrc_agents" / each / name for each in ("include", "", "_objects"))
            waiting += [path for path in (file.parent / name, *own) if path.is_file()]
    return {str(path.relative_to(ROOT)) for path in found}


def sources_in_library() -> set[str]:
    """The same of the library's translation unit, as the compiler sees it."""
    command = ["cc", *FLAGS, "-MM", "agents/mrc_agents/virtual/programs.c"]
    rule = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    names = rule.replace("\\\n", " ").split()[1:]
    return {str((ROOT / name).resolve().relative_to(ROOT)) for name in names}


def test_only_the_wheel_is_replaced() -> None:
    in_library = sources_in_library()
    shared = {name for name in in_library if not name.startswith(OWN)} - {OWN_LAYOUTS}
    assert sources_in_kernel() - shared == {WHEEL, OWN_LAYOUTS}  # the latter by trace.h, in the library alone
    assert shared - sources_in_kernel() == set()
    assert f"{OWN}shim/queue/wheel.h" in in_library


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in (
        "agents/mrc_agents/include",
        "agents/mrc_agents/queue",
        "agents/mrc_agents/nic/bpf",
        "agents/mrc_agents/switch/bpf",
        "agents/mrc_agents/virtual",
        "agents/mrc_agents/collectives",
    ):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("Makefile", "agents/mrc_agents/__init__.py", "agents/mrc_agents/algorithms.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def make(clone: Path) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(clone), "VIRTUAL_CFLAGS=-O0", "agents/mrc_agents/_objects/libmrc_virtual.so"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_map_that_is_not_listed_fails_the_build(clone: Path) -> None:
    listed = clone / "agents/mrc_agents/virtual/maps.def"
    listed.write_text(listed.read_text().replace("SCRATCH(lossless_scratch)\n", ""))
    done = make(clone)
    assert done.returncode
    assert "> lossless_scratch" in done.stderr
    assert not (clone / "agents/mrc_agents/_objects/libmrc_virtual.so").exists()


def test_a_helper_that_is_not_there_fails_the_build(clone: Path) -> None:
    program = clone / "agents/mrc_agents/switch/bpf/emit.bpf.c"
    text = program.read_text()
    program.write_text(
        text.replace("	if (!request)\n", "	bpf_get_numa_node_id();\n	if (!request)\n", 1)
    )
    assert program.read_text() != text
    done = make(clone)
    assert done.returncode
    assert "bpf_get_numa_node_id" in done.stderr
