"""Records of what is up, as JSON files that readers never see in part."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from testbed.errors import FabricError

_Record = TypeVar("_Record", bound=BaseModel)


def write_record(path: Path, record: BaseModel) -> None:
    """Replaces the file in one step: a reader sees the old or the new record, never a part."""
    draft = path.with_suffix(f"{path.suffix}.new")
    draft.write_text(record.model_dump_json(indent=1) + "\n")
    draft.replace(path)


def read_record(path: Path, kind: type[_Record], *, what: str, remedy: str) -> _Record | None:
    """The record; None if there is no such file.

    Args:
        path: of the file.
        kind: the model it was written from.
        what: the subject of the message of an error.
        remedy: what the user may do then.

    Raises:
        FabricError: the file is damaged, or of another version's format.
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
