"""A process-less agent: a thread that listens on a Unix socket and answers as a test reports it to."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waiting import DEADLINE_S

Script = Callable[[socket.socket, Iterator[dict[str, Any]]], None]
"""Gets the connection and the requests that come in on it; the connection is closed when it returns."""


def send(connection: socket.socket, *messages: object) -> None:
    connection.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def answer(request: dict[str, Any], result: object) -> dict[str, Any]:
    return {"id": request["id"], "result": result}


@contextmanager
def scripted_agent(path: Path, script: Script) -> Iterator[Path]:
    """An agent that serves one connection by *script*; an error in it fails the test."""
    failures: list[BaseException] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)

        def serve() -> None:
            try:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as lines:
                    script(connection, (json.loads(line) for line in lines))
            except BaseException as error:  # noqa: BLE001 - re-raised in the test's own thread
                failures.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
