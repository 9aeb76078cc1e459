"""Global flags, and the decorator that gives every command the ones it takes.

A flag may stand before the command or after it; after it wins. Each flag of every command is also an
environment variable, MRC_TESTBED_ and its long name. A global flag that a command does not take is refused.
The help of a command shows its own flags; those that all commands take are in `mrc-testbed --help`.
"""

import functools
import inspect
import logging
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer
from rich.console import Console
from rich.logging import RichHandler

from mrc_testbed.cli.interruption import deadline
from mrc_testbed.cli.output import TerminalSafeConsole
from mrc_testbed.cli.progress import Progress
from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.fabric.paths import DEFAULT_LAB, lab_folders, lab_paths
from mrc_testbed.installation import as_root
from mrc_testbed.units import parse_duration_ns

ENVIRONMENT_PREFIX: Final = "MRC_TESTBED_"
DEFAULT_SEED: Final = 1
GLOBAL_PANEL: Final = "Global options"
ELSEWHERE: Final = ("virtual", "cluster", "moments", "condition")
"""Parameters of commands that can do without a lab of this machine."""

COMMANDS: Final = typer.Typer(rich_markup_mode="rich")
"""Commands and groups of `mrc-testbed`; the module of each adds it here."""

OBSERVE_COMMANDS: Final = typer.Typer(rich_markup_mode="rich")
"""Those of `mrc-testbed observe`."""


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"


RunsFolder = Annotated[
    Path, typer.Option("--runs", metavar="FOLDER", help="Folder of result folders, one per run.")
]

TraceOption = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FOLDER",
        help="Write a Chakra execution trace of each rank; of programs, those by mrc-torch.",
    ),
]


def _note_overload(is_given: bool | None) -> None:
    if is_given:
        typer.echo(
            "--overload is not needed: no load is refused any more; a later version refuses it", err=True
        )


_OPTIONS: Final[dict[str, tuple[object, typer.models.OptionInfo]]] = {
    "topology": (
        Path | None,
        typer.Option("-t", "--topology", metavar="FILE", help="Topology file (default: the default lab)."),
    ),
    "name": (
        str | None,
        typer.Option(
            "-n",
            "--name",
            metavar="LAB",
            autocompletion=lambda incomplete: [lab for lab in lab_folders() if lab.startswith(incomplete)],
            help=f"Name of the lab (default: {DEFAULT_LAB}).",
        ),
    ),
    "output": (
        OutputFormat | None,
        typer.Option("-o", "--output", help="Format of results; all but table are for programs."),
    ),
    "dry_run": (
        bool | None,
        typer.Option("--dry-run", show_default=False, help="Show what would be done; change nothing."),
    ),
    "seed": (
        int | None,
        typer.Option("--seed", min=0, metavar="NUMBER", help="Seed of every random choice."),
    ),
    "timeout": (
        int | None,
        typer.Option(
            "--timeout", parser=parse_duration_ns, metavar="TIME", help="Time-out of the command, like 90s."
        ),
    ),
    "verbose": (
        int,
        typer.Option(
            "-v", "--verbose", count=True, show_default=False, help="Log more on stderr; -vv logs all."
        ),
    ),
    "quiet": (bool | None, typer.Option("-q", "--quiet", show_default=False, help="Log only errors.")),
    "no_color": (
        bool | None,
        typer.Option("--no-color", show_default=False, help="Disable colours, as NO_COLOR does."),
    ),
    "overload": (bool | None, typer.Option("--overload", hidden=True, callback=_note_overload)),
}
_OUR_PACKAGES: Final = ("mrc_agents", "mrc_testbed")
_COMMON_FLAGS: Final = ("output", "timeout", "verbose", "quiet", "no_color")
_EPILOG: Final = "Global options, such as --output json: mrc-testbed --help"


AddressOption = Annotated[str, typer.Option("--address", metavar="IP", help="Address to listen on.")]
PortOption = Annotated[
    int,
    typer.Option("--port", "-p", min=0, max=65535, metavar="NUMBER", help="TCP port; 0 for any free one."),
]
ForceOption = Annotated[
    bool, typer.Option("--force", show_default=False, help="Replace files that exist and differ.")
]


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib import metadata  # noqa: PLC0415 - takes longer to import than --help to print

        version, python = metadata.version("mrc-testbed"), platform.python_version()
        typer.echo(f"mrc-testbed {version}, Python {python}, Linux {platform.release()} {platform.machine()}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version",
        is_eager=True,
        callback=_print_version,
        show_default=False,
        help="Print the versions of mrc-testbed, Python and kernel.",
    ),
]


@dataclass(frozen=True, slots=True)
class Settings:
    """Values of the global flags for one command."""

    topology: Path | None  # topology file; None for the default lab
    name: str  # name of the lab
    names_lab: bool  # whether the user gave that name
    output: OutputFormat  # how to print the result
    is_dry_run: bool  # only show what would be done
    seed: int | None  # decides random choices; None when not given
    stdout: Console  # where results go
    stderr: Console  # where everything else goes
    progress: Progress  # called with the present step
    verbosity: int  # -1 for --quiet, otherwise the number of -v


