"""Access to the Docker Engine from several threads."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final, TypeVar

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from testbed.errors import FabricError, PreflightError
from testbed.fabric.engine_socket import engine_host, is_engine_listening
from testbed.fabric.ownership import LAB_LABEL

ENGINE_ERRORS: Final = (APIError, RequestException)
"""What a call to the engine fails with."""

_THREADS: Final = 8  # measured: more do not start containers faster
_TIMEOUT_SECONDS: Final = 120

Item = TypeVar("Item")


class Engine:
    """The Docker Engine that DOCKER_HOST, or the default socket, leads to.

    Raises:
        PreflightError: none answers.
    """

    def __init__(self) -> None:
        hint = "start it (systemctl start docker), or use --runtime netns"
        self._local = threading.local()
        if not is_engine_listening():
            raise PreflightError(f"no Docker Engine listens at {engine_host()}", hint=hint)
        try:
            self._local.client = docker.from_env(timeout=_TIMEOUT_SECONDS)
            self._version = self._local.client.api.api_version
        except (DockerException, RequestException) as error:
            raise PreflightError(f"no Docker Engine answers: {error}", hint=hint) from error

    @property
    def client(self) -> docker.DockerClient:
        """The calling thread's own client: a client shared by threads mixes up its connections."""
        if not hasattr(self._local, "client"):
            self._local.client = docker.from_env(version=self._version, timeout=_TIMEOUT_SECONDS)
        client: docker.DockerClient = self._local.client
        return client

    def for_each(
        self, items: Iterable[Item], work: Callable[[Item], None], *, stop_at_failure: bool
    ) -> list[FabricError]:
        """Does *work* for the items, several at a time.

        Returns:
            The failures; unless *stop_at_failure*, the other items are done all the same.
        """
        failures: list[FabricError] = []
        pool = ThreadPoolExecutor(max_workers=_THREADS)
        try:
            for future in as_completed([pool.submit(work, item) for item in items]):
                try:
                    future.result()
                except FabricError as error:
                    failures.append(error)
                    if stop_at_failure:
                        break
        finally:
            # Also on Ctrl-C: what has begun ends, nothing more begins.
            pool.shutdown(cancel_futures=True)
        return failures

    def labs(self) -> frozenset[str]:
        """Labs that own a container, whether or not they have a state folder."""
        containers = self.client.containers.list(all=True, filters={"label": LAB_LABEL}, ignore_removed=True)
        return frozenset(container.labels[LAB_LABEL] for container in containers)


def explain(error: Exception) -> str:
    """What the engine said."""
    return str(error.explanation) if isinstance(error, APIError) else str(error)
