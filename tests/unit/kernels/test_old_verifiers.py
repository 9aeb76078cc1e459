"""Rules of Linux 6.1's verifier, on programs small enough to know the answer of, and on ours."""

import subprocess
from pathlib import Path

import pytest

from tests.kernels import budget
from tests.kernels.object_code import Function, Instruction, read_functions
from tests.kernels.page import PAGE, render
from tests.kernels.static_rules import back_edges, deepest_chain

ADD = Instruction(0x07, 1, 0, 0, 1)
EXIT = Instruction(0x95, 0, 0, 0, 0)

SOURCE = """
static long (*bpf_loop)(int turns, void *callback, void *context, long flags) = (void *)181;
static int (*bpf_timer_set_callback)(void *timer, void *callback) = (void *)170;
static __attribute__((noinline)) int leaf(int value)
{
	volatile char kept[40];
	kept[value & 31] = value;
	return kept[value & 15];
}
static long turn(int number, void *context)
{
	volatile long kept[9];
	kept[number & 7] = number;
	return leaf(kept[number & 3]);
}
static long on_timer(void *map, int *key)
{
	volatile long kept[60];
	kept[*key & 31] = *key;
	return kept[*key & 15];
}
__attribute__((section("xdp"))) int entry(void *context)
{
	volatile int kept = 7;
	bpf_loop(kept, turn, context, 0);
	bpf_timer_set_callback(context, on_timer);
	return leaf(kept);
}
"""


def jump(offset: int) -> Instruction:
    return Instruction(0x05, 0, 0, offset, 0)


def jump_if(offset: int) -> Instruction:
    return Instruction(0x15, 1, 0, offset, 0)


@pytest.fixture
def functions(tmp_path: Path) -> dict[str, Function]:
    source, target = tmp_path / "small.c", tmp_path / "small.o"
    source.write_text(SOURCE)
    subprocess.run(["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-c", source, "-o", target], check=True)
    return read_functions(target)


def test_calls_callbacks_and_frames_are_read_from_an_object(functions: dict[str, Function]) -> None:
    assert {name: [callee.name for callee in function.calls] for name, function in functions.items()} == {
        "entry": ["turn", "leaf"],
        "turn": ["leaf"],
        "leaf": [],
        "on_timer": [],
    }
    assert functions["leaf"].stack_bytes == 40
    assert functions["turn"].stack_bytes == 72
    assert all(function.code[-1].opcode == EXIT.opcode for function in functions.values())


def test_frames_count_in_units_of_32_bytes(functions: dict[str, Function]) -> None:
    assert deepest_chain([functions["entry"]]) == (32 + 96 + 64, ["entry", "turn", "leaf"])
    assert deepest_chain([functions["on_timer"]]) == (480, ["on_timer"])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ([ADD, jump_if(-2), EXIT], []),  # closed by a conditional jump
        ([jump_if(2), ADD, jump(-3), EXIT], []),  # closed by a jump
        (
            [jump(1), ADD, jump_if(1), jump(-3), EXIT],
            [(1, 2)],
        ),  # entered at its head, which the body falls into
        ([jump_if(1), ADD, EXIT], []),  # no loop
    ],
)
def test_a_loop_is_closed_by_a_jump(code: list[Instruction], found: list[tuple[int, int]]) -> None:
    assert back_edges(code) == found


def test_no_program_breaks_a_rule_of_linux_6_1() -> None:
    assert budget.broken_rules(budget.read_kept()) == []


def test_growth_beyond_five_per_cent_shows() -> None:
    kept = {
        "compiler": "14",
        "objects": {"nic": {"instructions": 1000, "stack_bytes": 64}},
        "kernels": {"6.1": {"verified": {"nic": {"shaped": 100_000}}}},
    }
    limit = 100_000 + round(0.05 * budget.BUDGET)

    def grown(instructions: int, verified: int, *, compiler: str = "14", series: str = "6.1") -> list[str]:
        objects = {"nic": {"instructions": instructions, "stack_bytes": 64}}
        return budget.growth(kept, compiler, objects, series, {"nic": {"shaped": verified}})

    assert grown(1050, limit) == []
    assert grown(1051, 0) == ["nic: 1051 instructions, 1000 when budgets.json was written"]
    assert grown(0, limit + 1) == [
        f"nic, shaped: Linux 6.1 goes through {limit + 1} instructions, 100000 before"
    ]
    assert grown(1051, limit + 1, compiler="18") == []
    assert grown(0, limit + 1, series="6.8") == []


def test_a_program_beyond_the_budget_shows() -> None:
    verified = {"nic": {"shaped": budget.BUDGET, "unshaped": budget.BUDGET - 1}}
    assert budget.beyond_budget(verified) == ["nic, shaped: 750000 instructions, 750000 allowed"]


def test_the_page_is_that_of_budgets_json() -> None:
    assert PAGE.read_text() == render(budget.read_kept())
