"""Detection of a listening Docker Engine without its SDK, whose import takes a third of a second."""

import os
import socket
from typing import Final
from urllib.parse import urlsplit

_DEFAULT_HOST: Final = "unix:///var/run/docker.sock"


def engine_host() -> str:
    """Where the engine is looked for: DOCKER_HOST, or the default socket."""
    return os.environ.get("DOCKER_HOST") or _DEFAULT_HOST


def is_engine_listening() -> bool:
    """Return True if an engine listens on the socket; also for a host on the network, which is not asked."""
    url = urlsplit(engine_host())
    if url.scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        try:
            attempt.connect(url.path)
        except OSError:
            return False
    return True
