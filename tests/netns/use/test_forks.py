"""fork() of programs that have registered memory."""

from pathlib import Path

import pytest
from rdma_program import NOBODY, build, finish, start

from mrc_testbed.fabric.live import Lab


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("verbs_forks.c")
    return build(source, tmp_path_factory.mktemp("forks"), "-libverbs", "-pthread")


CASES = {"own-stack": 3, "other-thread": 3, "siblings": 3, "registering": 200, "unmapping": 20}
MANY = pytest.mark.slow("two thousand forks of each kind")


@pytest.mark.parametrize(
    ("case", "forks"), [*CASES.items(), *(pytest.param(case, 2000, marks=MANY) for case in CASES)]
)
def test_parent_and_child_have_what_they_stored(live: Lab, program: Path, case: str, forks: int) -> None:
    assert finish(start(live, "h0", *NOBODY, program, case, str(forks))) == (0, "right\n", "")


def test_child_without_memory_ends_with_a_line(live: Lab, program: Path) -> None:
    status, said, complained = finish(start(live, "h0", *NOBODY, program, "no-memory"))
    assert (status, said.strip()) == (0, "right"), complained
    line = "mrc-testbed: a child of fork() ends: it has no memory for a copy of what is registered\n"
    assert complained == line
