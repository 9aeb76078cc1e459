"""The functions of a BPF object, read from its ELF file: instructions, calls, stack.

Source: RFC 9669 (instructions), Linux Documentation/bpf/llvm_reloc.rst (relocations).
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

INSTRUCTION_BYTES: Final = 8
_FRAME_POINTER: Final = 10
_SYMBOL_TABLE, _RELOCATIONS = 2, 9  # sh_type
_SECTION_SYMBOL, _FUNCTION_SYMBOL = 3, 2  # symbol types
_LOADS, _STORES = (1,), (2, 3)  # instruction classes
_LOAD_IMMEDIATE_64, _CALL, _MOVE, _ADD_IMMEDIATE = 0x18, 0x85, 0xBF, 0x07
_CALL_OF_FUNCTION: Final = 1  # source register of such a call
_TIMER_SET_CALLBACK: Final = 170  # helper


class Instruction(NamedTuple):
    """One instruction slot; a 64-bit immediate load takes two."""

    opcode: int
    destination: int
    source: int
    offset: int
    immediate: int


class Place(NamedTuple):
    """Where a function begins: index of its section, and byte offset there."""

    section: int
    offset: int


@dataclass(slots=True)
class Function:
    """One function."""

    name: str  # its symbol
    code: list[Instruction]  # its instructions
    # the functions that it calls, or has a helper call while it waits
    calls: list["Function"] = field(default_factory=list)
    stack_bytes: int = 0  # deepest byte of its frame that it names


def read_functions(path: Path) -> dict[str, Function]:
    """All functions of the object at *path*, by name. Callbacks of timers are called by none: they run on a
    stack of their own.
    """
    elf = _Elf(path.read_bytes())
    functions = {place: Function(name, elf.code(place, size)) for place, name, size in elf.functions()}
    for place, function in functions.items():
        function.stack_bytes = _stack_bytes(function.code)
        function.calls = [functions[callee] for callee in _callees(elf, place, function.code)]
    return {function.name: function for function in functions.values()}


class _Elf:
    """A little-endian 64-bit relocatable file."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        table, count = struct.unpack_from("<Q", content, 40)[0], struct.unpack_from("<H", content, 60)[0]
        self._sections = [struct.unpack_from("<IIQQQQIIQQ", content, table + 64 * i) for i in range(count)]
        self._symbols: list[tuple[str, int, Place, int]] = []
        for _, kind, _, _, offset, size, link, *_ in self._sections:
            if kind == _SYMBOL_TABLE:
                self._symbols = [self._symbol(offset + at, link) for at in range(0, size, 24)]
        self._relocations: dict[Place, int] = {}
        for _, kind, _, _, offset, size, _, target, *_ in self._sections:
            if kind == _RELOCATIONS:
                for at in range(offset, offset + size, 16):
                    where, info = struct.unpack_from("<QQ", content, at)
                    self._relocations[Place(target, where)] = info >> 32

    def _symbol(self, at: int, names: int) -> tuple[str, int, Place, int]:
        name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self._content, at)
        start = self._sections[names][4] + name
        text = self._content[start : self._content.index(b"\0", start)].decode()
        return text, info & 15, Place(section, value), size

    def functions(self) -> list[tuple[Place, str, int]]:
        return [(place, name, size) for name, kind, place, size in self._symbols if kind == _FUNCTION_SYMBOL]

    def code(self, place: Place, size_bytes: int) -> list[Instruction]:
        start = self._sections[place.section][4] + place.offset
        slots = struct.iter_unpack("<BBhi", self._content[start : start + size_bytes])
        return [
            Instruction(opcode, registers & 15, registers >> 4, offset, immediate)
            for opcode, registers, offset, immediate in slots
        ]

    def target(self, at: Place, in_section: int) -> Place | None:
        """The place that the relocation at *at* names, or None; *in_section* is added to a section."""
        number = self._relocations.get(at)
        if number is None:
            return None
        _, kind, place, _ = self._symbols[number]
        return Place(place.section, place.offset + (in_section if kind == _SECTION_SYMBOL else 0))


def _callees(elf: _Elf, start: Place, code: list[Instruction]) -> list[Place]:
    known = {place for place, _, _ in elf.functions()}
    found: dict[Place, None] = {}
    given: list[Place] = []  # functions whose address is on its way to a helper
    for index, instruction in enumerate(code):
        at = Place(start.section, start.offset + index * INSTRUCTION_BYTES)
        if instruction.opcode == _LOAD_IMMEDIATE_64:
            target = elf.target(at, instruction.immediate)
            if target in known:
                given.append(target)
        elif instruction.opcode == _CALL and instruction.source == _CALL_OF_FUNCTION:
            within = (instruction.immediate + 1) * INSTRUCTION_BYTES
            found[elf.target(at, within) or Place(at.section, at.offset + within)] = None
        elif instruction.opcode == _CALL:
            if instruction.immediate != _TIMER_SET_CALLBACK:
                found |= dict.fromkeys(given)
            given = []
    return list(found)


def _stack_bytes(code: list[Instruction]) -> int:
    deepest = 0
    copies: set[int] = set()  # registers that hold the frame pointer
    for instruction in code:
        kind = instruction.opcode & 7
        base = instruction.source if kind in _LOADS else instruction.destination
        if kind in _LOADS + _STORES and base == _FRAME_POINTER:
            deepest = max(deepest, -instruction.offset)
        elif instruction.opcode == _ADD_IMMEDIATE and instruction.destination in copies:
            deepest = max(deepest, -instruction.immediate)
            copies.discard(instruction.destination)
        elif instruction.opcode == _MOVE and instruction.source == _FRAME_POINTER:
            copies.add(instruction.destination)
    return deepest
