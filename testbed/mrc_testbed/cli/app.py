"""The mrc-testbed command line."""

import gc
import sys
from typing import Final, NoReturn

import typer

from mrc_testbed.cli.commands import LISTED, add_all, lazy
from mrc_testbed.cli.exit_codes import ExitCode, run_to_exit_code
from mrc_testbed.cli.interruption import signals_interrupt
from mrc_testbed.cli.options import COMMANDS, global_callback
from mrc_testbed.cli.output import guard_outputs
from mrc_testbed.signals import exit_status

PROGRAM: Final = "mrc-testbed"
_ALLOCATIONS: Final = 20_000
"""Objects after which the collector looks for cycles: imports make many objects that stay, and few cycles."""

_HELP = """Run and measure Multipath Reliable Connection (MRC) on a single machine.

Stand up a software multi-plane Clos with in-kernel NICs, send real RDMA
WRITEs through it, break links, and get a verdict. Results go to stdout,
everything else to stderr.

[bold]A first look[/bold] (as root)

  mrc-testbed up                                   16 switches, 8 hosts
  mrc-testbed bench write-bw h0 h5 --size 1MiB     compared byte for byte
  mrc-testbed fault add link-down --link p0-t0-0:4 --for 5s
  mrc-testbed ev list h0 h5                        paths and their state
  mrc-testbed run t0-t1-flap                       a verdict and a report
  mrc-testbed down

[bold]Exit status[/bold]

  0 done   1 error   2 usage or invalid file   3 machine not ready
  4 expectation failed   5 aborted   6 clean-up incomplete
  7 result UNTRUSTED   129 terminal closed (SIGHUP)   130 interrupted

Every flag is also an environment variable: --name is MRC_TESTBED_NAME.
Global flags may stand before the command or after it.
"""


def build_app() -> typer.Typer:
    """Build the application; its commands are imported when they are typed."""
    app = typer.Typer(
        name=PROGRAM,
        cls=lazy(LISTED, COMMANDS),
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    global_callback(app, _HELP)
    add_all(app)
    return app


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    with signals_interrupt():
        app = build_app()
        status = run_to_exit_code(
            lambda: app(args=arguments, prog_name=PROGRAM, standalone_mode=False), arguments
        )
        return exit_status() if status == ExitCode.INTERRUPTED else status


def main() -> NoReturn:
    gc.set_threshold(_ALLOCATIONS)
    guard_outputs()
    try:
        sys.exit(run(sys.argv[1:]))
    finally:
        gc.freeze()  # the end of the process frees all: no collection looks through it first
