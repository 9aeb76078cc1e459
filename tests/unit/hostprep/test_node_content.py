"""The content of the node image, and what makes an image stale."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_testbed.hostprep.image import assemble_context, content_hash
from mrc_testbed.installation import ROOT

IMPORT_ALL_AGENTS = """
import importlib, pkgutil, sys
sys.path[:0] = [sys.argv[1]]
import mrc_agents
names = [m.name for m in pkgutil.walk_packages(mrc_agents.__path__, "mrc_agents.")]
names = [name for name in names if not name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the parts of the clone that the image is made from."""
    root = tmp_path / "clone"
    for folder in ("image", "playbooks", "agents"):
        shutil.copytree(
            ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "_objects")
        )
    return root


def test_agents_import_with_nothing_but_the_image_content(tmp_path: Path) -> None:
    assemble_context(tmp_path / "context")
    # -S leaves out site-packages: the image has no third-party package.
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL_AGENTS, str(tmp_path / "context" / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) >= 5


def test_context_leaves_out_what_runs_outside_the_nodes(clone: Path, tmp_path: Path) -> None:
    assemble_context(tmp_path / "context", clone, clone / "agents/mrc_agents")
    assert [path.name for path in (tmp_path / "context" / "site").iterdir()] == ["mrc_agents"]
    assert (tmp_path / "context" / "Dockerfile").is_file()


@pytest.mark.parametrize(
    "changed",
    [
        "agents/mrc_agents/bpf/maps.py",
        "agents/mrc_agents/errors.py",
        "image/Dockerfile",
        "playbooks/image.yaml",
    ],
)
def test_a_change_of_any_input_makes_the_image_stale(clone: Path, changed: str) -> None:
    before = content_hash(clone, clone / "agents/mrc_agents")
    with (clone / changed).open("a") as file:
        file.write("\n")
    assert content_hash(clone, clone / "agents/mrc_agents") != before


def test_a_moved_file_makes_the_image_stale(clone: Path) -> None:
    before = content_hash(clone, clone / "agents/mrc_agents")
    (clone / "agents/mrc_agents/bpf/maps.py").rename(clone / "agents/mrc_agents/bpf/moved.py")
    assert content_hash(clone, clone / "agents/mrc_agents") != before


def test_what_only_the_host_uses_does_not_make_the_image_stale(clone: Path) -> None:
    before = content_hash(clone, clone / "agents/mrc_agents")
    (clone / "agents/mrc_agents/include/mrc/abi.h").unlink()
    assert content_hash(clone, clone / "agents/mrc_agents") == before


def test_the_hash_does_not_depend_on_where_the_clone_is(clone: Path) -> None:
    assert content_hash(clone, clone / "agents/mrc_agents") == content_hash()
