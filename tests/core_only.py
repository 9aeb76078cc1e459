"""mrc-testbed installed without its extras: packages that its core does not depend on cannot be imported."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

_BLOCKER: Final = """\
import sys

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
"""
_RUNNER: Final = """\
import io, json, sys
from mrc_testbed.cli.app import run

def finished(arguments):
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    status = run(arguments)
    return status, *(stream.buffer.getvalue().decode() for stream in (sys.stdout, sys.stderr))

found = [finished(each) for each in json.load(sys.stdin)]
sys.__stdout__.write(json.dumps(found))
"""


class Finished(NamedTuple):
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str


def commands(texts: Sequence[str], folder: Path, **environment: str) -> list[Finished]:
    """The ends of command lines, run one after the other in one process.

    Args:
        texts: arguments of mrc-testbed, with a space between two.
        folder: to run in.
        environment: additions to that of the test.
    """
    arguments = json.dumps([text.split() for text in texts])
    return [Finished(*each) for each in json.loads(python(_RUNNER, folder, arguments, **environment))]


def python(program: str, folder: Path, given: str = "", **environment: str) -> str:
    """Output of a Python program without the packages, in which the programs that it starts lack them too."""
    blocker = folder / "blocker"
    blocker.mkdir(exist_ok=True)
    (blocker / "sitecustomize.py").write_text(_BLOCKER.format(absent=absent_packages()))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=given,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(blocker), "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@cache
def absent_packages() -> frozenset[str]:
    """Names by which one imports what is installed here and not with the core."""
    core = brought_by(PROJECT["dependencies"])
    return frozenset({*packages_distributions(), "distutils"} - {*core, "mrc_testbed", "mrc_agents"})


def brought_by(requirements: Iterable[str]) -> set[str]:
    """Names by which one imports the *requirements* and what they need in turn."""
    found: set[str] = set()
    waiting = [*requirements]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += requires(name) or ()
    installed = packages_distributions().items()
    return {package for package, names in installed if found & {canonicalize_name(each) for each in names}}
