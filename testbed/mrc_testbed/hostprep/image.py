"""The node image of runtime docker: what is in it, whether it is current, how it is made.

The image holds Python, libbpf and the part of this project that runs inside a node. It carries a label with a
hash over everything it was made from, so that a stale one is noticed and a current one is not built again.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Final

import mrc_agents
from mrc_testbed.errors import PreflightError
from mrc_testbed.extras import from_extra
from mrc_testbed.hostprep.playbook import PlaybookReport, Progress, log_of, run_playbook
from mrc_testbed.installation import ROOT, shipped

with from_extra("lab"):
    import docker
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

_CONTENT_LABEL: Final = "mrc-testbed.content"
_RECIPE: Final = ("image/Dockerfile", "playbooks/image.yaml", "playbooks/tasks/base_from_packages.yaml")
_PACKAGE: Final = Path(mrc_agents.__file__).parent
_ENGINE_TIMEOUT_S: Final = 30


class ImageState(Enum):
    """The state of the node image on this machine, compared with the sources."""

    CURRENT = "current"
    STALE = "stale"
    MISSING = "missing"


def image_name() -> str:
    """Name and tag of the node image, for example `mrc-testbed-node:0.1.0`."""
    return f"mrc-testbed-node:{version('mrc-testbed')}"


def observe_image() -> ImageState:
    """Compare the node image that the Docker Engine has with the sources as they are now."""
    try:
        client = docker.from_env(timeout=_ENGINE_TIMEOUT_S)
        try:
            labels = client.images.get(image_name()).labels
        except ImageNotFound:
            return ImageState.MISSING
        finally:
            client.close()
    except (DockerException, RequestException) as error:
        raise PreflightError(
            f"no Docker Engine answers: {error}",
            hint="start it (systemctl start docker), or use --runtime netns",
        ) from error
    return ImageState.CURRENT if labels.get(_CONTENT_LABEL) == content_hash() else ImageState.STALE


def build_image(*, check: bool = False, progress: Progress | None = None) -> PlaybookReport:
    """Build the node image if it is missing or stale.

    The base is pulled, or made from the distribution's packages where no registry answers (needs root).
    """
    if observe_image() is ImageState.CURRENT:
        return PlaybookReport(changes=(), log=None)
    content = content_hash()  # before copying: a file changed in between makes the image stale, not wrong
    with tempfile.TemporaryDirectory(prefix="mrc-testbed-image-") as folder:
        context = Path(folder) / "context"
        assemble_context(context)
        variables = {
            "image_name": image_name(),
            "content_hash": content,
            "context_dir": str(context),
            "work_dir": folder,
        }
        playbook = shipped("playbooks/image.yaml")
        return run_playbook(playbook, variables, log=log_of("image"), check=check, progress=progress)


def content_hash(root: Path = ROOT, package: Path = _PACKAGE) -> str:
    """SHA-256, in hex, of every file that the image is made from, with its path."""
    digest = hashlib.sha256()
    inputs = [(each, root) for each in _RECIPE] + [(each, package) for each in _node_files(package)]
    for relative, folder in sorted(inputs):
        digest.update(f"{relative}\0".encode())
        digest.update(hashlib.sha256((folder / relative).read_bytes()).digest())
    return digest.hexdigest()


def assemble_context(context: Path, root: Path = ROOT, package: Path = _PACKAGE) -> None:
    """Lay out the build context in the new folder *context*: Dockerfile, and site/ with what nodes run."""
    for relative in _node_files(package):
        target = context / "site" / "mrc_agents" / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package / relative, target)
    shutil.copyfile(root / "image/Dockerfile", context / "Dockerfile")


def _node_files(package: Path) -> Iterator[str]:
    """Python files of the image, relative to *package*; import-linter checks that they need no others."""
    return (str(file.relative_to(package)) for file in package.rglob("*.py"))
