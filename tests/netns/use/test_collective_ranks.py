"""Collectives of libmrc_coll: right to the bit, many at once, and a failure that all ranks name alike."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from launching import Launch

from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.fabric.live import Lab

PROGRAM = Path(__file__).with_name("collective_ranks.py")
ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "mrc-torch"

Ranks = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def ranks(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    """Runs cases on four ranks."""
    paths = [str(PACKAGE), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    def run(*cases: str, transport: str = "mrc") -> tuple[int, list[str], str]:
        options = ("--ranks", "4", "--transport", transport)
        return launch(*options, "--", sys.executable, str(PROGRAM), *cases)

    return run


def test_results_are_right_to_the_bit_and_operations_independent(ranks: Ranks) -> None:
    status, said, complained = ranks(
        "sums_are_right",
        "sums_are_in_the_order_of_gloo",
        "chunks_are_scattered_and_gathered",
        "all_give_each_what_is_its",
        "operations_do_not_wait_for_each_other",
        "ranks_leave_after_their_last_operation",
    )
    assert (status, said) == (0, [f"[{rank}] done" for rank in range(4)]), complained


def test_the_program_of_the_guide(launch: Launch, tmp_path: Path) -> None:
    (example,) = re.findall(r"```c\n(.*?)```", (ROOT / "docs/guide/training.md").read_text(), re.DOTALL)
    (tmp_path / "sum.c").write_text(example)
    program = tmp_path / "sum"
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}/agents/mrc_agents/collectives", f"-L{OBJECTS_DIR}"]
    libraries = ["-lmrc_coll", "-libverbs"]
    subprocess.run(["clang", *flags, str(tmp_path / "sum.c"), "-o", str(program), *libraries], check=True)
    status, said, complained = launch("--", str(program))
    assert (status, said) == (0, [f"[{rank}] rank {rank}: sum 6" for rank in range(4)]), complained


def test_results_are_right_over_rocev2(ranks: Ranks) -> None:
    status, said, complained = ranks(
        "sums_are_right", "chunks_are_scattered_and_gathered", transport="rocev2"
    )
    assert (status, said) == (0, [f"[{rank}] done" for rank in range(4)]), complained


@pytest.mark.parametrize(
    ("case", "status", "reason"),
    [
        ("a_rank_is_killed", 137, "rank 2 has died"),
        ("a_rank_leaves", 1, "rank 2 has left, and an operation needs it"),
    ],
)
def test_all_ranks_name_the_one_at_fault(ranks: Ranks, case: str, status: int, reason: str) -> None:
    found, said, complained = ranks(case)
    assert found == status, complained
    assert {line.partition(" ")[2] for line in said} - {"done"} == {reason}
    assert len(said) >= 3


def test_ranks_that_do_not_agree_say_so(ranks: Ranks) -> None:
    status, said, _ = ranks("a_rank_has_another_size")
    assert status == 1
    assert {re.sub(r"\d+", "N", line[4:]) for line in said} == {
        "rank N sends N bytes where N are expected: the ranks of a group do not agree on operation or sizes"
    }


def test_ranks_with_different_types_name_both(ranks: Ranks) -> None:
    status, said, _ = ranks("a_rank_has_another_type")
    assert status == 1
    assert len(said) == 4
    for line in said:
        ours, theirs = r"rank [013] reduces f32 by SUM", "rank 2 reduces i32 by SUM"
        assert re.search(f"{ours} where {theirs}: |{theirs} where {ours}: ", line), line


def test_a_rank_that_does_not_come_is_waited_for_until_the_time_out(ranks: Ranks) -> None:
    status, said, _ = ranks("a_rank_never_comes")
    assert status == 1
    assert {re.sub(r"rank \d", "rank N", line[4:]) for line in said} == {
        "time-out: rank N waits for rank N since 300 ms"
    }


def test_a_nic_that_fails_is_named(ranks: Ranks, live: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "RESTART", f"{Path(sys.executable).with_name('mrc-testbed')} -n {live.name} restart h2"
    )
    status, said, complained = ranks("a_nic_fails")
    assert (status, said) == (1, [f"[{rank}] the NIC of rank 2 has failed" for rank in range(4)]), complained


def test_a_nic_without_room_for_the_peers_says_what_to_change(ranks: Ranks) -> None:
    status, said, _ = ranks("a_nic_is_too_small")
    assert status == 1
    assert (
        "[0] the NIC of rank 0 has no room for 3 peers, each 8589934592 bytes and a QP "
        "(`nic: {memory}` of the topology): Cannot allocate memory"
    ) in said
