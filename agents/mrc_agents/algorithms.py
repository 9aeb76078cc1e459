"""The algorithms that NICs are built with, of congestion control and EV selection: a C header each.

    python mrc_agents/algorithms.py OBJECTS FOLDER ...

`make bpf` and `make virtual` do that: it looks for FOLDER/cc/NAME.h and FOLDER/ev/NAME.h and writes, into
OBJECTS, the headers that call them and `algorithms.json`, their names by number. `mrc/cc_algorithm.h` and
`mrc/ev_selector.h` say what such a file holds. A lab's programs keep one of each kind, which numbers
in their read-only data choose.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Final

FIXED: Final = "fixed"
"""A window that never changes: no algorithm."""

_BUILT_IN: Final = Path(__file__).parent / "nic" / "bpf"
_OBJECTS: Final = Path(__file__).parent / "_objects"  # make runs this file outside the package
_TABLE: Final = "algorithms.json"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_ON_ACK: Final = "on_ack"
_MARKED: Final = "on_mark"
"""Called in the place of _ON_ACK, by algorithms that have it, for an ACK with a mark."""
_WORD: Final = "word"
_CC_TYPE: Final = "cc_type"
"""Not a function of the file but its constant NAME_CC_TYPE, SETH.cc_type of SACKs with its _WORD."""
_CC_TYPE_MAX: Final = 15
_PARAMETERS: Final = "const struct mrc_cc_parameters *parameters"


@dataclass(frozen=True, slots=True)
class Hook:
    name: str  # without the algorithm's
    result: str  # its type in C
    parameters: str  # in C; the arguments are their names
    is_optional: bool = False  # whether it may be left out
    otherwise: str = "0"  # what is returned then, in C, unless it is nothing

    @property
    def arguments(self) -> str:
        return ", ".join(re.findall(r"(\w+)(?:,|$)", self.parameters))


@dataclass(frozen=True, slots=True)
class AlgorithmKind:
    """The common part of the algorithms of a kind."""

    folder: str  # that its files are in; also what the table calls it
    dispatcher: str  # what its functions are called by, and where the read-only data has its number
    what: str  # in words
    usual: str  # the one that a NIC has unless it is given another; number 0
    hooks: tuple[Hook, ...]  # its functions
    reserved: tuple[str, ...] = ()  # names that are no file's


_RECEIVED: Final = "struct mrc_cc_responder *responder, const struct cc_received *received"
_ACK: Final = f"struct mrc_cc *cc, {_PARAMETERS}, const struct cc_ack *ack"
CC: Final = AlgorithmKind(
    folder="cc",
    dispatcher="cc_algorithm",
    what="congestion control algorithm",
    usual="nscc",
    hooks=(
        Hook("window", "__u32", _PARAMETERS, is_optional=True, otherwise="parameters->max_cwnd_bytes"),
        Hook(_ON_ACK, "__u32", _ACK),
        Hook(_MARKED, "__u32", _ACK, is_optional=True),
        Hook("on_trim", "__u32", f"struct mrc_cc *cc, {_PARAMETERS}, __u64 now_ns, __u32 packet_bytes"),
        Hook("on_loss", "__u32", f"struct mrc_cc *cc, {_PARAMETERS}, __u32 packet_bytes"),
        Hook("on_idle", "void", "struct mrc_cc *cc", is_optional=True),
        Hook(_WORD, "__u32", _RECEIVED, is_optional=True, otherwise="cc_nscc_word(received)"),
        Hook(_CC_TYPE, "__u32", "void", is_optional=True),
    ),
    reserved=(FIXED,),
)
EV: Final = AlgorithmKind(
    folder="ev",
    dispatcher="ev_selector",
    what="EV selector",
    usual="shuffle",
    hooks=(
        Hook("next", "__u32", "struct mrc_qp *qp, __u32 usable_planes, __u64 now_ns"),
        Hook(_ON_ACK, "void", "struct mrc_qp *qp, __u32 ev, int is_marked", is_optional=True),
    ),
)
KINDS: Final = (CC, EV)


class AlgorithmError(Exception):
    """A file of an algorithm is not as it should be."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A file, and which of its kind's functions it has."""

    name: str
    file: Path
    hooks: frozenset[str]
    cc_type: int


