"""The envelope every file of ours has: apiVersion, kind, metadata, spec.

    document = load(Path("lab.yaml"), Kind.TOPOLOGY)
    spec = validate(document, TopologySpec)

`load` refuses what is not a file of that kind; `validate` reports everything else that is wrong, at once.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, create_model

from mrc_testbed.document.fields import StrictModel
from mrc_testbed.document.problem import Location, Position, Problem, Tree, usage_error
from mrc_testbed.document.text_file import read_text
from mrc_testbed.document.validation import AnyModel, check
from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.printable import printable

API_VERSION: Final = "mrc-testbed/v1"
NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""Pattern of a file's name, which names folders too."""


class Kind(StrEnum):
    SCENARIO = "Scenario"
    TOPOLOGY = "Topology"
    CAMPAIGN = "Campaign"


_COMMANDS: Final = {
    Kind.SCENARIO.value: "run",
    Kind.CAMPAIGN.value: "campaign run",
    Kind.TOPOLOGY.value: "up -t",
}
"""Kind -> the command that takes such a file."""


class Metadata(StrictModel):
    """The identity of a file: it names runs, folders and metrics."""

    name: Annotated[
        str,
        Field(
            pattern=NAME_PATTERN,
            description="Lower-case letters, digits and hyphens; names the folder of its runs.",
        ),
    ]
    description: Annotated[str, Field(description="The purpose of the file, for people.")] = ""
    paper: Annotated[str | None, Field(description="The published result it reproduces.")] = None
    claim: Annotated[str | None, Field(description="The claim to check, in one sentence.")] = None
    tags: Annotated[tuple[str, ...], Field(description="Words to select files.")] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a known kind, not yet checked against a model.

    Args:
        source: file name for messages.
        path: the file, to which relative paths in it refer; None for text that came from elsewhere.
        text: as it was read.
        tree: the whole file as plain values.
        positions: where each entry stands.
    """

    source: str
    path: Path | None
    text: str
    kind: Kind
    tree: Mapping[str, Tree]
    positions: Mapping[Location, Position]

    @property
    def metadata(self) -> Metadata:
        """The metadata block.

        Raises:
            UsageError: it is missing or wrong.
        """
        metadata, problems = check(self.tree.get("metadata"), Metadata)
        if metadata is None:
            located = (Problem(("metadata", *p.location), p.message) for p in problems)
            raise self.usage_error(located)
        return metadata

    def usage_error(self, problems: Iterable[Problem]) -> UsageError:
        """One error listing *problems* with their lines; for rules that only show once names are resolved.

        Args:
            problems: located from the top of the file, so below `spec` for most.
        """
        return usage_error(self.source, self.positions, problems)


def load(source: Path | str, kind: Kind | str | None = None) -> Document:
    """The file *source* (or, given as str, that text itself), if it is of *kind*; of any kind for None.

    Raises:
        UsageError: unreadable, not YAML, duplicate keys, or not a file of that kind.
    """
    from mrc_testbed.document.yaml_tree import parse_tree  # noqa: PLC0415 - few commands read such a file

    path = source if isinstance(source, Path) else None
    name = "<text>" if path is None else printable(str(path))
    text = cast("str", source) if path is None else read_text(path)
    tree, positions = parse_tree(text, name)
    if not isinstance(tree, dict):
        expected = f"expected a mapping with apiVersion: {API_VERSION}, kind, metadata and spec"
        raise usage_error(name, positions, [Problem((), expected)])
    problems = []
    if tree.get("apiVersion") != API_VERSION:
        problems.append(Problem(("apiVersion",), f"must be {API_VERSION}"))
    accepted = [str(known) for known in Kind] if kind is None else [str(Kind(kind))]
    found = tree.get("kind")
    if found not in accepted:
        seen = f", found {found!r}{did_you_mean(found, accepted)}" if isinstance(found, str) else ""
        if isinstance(found, str) and (command := _COMMANDS.get(found)) is not None:
            seen += f", which is for `mrc-testbed {command}`"
        problems.append(Problem(("kind",), f"must be {' or '.join(accepted)}{seen}"))
    if problems:
        raise usage_error(name, positions, problems)
    return Document(name, path, text, Kind(str(found)), tree, positions)


def validate(
    document: Document, model: type[AnyModel], check_spec: Callable[[AnyModel], AnyModel] | None = None
) -> AnyModel:
    """The spec of *document* as *model*.

    Args:
        check_spec: what else must hold of the spec, as a validator of pydantic.

    Raises:
        UsageError: lists every problem of the file as `file:line: dotted.key: ...`.
    """
    envelope, problems = check(dict(document.tree), _envelope(document.kind, model, check_spec))
    if envelope is None:
        raise document.usage_error(problems)
    return cast("AnyModel", envelope.spec)  # type: ignore[attr-defined] # built by create_model


def validate_values(values: Mapping[str, Tree], model: type[AnyModel], source: str) -> AnyModel:
    """*values* that come from no file as *model*: command line options, a stored state.

    Args:
        values: as YAML would give them, so with units as text.
        source: what messages call their origin, for example `command line`.

    Raises:
        UsageError: lists every problem as `source: dotted.key: ...`.
    """
    made, problems = check(dict(values), model)
    if made is None:
        raise usage_error(source, {}, problems)
    return made


def json_schema(kind: Kind | str, model: type[BaseModel]) -> dict[str, Any]:
    """JSON Schema (2020-12) of a whole file of *kind* whose spec is *model*, for editors."""
    schema = _envelope(Kind(kind), model).model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


@functools.cache
def _envelope(
    kind: Kind, model: type[BaseModel], check_spec: Callable[[Any], Any] | None = None
) -> type[BaseModel]:
    spec: Any = model if check_spec is None else Annotated[model, AfterValidator(check_spec)]
    return create_model(
        kind.value,
        __base__=StrictModel,
        __doc__=f"A {kind.value} file of mrc-testbed.",
        apiVersion=(_constant(API_VERSION), ...),
        kind=(_constant(kind.value), ...),
        metadata=(Metadata, ...),
        spec=(spec, ...),
    )


def _constant(value: str) -> Any:
    """Type of a field that `load` has already compared with *value*."""
    return Annotated[str, WithJsonSchema({"const": value})]
