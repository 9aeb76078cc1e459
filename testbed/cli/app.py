"""The mrc-testbed command line: its groups of commands, and its way out.

Only the modules of the commands that are named are imported: all of them together take half a second, which
would be felt at every call and at every TAB.
"""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Final, Literal, NoReturn

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined] # typer imports it there

from testbed.cli.exit_codes import run_to_exit_code
from testbed.cli.interruption import signals_interrupt
from testbed.cli.options import Settings, command, global_callback
from testbed.cli.render import write_out

PROGRAM: Final = "mrc-testbed"
MODULES: Final = {
    "lab": ("up", "deploy", "down", "destroy", "status"),
    "topology": ("inspect", "graph"),
    "node": ("exec", "logs", "restart", "shell"),
    "scenario": ("run", "plan", "report", "demo"),
    "campaign": ("campaign", "compare"),
    "bench": ("bench",),
    "fault": ("fault",),
    "ev": ("ev",),
    "probe": ("probe",),
    "queues": ("queues",),
    "capture": ("capture",),
    "live": ("top", "serve"),
    "observability": ("metrics",),
    "observe": ("observe",),
    "dashboards": ("dashboards",),
    "files": ("validate", "schema"),
    "machine": ("doctor", "version", "host", "image"),
}
"""Module of testbed.cli to the commands and groups that its `register` adds."""

_COMPLETION_VARIABLE: Final = "_MRC_TESTBED_COMPLETE"

_HELP = """See Multipath Reliable Connection (MRC) work on one Linux box.

Stand up a software multi-plane Clos with in-kernel NICs, send real RDMA
WRITEs through it, break links, and get a verdict. Results go to stdout,
everything else to stderr.

[bold]A first look[/bold] (as root)

  mrc-testbed up                                   16 switches, 8 hosts
  mrc-testbed bench write-bw h0 h5 --size 1MiB     compared byte for byte
  mrc-testbed fault add link-down --link p0-t0-0:4 --for 5s
  mrc-testbed ev list h0 h5                        paths and their state
  mrc-testbed run scenarios/t0-t1-flap.yaml        a verdict and a report
  mrc-testbed down

[bold]Exit status[/bold]

  0 done   1 error   2 usage or invalid file   3 machine not ready
  4 expectation failed   5 aborted   6 clean-up incomplete
  7 result UNTRUSTED   130 interrupted

Every flag is also an environment variable: --name is MRC_TESTBED_NAME.
Global flags may stand before the command or after it.
"""


def build_app(words: Iterable[str] = ()) -> typer.Typer:
    """The application with its commands.

    Args:
        words: of a command line; when commands are among them, the application has these for certain, others
            perhaps.
    """
    app = typer.Typer(
        name=PROGRAM,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    global_callback(app, _HELP)
    named = [module for module, names in MODULES.items() if not set(names).isdisjoint(words)]
    for module in named or MODULES:
        import_module(f"testbed.cli.{module}").register(app)
    command(app, "completion", panel="Machine")(completion)
    return app


def completion(
    settings: Settings, shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Which shell.")]
) -> None:
    """Print the script that completes commands, flags and names in a shell.

    `mrc-testbed --install-completion` puts it where the shell looks for it.

    [bold]Examples[/bold]

      source <(mrc-testbed completion bash)
      mrc-testbed completion fish > ~/.config/fish/completions/mrc-testbed.fish
    """
    script = get_completion_script(prog_name=PROGRAM, complete_var=_COMPLETION_VARIABLE, shell=shell)
    write_out(settings, f"{script}\n")


def run(arguments: list[str]) -> int:
    """The exit status of one command line."""
    # When a shell asks for completions, the line being typed stands in one of these variables.
    typed = " ".join(os.environ.get(name, "") for name in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS"))
    app = build_app([*arguments, *typed.split()])
    with signals_interrupt():
        return run_to_exit_code(
            lambda: app(args=arguments, prog_name=PROGRAM, standalone_mode=False), arguments
        )


def main() -> NoReturn:
    """Runs the command line of this process."""
    sys.exit(run(sys.argv[1:]))
