"""The mrc-testbed command line: its groups of commands, and its way out."""

import sys
from typing import NoReturn

import typer

from testbed.cli import bench, ev, fault, files, lab, machine, node, observability, scenario, topology
from testbed.cli.exit_codes import run_to_exit_code
from testbed.cli.interruption import signals_interrupt
from testbed.cli.options import global_callback

_HELP = """See Multipath Reliable Connection (MRC) work on one Linux box.

Stand up a software multi-plane Clos with in-kernel NICs, send real RDMA WRITEs through it, break links, and
get a verdict. Results go to stdout, everything else to stderr.

[bold]A first look[/bold] (as root)

  mrc-testbed up                                    a lab of 16 switches and 8 hosts
  mrc-testbed bench write-bw h0 h5 --size 1MiB      payload across a T1, compared byte for byte
  mrc-testbed fault add link-down --link p0-t0-0:4 --for 5s
  mrc-testbed ev list h0 h5                         which paths are in use, and why not
  mrc-testbed down

[bold]Exit status[/bold]

  0 done   1 error   2 usage or invalid file   3 machine not ready   4 expectation failed   5 aborted
  6 clean-up incomplete   7 result UNTRUSTED   130 interrupted

Every flag is also an environment variable: --name is MRC_TESTBED_NAME. Global flags may stand anywhere.
"""


def build_app() -> typer.Typer:
    """The application with all its commands."""
    app = typer.Typer(
        name="mrc-testbed",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    global_callback(app, _HELP)
    lab.register(app)
    topology.register(app)
    node.register(app)
    scenario.register(app)
    app.add_typer(bench.app, name="bench", rich_help_panel="Use")
    app.add_typer(fault.app, name="fault", rich_help_panel="Use")
    app.add_typer(ev.app, name="ev", rich_help_panel="Use")
    app.add_typer(observability.app, name="metrics", rich_help_panel="Use")
    files.register(app)
    machine.register(app)
    return app


def run(arguments: list[str]) -> int:
    """The exit status of one command line."""
    app = build_app()
    with signals_interrupt():
        return run_to_exit_code(
            lambda: app(args=arguments, prog_name="mrc-testbed", standalone_mode=False), arguments
        )


def main() -> NoReturn:
    """Runs the command line of this process."""
    sys.exit(run(sys.argv[1:]))
