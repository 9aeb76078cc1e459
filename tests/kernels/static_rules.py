"""Two rules of Linux 6.1's verifier that newer ones do not have, checked without that kernel.

* The frames of a chain of calls may have 512 bytes, each counted in units of 32. Newer kernels with a JIT
  count in units of 16. Counted here are also frames and calls of code that the settings of a lab leave out.
* A loop is closed by a jump: one that falls through into its head is refused as a "back-edge".

Source: check_max_stack_depth() and check_cfg() of Linux 6.1, kernel/bpf/verifier.c.
"""

from collections.abc import Iterable
from typing import Final

from tests.kernels.object_code import Function, Instruction

STACK_LIMIT_BYTES: Final = 512
_FRAME_UNIT_BYTES: Final = 32
_JUMP_CLASSES: Final = (5, 6)
_JUMP, _CALL, _EXIT = 0x00, 0x80, 0x90  # operations of a jump class


def deepest_chain(functions: Iterable[Function]) -> tuple[int, list[str]]:
    """Stack bytes of the deepest chain of calls by 6.1's rule, and its functions."""
    known: dict[str, tuple[int, list[str]]] = {}

    def chain(function: Function) -> tuple[int, list[str]]:
        if function.name not in known:
            deepest, names = max((chain(callee) for callee in function.calls), default=(0, []))
            own = -(-max(function.stack_bytes, 1) // _FRAME_UNIT_BYTES) * _FRAME_UNIT_BYTES
            known[function.name] = own + deepest, [function.name, *names]
        return known[function.name]

    return max((chain(function) for function in functions), default=(0, []))


def back_edges(code: list[Instruction]) -> list[tuple[int, int]]:
    """The (from, to) instruction indices of what 6.1 calls back-edges, walking as it does."""
    found = []
    open_, done = {0}, set()
    path = [(0, 0)]
    while path:
        index, number = path.pop()
        edges = _edges(code, index)
        if number == len(edges):
            open_.discard(index)
            done.add(index)
            continue
        path.append((index, number + 1))
        target, may_loop = edges[number]
        if target in open_ and not may_loop:
            found.append((index, target))
        elif target not in open_ | done:
            open_.add(target)
            path.append((target, 0))
    return found


def _edges(code: list[Instruction], index: int) -> list[tuple[int, bool]]:
    """Where control goes from an instruction, in 6.1's order, and whether a loop may be closed there."""
    instruction = code[index]
    operation = instruction.opcode & 0xF0 if instruction.opcode & 7 in _JUMP_CLASSES else _CALL
    if operation == _EXIT:
        return []
    if operation == _CALL:
        return [(index + 1, False)]
    jump = (index + 1 + instruction.offset, True)
    return [jump] if operation == _JUMP else [(index + 1, True), jump]
