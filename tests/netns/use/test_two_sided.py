"""SEND and RECV of programs, over QPs of every transport: our own program, and those that everybody has."""

from pathlib import Path

import pytest
from rdma_program import NOBODY, build, finish, said_by_both, start

from mrc_testbed.fabric.live import Lab

long = (pytest.mark.slow("seconds each, many of them"), pytest.mark.ci)
TRANSPORTS = ["mrc", pytest.param("rocev2", marks=long)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("verbs_send.c")
    return build(source, tmp_path_factory.mktemp("two-sided"), "-libverbs")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        ("sizes", "144 messages"),
        ("order", "400 messages"),
        ("sharing", "400 messages"),
        ("no-receive", "RNR retry counter exceeded"),
        ("too-long", "local length error, as far as it fits"),
    ],
)
def test_messages_arrive_whole_in_order_and_once(
    live: Lab, program: Path, case: str, outcome: str, transport: str
) -> None:
    status, said, complained = finish(start(live, "h0", *NOBODY, program, case, transport=transport))
    assert (status, said.strip()) == (0, outcome), complained


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "test",
    [
        pytest.param(("ib_send_bw", "-n", "100", "-d", "mrc0"), marks=long),
        pytest.param(("ib_send_lat", "-n", "100", "-d", "mrc0"), marks=long),
        ("ib_send_bw", "-n", "50", "-q", "4", "--use-srq", "-e", "-d", "mrc0"),
        ("ib_send_bw", "-n", "5000", "-s", "2", "-e", "-d", "mrc0"),
        ("ibv_rc_pingpong", "-c", "-n", "100", "-g", "0", "-d", "mrc0"),
        pytest.param(("ibv_srq_pingpong", "-c", "-n", "100", "-q", "4", "-g", "0", "-d", "mrc0"), marks=long),
    ],
)
def test_programs_that_everybody_has(live: Lab, test: tuple[str, ...], transport: str) -> None:
    assert said_by_both(live, *test, transport=transport)
