"""completion: the script for a shell."""

from typing import Annotated, Final, Literal

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined] # typer imports it there

from testbed.cli.options import Settings, command
from testbed.cli.render import write_out

_PROGRAM: Final = "mrc-testbed"
_COMPLETION_VARIABLE: Final = "_MRC_TESTBED_COMPLETE"


def register(app: typer.Typer) -> None:
    """Adds the command of this module to *app*."""
    command(app, "completion")(completion)


def completion(
    settings: Settings, shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Which shell.")]
) -> None:
    """Print the script that completes commands, flags and names in a shell.

    `mrc-testbed --install-completion` puts it where the shell looks for it.

    [bold]Examples[/bold]

      source <(mrc-testbed completion bash)
      mrc-testbed completion fish > ~/.config/fish/completions/mrc-testbed.fish
    """
    script = get_completion_script(prog_name=_PROGRAM, complete_var=_COMPLETION_VARIABLE, shell=shell)
    write_out(settings, f"{script}\n")
