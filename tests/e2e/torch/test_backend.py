"""Unmodified PyTorch on a lab by the backend `mrc`: right, and bit by bit as gloo has it, through faults."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import Launch
from own_lab import lab_up
from trace_files import traces_in
from training_cases import BEYOND_GLOO, EXAMPLE, LOOPS, OF_GLOO, by_gloo, check

from mrc_testbed.cli.app import run
from mrc_testbed.fabric import lab
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.traces.graph import GroupCall, StepMark

pytestmark = [
    pytest.mark.root,
    pytest.mark.download("PyTorch"),
    pytest.mark.slow("imports PyTorch in four processes, again and again"),
]

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
SHAPED = TopologySpec.model_validate(
    {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2, "port_rate": "50Mbit"}
)
RANKS = "4"
WORSE = ("passed", "skipped", "refused", "failed")


@pytest.fixture(scope="module")
def lab_name() -> Iterator[str]:
    with lab_up(SHAPED, "torch") as name:
        yield name


@pytest.fixture
def launch(lab_name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Launch:
    return Launch(lab_name, capfdbinary)


def losses(said: list[str]) -> set[tuple[str, int, str]]:
    """The loss of each rank and step."""
    steps = ((line[:3], json.loads(line[4:])) for line in said)
    return {(rank, step["step"], step["loss"]) for rank, step in steps}


def retransmissions(lab_name: str) -> int:
    """Packets that NICs have sent again."""
    with lab.attach(lab_name) as attached:
        counters = [attached.agent(host.name).counters() for host in attached.clos.hosts()]
    return sum(count for each in counters for name, count in each.items() if name.startswith("tx_retransmit"))


@pytest.mark.ci
def test_operations(launch: Launch, torch_python: str) -> None:
    status, said, complained = launch(
        "--ranks", RANKS, "--", torch_python, str(HERE / "backend_ranks.py"),
        "collectives", "shapes_and_kinds", "messages_cross", "groups_share_qps",
        "what_is_not_served_is_refused_by_name",
    )  # fmt: skip
    assert (status, said) == (0, [f"[{rank}] done" for rank in range(4)]), complained


@pytest.mark.parametrize(
    ("case", "operation", "status", "reason"),
    [
        pytest.param("a_rank_is_killed", "barrier", 137, "rank 2 (h2) has died", marks=pytest.mark.ci),
        ("a_rank_is_killed_in_a_step", "all_reduce", 137, "rank 2 (h2) has died"),
        ("a_rank_ends_early", "barrier", 1, "rank 2 (h2) has left, and an operation needs it"),
    ],
)
def test_all_ranks_name_the_one_that_is_gone(
    launch: Launch, torch_python: str, case: str, operation: str, status: int, reason: str
) -> None:
    program = str(HERE / "backend_ranks.py")
    found, said, complained = launch("--ranks", RANKS, "--", torch_python, program, case)
    assert (found, said) == (
        status,
        [f"[{rank}] mrc: {operation} on rank {rank} (h{rank}): {reason}" for rank in (0, 1, 3)],
    ), complained


@pytest.mark.ci
def test_losses_are_those_of_gloo_through_faults(
    launch: Launch, torch_python: str, lab_name: str, tmp_path: Path
) -> None:
    """A script that knows nothing of mrc-torch: a NIC's link flaps, another loses packets."""
    train = [torch_python, *EXAMPLE, "15"]
    expected = losses(by_gloo(15, *train))
    before = retransmissions(lab_name)
    for fault in (
        ["link-flap", "--link", "h0:0", "--every", "300ms", "--down", "100ms"],
        ["loss", "--link", "h1:1", "--ratio", "1%"],
    ):
        assert run(["-n", lab_name, "fault", "add", *fault, "--until", "cleared"]) == 0
    traced = ("--trace", str(tmp_path / "trace"), "--", *train)
    status, said, complained = launch("--ranks", RANKS, "--as", "gloo", *traced)
    assert run(["-n", lab_name, "fault", "clear", "--all"]) == 0
    found = losses([line for line in said if line.startswith("[")])
    assert (status, found) == (0, expected), complained
    assert retransmissions(lab_name) > before
    check_trace(tmp_path / "trace")


