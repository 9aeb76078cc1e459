"""Registration of any memory of a program, also while its threads store into it."""

from pathlib import Path

import pytest
from rdma_program import NOBODY, build, finish, start

from mrc_testbed.fabric.live import Lab


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("verbs_pages.c")
    return build(source, tmp_path_factory.mktemp("registration"), "-libverbs", "-pthread")


@pytest.mark.parametrize(
    "case",
    [
        "neighbours",
        "scattered",
        "own-stack",
        "children",
        "shared-memory",
        "read-only",
        "many",
        "heap-of-a-thread",
        "large",
        "moved",
    ],
)
def test_memory_of_every_kind(live: Lab, program: Path, case: str) -> None:
    status, said, complained = finish(start(live, "h0", *NOBODY, program, case))
    assert (status, said.strip()) == (0, "right"), complained


@pytest.mark.skipif(not Path("/dev/userfaultfd").exists(), reason="needs /dev/userfaultfd (Linux 6.1)")
@pytest.mark.parametrize("reads", [20_000, pytest.param(500_000, marks=pytest.mark.slow("500 000 reads"))])
def test_read_into_what_is_being_registered(live: Lab, program: Path, reads: int) -> None:
    status, said, complained = finish(start(live, "h0", *NOBODY, program, "reading-thread", str(reads)))
    assert (status, said.strip()) == (0, "right"), complained


@pytest.mark.parametrize("user", [(), NOBODY])
@pytest.mark.parametrize(
    "count", [2_000, pytest.param(10_000, marks=pytest.mark.slow("10 000 registrations"))]
)
def test_no_store_is_lost_in_registrations(
    live: Lab, program: Path, user: tuple[str, ...], count: int
) -> None:
    status, said, complained = finish(start(live, "h0", *user, program, "writing-threads", str(count)))
    assert (status, said.strip()) == (0, "right"), complained
