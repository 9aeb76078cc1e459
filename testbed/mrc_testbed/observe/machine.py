"""Services as processes of this machine, and whether a server answers."""

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

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.fabric.process import (
    ProcessIdentity,
    find_marked,
    is_alive,
    session,
    start_detached,
    stop_processes,
)
from mrc_testbed.observe.service import TITLES, Progress, Service
from mrc_testbed.observe.stack_state import ServiceName, ServiceRecord, StackPaths, StackSettings

START_TIMEOUT_NS: Final = 60_000_000_000
_GRACE_NS: Final = 5_000_000_000

_ANSWER_TIMEOUT_S: Final = 5
_RETRY_MS: Final = 50
_LOG_TAIL_LINES: Final = 5

# A proxy of the environment is not asked for what listens on this machine.
_OPENER: Final = build_opener(ProxyHandler({}))


def start(paths: StackPaths, service: Service, progress: Progress) -> tuple[ProcessIdentity, str]:
    """Start a service's program as its account, without capabilities or a way back."""
    progress(f"starting {TITLES[service.name]}")
    prefix: tuple[str, ...] = ()
    if service.account.uid:
        identity = (f"--reuid={service.account.uid}", f"--regid={service.account.gid}", "--clear-groups")
        prefix = ("/usr/bin/setpriv", *identity, "--inh-caps=-all", "--no-new-privs")
    return start_detached(paths.mark, [*prefix, *service.command], paths.log(service.name)), ""


def stop(record: ServiceRecord) -> None:
    """End the process that was started."""
    stop_processes([record.identity], _GRACE_NS)


def holds(paths: StackPaths) -> bool:
    return bool(find_marked(paths.mark))


def end_others(paths: StackPaths, known: Sequence[ServiceRecord]) -> None:
    """End processes with the stack's mark that are not among *known*, nor their children."""
    sessions = {record.pid for record in known}
    stop_processes([each for each in find_marked(paths.mark) if session(each.pid) not in sessions], _GRACE_NS)


def log_end(record: ServiceRecord) -> str:
    """Return the end of its log, as the rest of a sentence."""
    log = Path(record.log or "")
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return f"; it wrote no log ({log})"
    if not lines:
        return f"; its log is empty ({log})"
    return f"; its log ({log}) ends:\n" + "\n".join(lines[-_LOG_TAIL_LINES:])


def await_answer(url: str, process: ProcessIdentity, what: str, quote: Callable[[], str]) -> None:
    """Return when *url* answers with success.

    Args:
        url: asked again and again.
        process: whose death ends the waiting.
        what: its name for people.
        quote: returns the end of its log, for an error message.
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


def require_free_port(settings: StackSettings, name: ServiceName) -> None:
    """Raise PreflightError if a service cannot listen on its port of the stack's address."""
    port: int = getattr(settings, f"{name}_port")
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        try:
            attempt.bind((settings.address, port))
        except OSError as error:
            reason = f"{error.strerror}"
            hint = f"give another port with --{name}-port, or end the process that listens there: "
            hint += f"ss -ltnp 'sport = :{port}'"
            if error.errno == errno.EADDRNOTAVAIL:
                reason = "this machine has no such address"
                hint = "give one that `ip address` shows with --address"
            where = f"{settings.listen_host}:{port}"
            raise PreflightError(f"{TITLES[name]} cannot listen at {where}: {reason}", hint=hint) from error
