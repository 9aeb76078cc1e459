"""Starts NIC agents: `python -m mrc_agents.nic --config FILE`.

With one --config the agent runs in this process. With several, one process is forked for each after the
imports are done, and this one exits when all of them listen, printing one JSON object: host -> process id.
"""

import argparse
import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from mrc_agents.errors import AgentError, TestbedError
from mrc_agents.nic.config import AgentConfig, load_config
from mrc_agents.nic.daemon import NicAgent
from mrc_agents.nic.log import LOG_BYTES_MAX, BoundedLog
from mrc_agents.node_file import read_tail

_CLONE_NEWNET = 0x40000000
_LOG_TAIL_LINES = 8


def _enter_network_namespace(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise AgentError(f"cannot enter {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)


async def _serve(config: AgentConfig, on_ready: Callable[[], None]) -> None:
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await NicAgent(config).run(on_ready)


def _run(config: AgentConfig, on_ready: Callable[[], None]) -> int:
    logging.basicConfig(
        handlers=[BoundedLog(config.log)],
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if config.network_namespace is not None:
        _enter_network_namespace(config.network_namespace)
    try:
        asyncio.run(_serve(config, on_ready))
    except asyncio.CancelledError:
        return 0
    except TestbedError as error:
        logging.getLogger(__name__).error("%s", error)  # noqa: TRY400 - expected failures need no traceback
        sys.stderr.write(f"{config.host}: {error}\n")
        return error.exit_code
    except Exception:
        # In a container nobody reads standard error; `up` and `restart` quote the log.
        logging.getLogger(__name__).exception("the agent of %s ends", config.host)
        return 1
    return 0


def _detach(config: AgentConfig) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(config.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for descriptor in (null, log):
        os.close(descriptor)


def _fork_agent(config: AgentConfig) -> tuple[int, int]:
    """Process id of a new agent and the pipe on which it says one byte when it listens."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    status = 1
    try:
        os.close(reader)
        _detach(config)

        def on_ready() -> None:
            os.write(writer, b"1")
            os.close(writer)

        status = _run(config, on_ready)
    finally:
        os._exit(status)


def _log_tail(log: Path) -> str:
    """The end of a log, which may be gone with the lab by the time somebody looks for it."""
    try:
        tail = read_tail(log, LOG_BYTES_MAX).decode(errors="replace")
        return "\n".join(tail.splitlines()[-_LOG_TAIL_LINES:])
    except (OSError, AgentError) as error:
        return f"({error})"


def _fork_all(configs: list[AgentConfig]) -> int:
    started = {config.host: _fork_agent(config) for config in configs}
    silent = []
    for host, (_, reader) in started.items():
        if os.read(reader, 1) != b"1":
            silent.append(host)
        os.close(reader)
    sys.stdout.write(json.dumps({host: pid for host, (pid, _) in started.items()}) + "\n")
    if silent:
        sys.stderr.write(f"agents that did not start: {', '.join(silent)}\n")
        first = next(config for config in configs if config.host == silent[0])
        sys.stderr.write(f"the log of {first.host} ends:\n{_log_tail(first.log)}\n")
    return 1 if silent else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mrc_agents.nic", description=__doc__)
    parser.add_argument("--config", type=Path, action="append", required=True, help="JSON; may be repeated")
    arguments = parser.parse_args()
    try:
        configs = [load_config(path) for path in arguments.config]
    except TestbedError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if len(configs) == 1:
        return _run(configs[0], lambda: None)
    return _fork_all(configs)


if __name__ == "__main__":
    sys.exit(main())
