"""Which runtime a lab gets, and which one an existing lab has. Docker's SDK is imported only where Docker is
meant.
"""

from typing import NamedTuple

from mrc_testbed.errors import PreflightError, UsageError, did_you_mean
from mrc_testbed.fabric.netns_runtime import NetnsRuntime
from mrc_testbed.fabric.ownership import LAB_LABEL
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.runtime import Runtime, is_engine_listening
from mrc_testbed.fabric.state import LabState, RuntimeName


class RuntimeChoice(NamedTuple):
    """A runtime, and why it was chosen if the user left it open."""

    runtime: Runtime
    note: str | None


def parse_runtime(text: str) -> RuntimeName:
    known = [runtime.value for runtime in RuntimeName]
    if text not in known:
        raise UsageError(f"unknown runtime {text!r}{did_you_mean(text, known)}; use docker or netns")
    return RuntimeName(text)


def choose_runtime(paths: LabPaths, wanted: RuntimeName | None) -> RuntimeChoice:
    """The runtime asked for; without a wish docker if it is ready to be used, else netns."""
    if wanted is RuntimeName.DOCKER:
        return RuntimeChoice(_docker_runtime(paths), None)
    if wanted is RuntimeName.NETNS:
        return RuntimeChoice(NetnsRuntime(paths), None)
    if not is_engine_listening():
        return RuntimeChoice(NetnsRuntime(paths), "runtime netns: there is no Docker Engine")
    try:
        return RuntimeChoice(_docker_runtime(paths), "runtime docker: its engine answers")
    except PreflightError as error:
        return RuntimeChoice(NetnsRuntime(paths), f"runtime netns: {error.message}")


def known_runtime(paths: LabPaths, state: LabState | None) -> Runtime:
    """The runtime of an existing lab; without a state the one that finds most."""
    if state is not None and state.runtime is RuntimeName.NETNS:
        return NetnsRuntime(paths)
    if state is None and not is_engine_listening():
        return NetnsRuntime(paths)
    try:
        # The SDK takes a third of a second to import.
        from mrc_testbed.fabric.docker_engine import DockerEngine  # noqa: PLC0415
        from mrc_testbed.fabric.docker_runtime import DockerRuntime  # noqa: PLC0415

        return DockerRuntime(paths, DockerEngine(), image="")
    except PreflightError:
        if state is None:
            return NetnsRuntime(paths)
        raise


def engine_labs() -> frozenset[str]:
    """Labs that own a container; none if no Docker Engine answers, or its SDK is not installed."""
    if not is_engine_listening():
        return frozenset()
    try:
        from mrc_testbed.fabric.docker_engine import DockerEngine  # noqa: PLC0415

        engine = DockerEngine()
    except PreflightError:
        return frozenset()
    return frozenset(container.lab for container in engine.containers(LAB_LABEL))


def _docker_runtime(paths: LabPaths) -> Runtime:
    from mrc_testbed.fabric.docker_engine import DockerEngine  # noqa: PLC0415
    from mrc_testbed.fabric.docker_runtime import DockerRuntime, require_node_image  # noqa: PLC0415

    return DockerRuntime(paths, DockerEngine(), require_node_image())
