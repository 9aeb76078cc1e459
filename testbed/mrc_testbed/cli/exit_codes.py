"""Exit statuses, error messages and, for bugs, a log: how a command ends.

Status of every command:

    0    done; a run passed
    1    run-time error
    2    wrong command line, or an invalid file
    3    the machine lacks something: `mrc-testbed doctor` says what and how to fix it
    4    an expectation of the scenario failed, or `check` found something slow or dead
    5    a safety condition aborted the run
    6    clean-up is incomplete: something of ours is left on the machine
    7    the result is UNTRUSTED: the testbed itself was too slow
    129  as 130, by SIGHUP: the terminal was closed
    130  interrupted by SIGINT or SIGTERM; faults are reverted
    131  as 130, by SIGQUIT; 152 by SIGXCPU
"""

import errno
import os
import platform
import shlex
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.markup import escape

from mrc_testbed.cli.commands import GONE
from mrc_testbed.cli.interruption import signals_stop
from mrc_testbed.cli.output import OutputError, TerminalSafeConsole
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.paths import state_root
from mrc_testbed.installation import state_home


class ExitCode(IntEnum):
    PASS = 0
    ERROR = 1
    USAGE = 2
    ENVIRONMENT = 3
    EXPECTATION_FAILED = 4
    ABORTED = 5
    CLEANUP_INCOMPLETE = 6
    UNTRUSTED = 7
    HUNG_UP = 129
    INTERRUPTED = 130


_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_BUG_LOGS_KEPT: Final = 10
_VALUE_ERROR_PREFIX: Final = "Value error, "


def run_to_exit_code(command: Callable[[], object], arguments: Sequence[str]) -> int:
    """Run *command*, report errors on stderr, and return the exit status.

    Args:
        command: runs the whole command line; an int it returns is the status, anything else is success.
        arguments: the command line, for the bug log.
    """
    try:
        try:
            status = command()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place that ends a command
            with signals_stop(lambda: None):  # what is said is said to its end
                return _say_why(error, arguments)
    except KeyboardInterrupt:  # between the two
        return ExitCode.INTERRUPTED
    return status if isinstance(status, int) else ExitCode.PASS


def _say_why(error: BaseException, arguments: Sequence[str]) -> int:
    """Report *error*, of the user, an interruption or a bug, and return the status."""
    match error:
        case TestbedError():
            _say_error(error.message, error.hint)
            for note in getattr(error, "__notes__", ()):
                _stderr().print(f"  {note}", markup=False, highlight=False, soft_wrap=True)
            status = error.exit_code
        case OutputError():
            _say_error(str(error), None)
            status = ExitCode.ERROR
        case typer.TyperException():
            status = _usage_error(error)
        case KeyboardInterrupt() | typer.Abort():
            _stderr().print("interrupted")
            status = ExitCode.INTERRUPTED
        case PermissionError() if os.geteuid() != 0:
            _say_error(f"{error.filename}: permission denied", "run it with sudo")
            status = ExitCode.ENVIRONMENT
        case OSError() if error.errno in _NO_ROOM:
            where = state_root() if error.filename is None else Path(error.filename).parent
            _say_error(
                f"{where} cannot be written to: {error.strerror}",
                "make room there, or let MRC_TESTBED_STATE_DIR name another folder for the state of labs",
            )
            status = ExitCode.ENVIRONMENT
        case _:
            status = _bug(error, arguments)
    return status


def _stderr() -> Console:
    return TerminalSafeConsole(stderr=True, highlight=False)


def _say_error(message: str, hint: str | None) -> None:
    console = _stderr()
    console.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    if hint:
        console.print(f"[bold]hint:[/]  {escape(hint)}", soft_wrap=True)


def _usage_error(error: typer.TyperException) -> int:
    message = error.format_message().replace(_VALUE_ERROR_PREFIX, "")
    if message:  # empty when the help was shown in place of an error
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "mrc-testbed"
        _say_error(message, GONE.get(getattr(error, "option_name", ""), f"{path} --help"))
    return error.exit_code


def _bug(error: BaseException, arguments: Sequence[str]) -> int:
    trace = "".join(traceback.format_exception(error))
    path = _write_bug_log(trace, arguments)
    summary = traceback.format_exception_only(error)[-1].strip()
    _say_error(
        f"unexpected {summary}",
        f"this is a bug of mrc-testbed; {path} holds what a report needs" if path else trace,
    )
    return ExitCode.ERROR


def _write_bug_log(trace: str, arguments: Sequence[str]) -> Path | None:
    """Write a log to paste into an issue and return its path; None where no folder is writable."""
    from importlib import metadata  # noqa: PLC0415 - it takes longer to import than all else here

    folder = state_home()
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    path = folder / f"bug-{stamp}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"command    mrc-testbed {shlex.join(arguments)}\n"
            f"version    {metadata.version('mrc-testbed')}\n"
            f"python     {platform.python_version()}\n"
            f"kernel     {platform.release()} {platform.machine()}\n"
            f"user       uid {os.geteuid()}\n\n{trace}",
            encoding="utf-8",
        )
        for old in sorted(folder.glob("bug-*.log"))[:-_BUG_LOGS_KEPT]:
            old.unlink()
    except OSError:
        return None
    return path
