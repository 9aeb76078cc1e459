"""Registration of any memory of a program, also while its threads store into it."""

from pathlib import Path

import pytest
from rdma_program import NOBODY, build, finish, start

from mrc_testbed.fabric.live import Lab

pytestmark = pytest.mark.root


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


@pytest.mark.slow("ten thousand registrations, twice")
@pytest.mark.ci
@pytest.mark.parametrize("user", [(), NOBODY])
def test_no_store_is_lost_in_ten_thousand_registrations(
    live: Lab, program: Path, user: tuple[str, ...]
) -> None:
    status, said, complained = finish(start(live, "h0", *user, program, "writing-threads"))
    assert (status, said.strip()) == (0, "right"), complained