def check_trace(folder: Path) -> None:
    """Hold the trace of the example against its steps, and the faults against those of the lab."""
    for trace in traces_in(folder):
        kinds = Counter(node.work.kind for node in trace.nodes if isinstance(node.work, GroupCall))
        assert (kinds["all-reduce"], kinds["barrier"]) == (15, 1)
        marks = [node.work.step for node in trace.nodes if isinstance(node.work, StepMark)]
        assert marks == [*range(15)]
        awaited = {each for node in trace.nodes for each in node.after}
        reduced = {node.id for node in trace.nodes if node.name == "all_reduce"}
        assert reduced <= awaited  # also those that DistributedDataParallel waits for in C++
    faults = json.loads((folder / "faults.json").read_text())
    assert {(each["kind"], *each["places"]) for each in faults} == {
        ("link-flap", "h0:0~p0-t0-0:0"),
        ("loss", "h1:1~p1-t0-0:1"),
    }


@pytest.mark.parametrize("of_gloo", [pytest.param(OF_GLOO, marks=pytest.mark.ci), LOOPS])
def test_what_scripts_train_is_that_of_gloo(launch: Launch, torch_python: str, of_gloo: list[str]) -> None:
    program = [torch_python, str(HERE / "training_ranks.py"), "gloo"]
    expected = by_gloo(len(of_gloo), *program, *of_gloo)
    status, said, complained = launch("--ranks", RANKS, "--as", "gloo", "--", *program, *of_gloo, BEYOND_GLOO)
    assert status == 0, complained
    check(said, expected)


def verdicts(said: list[str]) -> dict[str, str]:
    """The worst verdict of all ranks on each of PyTorch's tests."""
    found: dict[str, str] = {}
    for line in said:
        if match := re.match(r"\[\d\] (passed|skipped|refused|failed) (test_\w+) ", line):
            found[match[2]] = max(match[1], found.get(match[2], ""), key=("", *WORSE).index)
    return found


def test_those_of_pytorchs_tests_pass_that_pass_with_gloo_but_for_those_in_the_guide(
    launch: Launch, torch_python: str, tmp_path: Path
) -> None:
    program = [torch_python, str(HERE / "suite_ranks.py")]
    status, said, complained = launch("--ranks", RANKS, "--as", "gloo", "--", *program, str(tmp_path / "mrc"))
    ours = verdicts(said)
    theirs = verdicts(by_gloo(len(ours), *program, str(tmp_path / "gloo")))
    passed = {name for name, verdict in theirs.items() if verdict == "passed"}
    assert (status, len(passed) > 80) == (0, True), complained
    guide = (ROOT / "docs" / "guide" / "training.md").read_text()
    assert {name for name in passed if ours[name] != "passed"} == set(
        re.findall(r"^\| (test_\w+) \|", guide, re.M)
    )


def test_the_check_names_a_slow_rank(launch: Launch, torch_python: str, lab_name: str) -> None:
    command = [torch_python, "-m", "mrc_torch.check", "--repetitions", "4", "--late-ms", "1e6"]
    slow = ["slow-link", "--link", "h2:*", "--to", "10%", "--until", "cleared"]
    assert run(["-n", lab_name, "fault", "add", *slow]) == 0
    status, said, complained = launch("--ranks", RANKS, "--", *command)
    assert run(["-n", lab_name, "fault", "clear", "--all"]) == 0
    assert (status, [line for line in said if line.startswith("[0] slow")]) == (
        1,
        ["[0] slow: rank 2 sends or receives slowly"],
    ), complained
    assert all(any(f"all-reduce of {size} KiB" in line for line in said) for size in (1, 64, 1024))


def test_a_script_that_never_joins_is_named(launch: Launch, torch_python: str) -> None:
    status, _, complained = launch("--ranks", "2", "--", torch_python, "-c", "import torch")
    assert status == 0
    assert sorted(line for line in complained.splitlines() if line.startswith("[")) == [
        f"[{rank}] mrc-torch: rank {rank} never called init_process_group: it ran alone" for rank in range(2)
    ]
