"""Ready scenarios and campaigns, by name where a file is expected: a file wins, a folder does not.

A name is the path below the folder of ready files, without .yaml: `t0-t1-flap`, `paper/p2p`.
"""

from pathlib import Path, PurePath
from typing import Any, Final

import typer

from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.installation import shipped
from mrc_testbed.printable import printable

FOLDER: Final = "scenarios"
_SUFFIX: Final = ".yaml"


def ready_files() -> dict[str, Path]:
    """Name -> path of each ready file, those of sub-folders last."""
    folder = shipped(FOLDER)
    paths = sorted(folder.rglob(f"*{_SUFFIX}"), key=lambda path: (path.parent, path.name))
    return {path.relative_to(folder).as_posix().removesuffix(_SUFFIX): path for path in paths}


def ready_file(text: str, unknown: str = "no ready scenario has this name") -> Path:
    """The path of a ready file; its name may be written `scenarios/NAME.yaml`, as in a clone."""
    files = ready_files()
    name = text.removeprefix(f"{FOLDER}/").removesuffix(_SUFFIX)
    if name in files:
        return files[name]
    last = PurePath(name).name
    elsewhere = next((each for each in files if PurePath(each).name == last), None)
    meant = did_you_mean(name, files) if elsewhere is None else f"; did you mean {elsewhere!r}?"
    raise UsageError(f"{printable(text)}: {unknown}{meant}", hint="mrc-testbed scenarios list")


def file_or_ready(path: Path) -> Path:
    """The path of a file as given, or else of the ready file of this name."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ready_file(str(path), "neither a file nor a ready scenario has this name")
    except OSError:
        return path  # its reader says why it cannot be read
    # results of the ready campaign campaigns/NAME are in a folder campaigns/NAME
    return ready_files().get(str(path), path) if path.is_dir() else path


def complete(incomplete: str) -> list[str]:
    """Ready names; where none begins so, a shell completes files."""
    return [name for name in ready_files() if name.startswith(incomplete)]


def file_argument(metavar: str, what: str) -> Any:
    """The argument of a command that takes a file, or the name of a ready one."""
    help_text = f"{what}, or a name of `scenarios list`."
    return typer.Argument(metavar=metavar, callback=file_or_ready, autocompletion=complete, help=help_text)
