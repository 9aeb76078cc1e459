"""Access to the Docker Engine from several threads."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from typing import Final, NamedTuple, TypeVar

from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.ownership import LAB_LABEL, NODE_LABEL
from mrc_testbed.fabric.runtime import engine_host, is_engine_listening

with from_extra("lab"):
    import docker
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

ENGINE_ERRORS: Final = (APIError, RequestException)
"""Exceptions of a call to the engine."""

_THREADS: Final = 8  # measured: more do not start containers faster
_TIMEOUT_SECONDS: Final = 120

Item = TypeVar("Item")


class ObservedContainer(NamedTuple):
    lab: str
    node: str
    is_running: bool


class DockerEngine:
    """The Docker Engine that DOCKER_HOST, or the default socket, leads to."""

    def __init__(self) -> None:
        hint = "start it (systemctl start docker), or use --runtime netns"
        if not is_engine_listening():
            raise PreflightError(f"no Docker Engine listens at {engine_host()}", hint=hint)
        self._version: str | None = None
        try:
            with self.connected() as api:
                self._version = api.api_version
        except (DockerException, RequestException) as error:
            raise PreflightError(f"no Docker Engine answers: {error}", hint=hint) from error

    @contextmanager
    def connected(self) -> Iterator[docker.APIClient]:
        """A client of its own for each use: threads that share one mix up its connections."""
        with closing(docker.from_env(version=self._version, timeout=_TIMEOUT_SECONDS)) as client:
            yield client.api

    def for_each(
        self, items: Iterable[Item], work: Callable[[Item], None], *, stop_at_failure: bool
    ) -> list[FabricError]:
        """Does *work* for the items, several at a time.

        Returns:
            The failures; the other items are done all the same.

        Raises:
            FabricError: the first failure, if *stop_at_failure*.
        """
        failures: list[FabricError] = []
        pool = ThreadPoolExecutor(max_workers=_THREADS)
        try:
            for future in as_completed([pool.submit(work, item) for item in items]):
                try:
                    future.result()
                except FabricError as error:
                    if stop_at_failure:
                        raise
                    failures.append(error)
        finally:
            # Also on Ctrl-C: what has begun ends, nothing more begins.
            pool.shutdown(cancel_futures=True)
        return failures

    def containers(self, label: str) -> list[ObservedContainer]:
        """Our containers, stopped ones too, that bear *label* (`name` or `name=value`)."""
        try:
            with self.connected() as api:
                found = api.containers(all=True, filters={"label": label})
        except ENGINE_ERRORS as error:
            raise FabricError(f"Docker does not list its containers: {explain(error)}") from error
        return [
            ObservedContainer(
                lab=container["Labels"][LAB_LABEL],
                node=container["Labels"][NODE_LABEL],
                is_running=container["State"] == "running",
            )
            for container in found
        ]


def explain(error: Exception) -> str:
    return str(error.explanation) if isinstance(error, APIError) else str(error)
