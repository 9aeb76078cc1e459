"""Records of what is up, as JSON files that readers never see in part."""

import os
from pathlib import Path
from typing import Final, TextIO, TypeVar

from pydantic import BaseModel, ValidationError

from mrc_testbed.document.one_step import write_in_one_step
from mrc_testbed.errors import FabricError

_Record = TypeVar("_Record", bound=BaseModel)


PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def private_descriptor(path: Path, flags: int) -> int:
    """Descriptor of a file that only its owner may read, write or lock, made if need be; follows no link."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)


def append_private(path: Path) -> TextIO:
    """The same, open for appending text."""
    return os.fdopen(private_descriptor(path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8")


def create_private(path: Path) -> TextIO:
    """The same, emptied and open for writing text."""
    return os.fdopen(private_descriptor(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8")


def write_private(path: Path, text: str) -> None:
    """Replaces a file, for its owner only, in one step: a reader sees the old or the new, never a part."""
    write_in_one_step(path, text, path.with_suffix(f"{path.suffix}.new"), mode=PRIVATE_FILE)


def write_record(path: Path, record: BaseModel) -> None:
    """Replaces the file in one step: a reader sees the old or the new record, never a part."""
    write_private(path, record.model_dump_json(indent=1) + "\n")


def read_record(path: Path, kind: type[_Record], *, what: str, remedy: str) -> _Record | None:
    """The record; None if there is no such file.

    Args:
        kind: the model it was written from.
        what: the subject of the message of an error.
        remedy: what the user may do then.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise FabricError(f"{what} in {path} cannot be read: {reason}", hint=remedy) from error
