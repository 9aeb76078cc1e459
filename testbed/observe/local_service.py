"""Parts of the stack that are processes of this machine, and whether a server answers."""

import errno
import json
import os
import select
import socket
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from mrc_testbed.agents.clock import monotonic_ns
from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.fabric.process import ProcessIdentity, is_alive, start_detached
from mrc_testbed.observe.state import ServiceName, StackPaths, StackSettings

START_TIMEOUT_NS: Final = 60_000_000_000
GRACE_NS: Final = 5_000_000_000

_ANSWER_TIMEOUT_S: Final = 5
_RETRY_MS: Final = 50
_LOG_TAIL_LINES: Final = 5

# A proxy of the environment is not asked for what listens on this machine.
_OPENER: Final = build_opener(ProxyHandler({}))


def start_service(
    paths: StackPaths, name: ServiceName, command: Sequence[str], environment: Sequence[str] = ()
) -> ProcessIdentity:
    """Starts a process that outlives this one and bears the stack's mark.

    Args:
        paths: of the stack.
        name: which part it is; its log is named so.
        command: path of the program, and its arguments.
        environment: additions, each NAME=VALUE.

    Raises:
        FabricError: it cannot be run.
    """
    prefix = ("/usr/bin/env", *environment) if environment else ()
    return start_detached(paths.mark, [*prefix, *command], paths.log(name))


def await_answer(url: str, process: ProcessIdentity, what: str, quote: Callable[[], str]) -> None:
    """Returns when *url* answers with success.

    Args:
        url: asked again and again.
        process: whose death ends the waiting.
        what: its name for people.
        quote: gives the end of its log, for an error message.

    Raises:
        FabricError: the process ended before, or the time-out came.
    """
    deadline_ns = monotonic_ns() + START_TIMEOUT_NS
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise FabricError(f"{what} ended at once{quote()}") from None
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while answer_of(url) is None:
            # that a server begins to listen is no event; that it dies is one
            if poll.poll(_RETRY_MS) or not is_alive(process):
                raise FabricError(f"{what} ended while it started{quote()}")
            if monotonic_ns() >= deadline_ns:
                seconds = START_TIMEOUT_NS // 10**9
                raise FabricError(f"{what} does not answer at {url} after {seconds} s{quote()}")
    finally:
        os.close(descriptor)


def answer_of(url: str, **parameters: str) -> bytes | None:
    """The response to a GET of *url*; None without one, or without success."""
    asked = f"{url}?{urlencode(parameters)}" if parameters else url
    try:
        with _OPENER.open(asked, timeout=_ANSWER_TIMEOUT_S) as answer:
            content: bytes = answer.read()
            return content
    except (URLError, HTTPException, OSError, ValueError):
        return None


def json_of(url: str, **parameters: str) -> Any:
    """The JSON that a GET of *url* brings; None when nobody answers with any."""
    content = answer_of(url, **parameters)
    if content is None:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return None


def require_free_port(settings: StackSettings, port: int, what: str, option: str) -> None:
    """Raises PreflightError when the stack cannot listen on *port* of its address."""
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        try:
            attempt.bind((settings.address, port))
        except OSError as error:
            where = f"{settings.listen_host}:{port}"
            if error.errno == errno.EADDRNOTAVAIL:
                raise PreflightError(
                    f"{what} cannot listen at {where}: this machine has no such address",
                    hint="give one that `ip address` shows with --address",
                ) from error
            raise PreflightError(
                f"{what} cannot listen at {where}: {error.strerror}",
                hint=f"give another port with {option}, or end the process that listens there: "
                f"ss -ltnp 'sport = :{port}'",
            ) from error


def log_tail(log: Path) -> str:
    """The end of a log, for an error message."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return f"; it wrote no log ({log})"
    if not lines:
        return f"; its log is empty ({log})"
    return f"; its log ({log}) ends:\n" + "\n".join(lines[-_LOG_TAIL_LINES:])