def find_algorithms(kind: AlgorithmKind, folders: Iterable[Path]) -> list[Algorithm]:
    """Those in *folders*, by number: the usual one first, then by name."""
    found: dict[str, Algorithm] = {}
    for file in [file for folder in folders for file in sorted((folder / kind.folder).glob("*.[ch]"))]:
        name = file.stem
        if file.suffix != ".h" or not _NAME.fullmatch(name):
            raise AlgorithmError(
                f"{file}: a {kind.what} is a file NAME.h, NAME of lower-case letters, digits and _"
            )
        if name in found or name in kind.reserved:
            raise AlgorithmError(f"{file}: there is another {name} already")
        text = file.read_text(encoding="utf-8")
        hooks = {hook.name for hook in kind.hooks if re.search(rf"\b{name}_{hook.name}\s*\(", text)}
        needed = [hook.name for hook in kind.hooks if not hook.is_optional]
        if missing := [f"{name}_{hook}()" for hook in needed if hook not in hooks]:
            every = ", ".join(f"{name}_{hook}()" for hook in needed)
            raise AlgorithmError(f"{file}: lacks {', '.join(missing)}; a {kind.what} has {every}")
        constant = f"{name.upper()}_{_CC_TYPE.upper()}"
        number = re.search(rf"\b{constant}\s*=?\s*(\d+)", text)
        cc_type = int(number[1]) if number else 0
        if (_WORD in hooks) != (0 < cc_type <= _CC_TYPE_MAX):
            raise AlgorithmError(
                f"{file}: {name}_{_WORD}() and {constant}, 1 to {_CC_TYPE_MAX}, come together or not at all"
            )
        found[name] = Algorithm(name, file, frozenset(hooks), cc_type)
    if kind.usual not in found:
        raise AlgorithmError(f"no folder has {kind.folder}/{kind.usual}.h")
    return sorted(found.values(), key=lambda each: (each.name != kind.usual, each.name))


def dispatch_header(kind: AlgorithmKind, algorithms: Sequence[Algorithm], objects: Path) -> str:
    """The C header that calls the algorithm which a lab's read-only data names."""
    prefix = kind.dispatcher
    parts = [
        "/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */",
        "/* Written by agents/mrc_agents/algorithms.py: run `make bpf`, do not edit. */",
        f"#ifndef MRC_{prefix.upper()}S_H",
        f"#define MRC_{prefix.upper()}S_H",
        "",
        "#include <mrc/fabric_config.h>",
        *(f'#include "{_include_path(each.file, objects)}"' for each in algorithms),
    ]
    usual, *others = enumerate(algorithms)
    for hook in kind.hooks:
        if hook.name == _MARKED:
            continue
        parts += [
            "",
            f"static __always_inline {hook.result} {prefix}_{hook.name}({hook.parameters})",
            "{",
            f"	switch (fabric_config.{prefix}) {{",
            *(
                f"	case {number}: /* {each.name} */\n		{_call(each, hook)}"
                for number, each in others
            ),
            f"	default:\n		{_call(usual[1], hook)}",
            "	}",
            "}",
        ]
    return "\n".join([*parts, "", "#endif", ""])


def _call(algorithm: Algorithm, hook: Hook) -> str:
    if hook.name == _CC_TYPE:
        return f"return {algorithm.cc_type};"
    if hook.name not in algorithm.hooks:
        return "return;" if hook.result == "void" else f"return {hook.otherwise};"
    call = f"{algorithm.name}_{hook.name}({hook.arguments})"
    if hook.name == _ON_ACK and _MARKED in algorithm.hooks:
        call = f"ack->is_marked ? {algorithm.name}_{_MARKED}({hook.arguments}) : {call}"
    return f"{call};\n		return;" if hook.result == "void" else f"return {call};"


def _include_path(file: Path, objects: Path) -> str:
    """As the clone has it, wherever the clone is; a path of the user's own as a whole."""
    inside = file.resolve().is_relative_to(_BUILT_IN.resolve())
    return relpath(file.resolve(), objects.resolve()) if inside else str(file.resolve())


def write_table(objects: Path, folders: Sequence[Path]) -> None:
    """Writes headers and names into *objects*, unless that is what they hold already."""
    for folder in folders:
        if not any((folder / kind.folder).is_dir() for kind in KINDS):
            places = " nor ".join(f"{kind.folder}/" for kind in KINDS)
            raise AlgorithmError(f"{folder}: holds no folder {places}")
    objects.mkdir(parents=True, exist_ok=True)
    names: dict[str, list[str]] = {}
    for kind in KINDS:
        algorithms = find_algorithms(kind, [_BUILT_IN, *folders])
        names[kind.folder] = [each.name for each in algorithms]
        header = dispatch_header(kind, algorithms, objects)
        _write_changed(objects / f"{kind.dispatcher}s.h", header)
    _write_changed(objects / _TABLE, json.dumps(names) + "\n")


def _write_changed(file: Path, text: str) -> None:
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


@cache
def names_of(kind: AlgorithmKind) -> tuple[str, ...]:
    """The algorithms that the BPF objects have, by number; where none were built, those of the sources."""
    table = _OBJECTS / _TABLE
    if not table.exists():
        return tuple(each.name for each in find_algorithms(kind, [_BUILT_IN]))
    return tuple(json.loads(table.read_text(encoding="utf-8"))[kind.folder])


def main() -> None:
    """Write the table that the command line asks for."""
    objects, *folders = map(Path, sys.argv[1:])
    try:
        write_table(objects, folders)
    except AlgorithmError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
