"""Programs that load libibverbs at run time, as NCCL does, use the NIC of a host too."""

import re
import subprocess
from pathlib import Path

import pytest
from rdma_program import NOBODY, build, finish, start

from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.rdma import VERBS_LIBRARY

SOURCE = Path(__file__).with_name("verbs_dlopen.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`verbs_dlopen`; its RUNPATH is a folder that has libbeside.so."""
    folder = tmp_path_factory.mktemp("dlopen")
    beside = folder / "beside"
    beside.mkdir()
    (beside / "beside.c").write_text("int number(void);\nint number(void) { return 42; }\n")
    build(beside / "beside.c", beside, "-shared", "-fPIC").rename(beside / "libbeside.so")
    return build(SOURCE, folder, "-Wl,--enable-new-dtags,-rpath,$ORIGIN/beside")


def test_device_by_dlopen_and_dlvsym(live: Lab, program: Path) -> None:
    status, said, complained = finish(start(live, "h1", *NOBODY, program))
    assert (status, said.splitlines()) == (
        0,
        ["1 device", "mrc0", "port active, gid of 16 bytes", "port error"],
    ), complained


@pytest.mark.parametrize("name", ["libibverbs.so", "/opt/rdma/lib/libibverbs.so.1"])
def test_python_program_by_any_name_of_the_library(live: Lab, name: str) -> None:
    load = """if True:
        import ctypes, sys
        count = ctypes.c_int()
        ctypes.CDLL(sys.argv[1]).ibv_get_device_list(ctypes.byref(count))
        print(count.value)
    """
    status, said, complained = finish(start(live, "h1", "python3", "-c", load, name))
    assert (status, said) == (0, "1\n"), complained


def test_libraries_are_found_where_the_program_s_runpath_says(live: Lab, program: Path) -> None:
    """It is the caller's that counts, and the caller must not be the verbs library."""
    status, said, complained = finish(start(live, "h1", program, "libbeside.so"))
    assert (status, said) == (0, "42\n"), complained


def test_versions_are_those_of_libibverbs() -> None:
    """Functions that libibverbs lacks have none, and stand for those of any library."""
    ours = versions(VERBS_LIBRARY)
    genuine = versions(genuine_library())
    ibverbs = {name: version for name, version in ours.items() if "ibv_" in name}
    assert ibverbs == {name: genuine[name] for name in ibverbs}
    assert ours["dlopen"] == ours["madvise"] == ""


def versions(library: Path) -> dict[str, str]:
    """Default version of each symbol that a library defines; "": none."""
    command = ["readelf", "--dyn-syms", "--wide", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(
        r"(?:FUNC|OBJECT) +(?:GLOBAL|WEAK) +\w+ +\d+ (\w+)(?:@@(\S+))?$", listing, re.MULTILINE
    )
    return dict(found)


def genuine_library() -> Path:
    listing = subprocess.run(["ldd", VERBS_LIBRARY], capture_output=True, text=True, check=True).stdout
    (path,) = re.findall(r"libibverbs\.so\.1 => (\S+)", listing)
    return Path(path)
