"""Every file of a lab is made by mrc_testbed.fabric.state_file, which makes it for its owner only.

tests/netns/fabric/test_other_users.py looks at the files themselves; this finds a writer whose file no test
happens to make.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
FOLDERS: Final = ("testbed/mrc_testbed/fabric", "testbed/mrc_testbed/faults")
FILES: Final = (
    "testbed/mrc_testbed/metrics/run_info.py",
    "testbed/mrc_testbed/metrics/measured.py",
    "testbed/mrc_testbed/observe/run_reports.py",
    "agents/mrc_agents/nic/log.py",
)
MAKERS: Final = {"mkdir", "touch", "write_text", "write_bytes", "open"}
PRIVATE_MODES: Final = {"PRIVATE_FOLDER", "PRIVATE_FILE"}
PRIVATE_NUMBERS: Final = {0o600, 0o700}
ELSEWHERE: Final = {
    "testbed/mrc_testbed/fabric/state_file.py": "makes them",
    "testbed/mrc_testbed/fabric/file_systems.py": "folders on the BPF file system, mounted with mode 0700",
    "testbed/mrc_testbed/fabric/data_plane.py": "the same",
    "testbed/mrc_testbed/fabric/preflight.py": "the state folder itself",
    "testbed/mrc_testbed/fabric/namespace.py": "names of network namespaces, as iproute2 makes them",
    "testbed/mrc_testbed/fabric/program_view.py": "the /dev of one program, the machine's to all",
    "testbed/mrc_testbed/fabric/link.py": "sysctls of a node",
}


def sources() -> list[str]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted({str(path.relative_to(ROOT)) for path in found} | set(FILES))


def open_makers(source: str) -> Iterator[str]:
    """Calls in *source* that may make a file or folder which others can open."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in MAKERS and not is_private(node) and not is_reading(name, node):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def is_private(call: ast.Call) -> bool:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        (isinstance(argument, ast.Name) and argument.id in PRIVATE_MODES)
        or (isinstance(argument, ast.Constant) and argument.value in PRIVATE_NUMBERS)
        for argument in arguments
    )


def is_reading(name: str, call: ast.Call) -> bool:
    """Return True if an `open` makes no file: os.open without O_CREAT, or a mode that reads or updates."""
    if name != "open":
        return False
    text = ast.unparse(call)
    modes = {
        argument.value
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    return "O_CREAT" not in text and not modes & {"w", "a", "x", "wb", "ab", "xb", "w+", "a+"}


@pytest.mark.parametrize("name", sources())
def test_files_of_a_lab_are_made_private(name: str) -> None:
    found = list(open_makers((ROOT / name).read_text()))
    if name not in ELSEWHERE:
        assert found == []


@pytest.mark.parametrize(
    "call",
    [
        "path.mkdir(exist_ok=True)",
        "path.write_text(text)",
        "path.touch()",
        "path.open('a')",
        "os.open(path, os.O_RDWR | os.O_CREAT, 0o644)",
    ],
)
def test_open_maker_is_found(call: str) -> None:
    assert list(open_makers(call)) == [f"line 1: {ast.unparse(ast.parse(call))}"]


@pytest.mark.parametrize(
    "call", ["path.mkdir(PRIVATE_FOLDER)", "path.open('rb')", "os.open(path, os.O_RDWR | os.O_CREAT, 0o600)"]
)
def test_private_maker_and_reader_pass(call: str) -> None:
    assert list(open_makers(call)) == []