def command(
    app: typer.Typer, name: str, *, flags: Iterable[str] = (), needs_root: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function `(settings, ...)` as the command *name* of *app*.

    Args:
        flags: global flags it takes besides those that all do.
        needs_root: it touches a lab of this machine; without root it is refused at once, but for a dry run,
            or with --virtual or --cluster.
    """
    accepted = (*flags, *_COMMON_FLAGS)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = _own_parameters(function)

        @functools.wraps(function)
        def invoke(ctx: typer.Context, **values: Any) -> Any:
            given = {key: values.pop(key) for key in accepted}
            settings, timeout_ns = _settings(ctx, given, accepted, name)
            if needs_root and not settings.is_dry_run and not any(map(values.get, ELSEWHERE)):
                require_root(name)
            progress = settings.progress
            with (
                _logs_shown(settings.stderr, settings.verbosity),
                deadline(timeout_ns, lambda: progress.stage),
                progress.shown(),
            ):
                return function(settings, **values)

        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        shared = [_option_parameter(key, is_global=False) for key in accepted]
        _set_signature(invoke, [context, *own, *shared])
        app.command(name, epilog=_EPILOG)(invoke)
        return invoke

    return decorate


def global_callback(app: typer.Typer, text: str) -> None:
    """Add all global flags to *app*, before its commands, and *text* as its help."""

    def remember(ctx: typer.Context, version: bool, **values: Any) -> None:  # noqa: ARG001 - `_print_version` ends
        ctx.obj = values

    remember.__doc__ = text
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    version = inspect.Parameter(
        "version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=VersionOption
    )
    flags = (_option_parameter(key, is_global=True) for key in _OPTIONS if key != "overload")
    _set_signature(remember, [context, version, *flags])
    app.callback()(remember)


def require_root(command_name: str) -> None:
    """Refuse a command that touches a lab without root."""
    if os.geteuid() != 0:
        raise PreflightError(
            f"{command_name!r} needs root: it touches a lab", hint=f"run it with sudo: {as_root('...')}"
        )


def with_parameters(function: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> None:
    """Give *function*, which takes settings and keywords, a signature that `command` reads options from."""
    settings = inspect.Parameter("settings", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Settings)
    _set_signature(function, [settings, *parameters])


def _settings(
    ctx: typer.Context, given: dict[str, Any], accepted: tuple[str, ...], command_name: str
) -> tuple[Settings, int | None]:
    before: dict[str, Any] = ctx.find_root().obj or {}
    for key in ("topology", "dry_run", "seed"):
        if before.get(key) is not None and key not in accepted and not os.environ.get(_environment_name(key)):
            flag = "--" + key.replace("_", "-")
            raise UsageError(f"{flag} is not an option of {command_name!r}", hint=f"leave {flag} out")
    merged = {key: given.get(key) or before.get(key) for key in _OPTIONS}
    if given.get("seed") is not None:
        merged["seed"] = given["seed"]  # zero is a seed
    verbosity = -1 if merged["quiet"] else merged["verbose"] or 0
    no_color = True if merged["no_color"] or os.environ.get("NO_COLOR") else None
    stdout = TerminalSafeConsole(no_color=no_color, markup=False, highlight=False)
    stderr = TerminalSafeConsole(no_color=no_color, stderr=True, markup=False, highlight=False)
    if "" in (given.get("name"), before.get("name")):
        raise UsageError("-n names no lab", hint="leave it out for the default lab")
    if "name" in accepted and merged["name"]:
        lab_paths(merged["name"])  # refuses what no lab can be called, before anything is done or shown
    settings = Settings(
        topology=merged["topology"],
        name=merged["name"] or DEFAULT_LAB,
        names_lab=bool(merged["name"]),
        output=merged["output"] or OutputFormat.TABLE,
        is_dry_run=bool(merged["dry_run"]),
        seed=merged["seed"],
        stdout=stdout,
        stderr=stderr,
        progress=Progress(stderr, is_quiet=verbosity < 0),
        verbosity=verbosity,
    )
    return settings, merged["timeout"]


@contextmanager
def _logs_shown(stderr: Console, verbosity: int) -> Iterator[None]:
    """Show our logs on stderr while the block lasts."""
    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    handler = RichHandler(console=stderr, show_path=False, omit_repeated_times=False, log_time_format="%X")
    handler.setFormatter(logging.Formatter("%(message)s"))
    before = {logger: logger.level for logger in map(logging.getLogger, _OUR_PACKAGES)}
    for logger in before:
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level_before in before.items():
            logger.removeHandler(handler)
            logger.setLevel(level_before)


def _own_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters of the command itself, each option with its environment variable."""
    hints = get_type_hints(function, include_extras=True)
    own = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        annotation = hints[parameter.name]
        for extra in get_args(annotation)[1:]:
            if isinstance(extra, typer.models.OptionInfo) and extra.envvar is None:
                long_names = [text for text in extra.param_decls or () if text.startswith("--")]
                long_name = (
                    long_names[0].partition("/")[0].removeprefix("--") if long_names else parameter.name
                )
                extra.envvar = _environment_name(long_name)
                extra.show_envvar = False
        own.append(parameter.replace(annotation=annotation))
    return own


def _option_parameter(key: str, *, is_global: bool) -> inspect.Parameter:
    annotation, shared = _OPTIONS[key]
    option = object.__new__(type(shared))
    option.__dict__.update(shared.__dict__)
    option.rich_help_panel = GLOBAL_PANEL if is_global else None
    option.hidden = option.hidden or (not is_global and key in _COMMON_FLAGS)
    option.envvar = _environment_name(key) if is_global else None
    option.show_envvar = False
    return inspect.Parameter(
        key,
        inspect.Parameter.KEYWORD_ONLY,
        default=0 if annotation is int else None,
        annotation=Annotated[annotation, option],
    )


def _set_signature(function: Any, parameters: list[inspect.Parameter]) -> None:
    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    function.__signature__ = inspect.Signature(ordered)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    # functools.wraps leaves a way back to the undecorated function, which typer would follow.
    if hasattr(function, "__wrapped__"):
        del function.__wrapped__


def _environment_name(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.replace("-", "_").upper()
