"""Build hook of the wheel: compile objects, add the files that the tool reads, name the platform."""

import platform
import re
import subprocess
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_OBJECTS: Final = "agents/mrc_agents/_objects"
_NOT_LOADED: Final = "abi.bpf.o"
"""Source of mrc_agents/abi.py."""

_CHARTS: Final = "testbed/mrc_testbed/report/assets/_uplot"
_SHIPPED: Final = (
    "scenarios",
    "playbooks",
    "image",
    "dashboards/json",
    "dashboards/rules",
    "docs/guide/alerts.md",
)
"""Go to mrc_testbed/_shipped, where mrc_testbed/installation.py finds them."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Make a wheel that needs no compiler, no make and no clone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add files and tag to *build_data*; an editable install reads the clone itself."""
        if version == "editable":
            return
        root = Path(self.root)
        subprocess.run(["make", "bpf"], cwd=root, check=True)
        if not (root / _CHARTS).is_dir():
            raise FileNotFoundError(f"{_CHARTS}: run `make charts`")
        objects = _objects(root / _OBJECTS)
        build_data["force_include"][str(root / _CHARTS)] = _CHARTS
        build_data["force_include"] |= {str(path): f"{_OBJECTS}/{path.name}" for path in objects}
        build_data["force_include"] |= {
            str(root / each): f"testbed/mrc_testbed/_shipped/{each}" for each in _SHIPPED
        }
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag(objects)}"


def _objects(folder: Path) -> list[Path]:
    """The compiled files of *folder*, without what only compilers read."""
    found = [
        path for pattern in ("*.bpf.o", "*.so", "drainer", "algorithms.json") for path in folder.glob(pattern)
    ]
    return sorted(path for path in found if path.name != _NOT_LOADED)


def _platform_tag(objects: list[Path]) -> str:
    """The tag of the oldest glibc that has all symbols of *objects* (PEP 600)."""
    binaries = [path for path in objects if path.suffix == ".so" or not path.suffix]
    versions = subprocess.run(
        ["readelf", "--version-info", "--wide", *binaries], capture_output=True, text=True, check=True
    ).stdout
    major, minor = max((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", versions))
    return f"manylinux_{major}_{minor}_{platform.machine()}"
