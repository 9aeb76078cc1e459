"""`launch` starts a program on hosts, as ranks that find each other; it is a run of a scenario."""

import csv
import shutil
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest
from document_text import document
from launching import Launch

from mrc_testbed.cli.app import run
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.known_labs import names
from mrc_testbed.fabric.management import management_address
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.metrics.fidelity import TrustCheck
from mrc_testbed.metrics.run_info import read_run
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.job_ring import JobRing

MEETING = """
import os, socket
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", where[1])) as server:
        print("there", flush=True)
        peers = [server.accept()[0] for _ in range(size - 1)]
        print(sorted(peer.recv(99).decode() for peer in peers))
else:
    while True:
        try:
            peer = socket.create_connection(where)
            break
        except ConnectionRefusedError:
            os.sched_yield()
    peer.send(f"{rank} at {socket.gethostbyname(socket.gethostname())}".encode())
"""


def test_ranks_meet_by_what_their_environment_says(launch: Launch) -> None:
    """And the machine's own name is an address that the others can reach."""
    status, said, complained = launch("--hosts", "h1,h3,h2", "--", sys.executable, "-c", MEETING)
    addresses = [management_address(index) for index in (3, 2)]
    seen = sorted(f"{rank} at {address}" for rank, address in enumerate(addresses, 1))
    assert (status, said) == (0, [f"[0] {seen}", "[0] there"]), complained


def test_a_rank_has_the_nic_of_its_host_and_the_user_s_environment(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    status, said, _ = launch(
        "--ranks", "2", "--", "sh", "-c", "echo $LOCAL_RANK $OMP_NUM_THREADS $GLOO_SOCKET_IFNAME; ibv_devices"
    )
    assert status == 0
    assert said.count("[0] 0 7 management") == said.count("[1] 0 7 management") == 1
    assert [line[:3] for line in said if "mrc0" in line] == ["[0]", "[1]"]


def test_a_failure_is_named_and_its_status_is_ours(launch: Launch) -> None:
    status, _, complained = launch("--", "sh", "-c", "[ $RANK = 2 ] && exit 42; exec sleep 1000")
    assert (status, complained) == (
        42,
        "error: rank 2 (h2) ended with status 42; the other ranks were ended\n",
    )
    status, _, complained = launch("--hosts", "h3", "--", "sh", "-c", "kill -9 $$")
    assert (status, complained) == (137, "error: rank 0 (h3) was ended by SIGKILL\n")


def test_signals_for_ranks_reach_them_alone(launch: Launch) -> None:
    signalled = "kill -USR1 $PPID; while :; do sleep 1000 & wait; done"
    status, _, complained = launch("--ranks", "1", "--", "sh", "-c", f"trap 'exit 7' USR1; {signalled}")
    assert (status, complained) == (7, "error: rank 0 (h0) ended with status 7\n")
    status, _, complained = launch("--ranks", "1", "--", "sh", "-c", signalled)
    assert (status, complained) == (138, "error: rank 0 (h0) was ended by SIGUSR1\n")


DEADLY = """
import os, select, signal, sys
if os.environ["RANK"] != "1":
    signal.pause()
agent = os.pidfd_open(int(sys.argv[1]))
signal.pidfd_send_signal(agent, signal.SIGKILL)
select.select([agent], [], [])
sys.exit(1)
"""


def test_the_cause_of_a_failure_is_named_first(launch: Launch, lab_name: str) -> None:
    with lab.attach(lab_name) as live:
        [agent] = [process.pid for process in live.state.processes if process.node == "h3"]
    status, _, complained = launch("--hosts", "h0,h1,h3", "--", sys.executable, "-c", DEADLY, str(agent))
    lab.restart(lab_name)
    ended = "rank 1 (h1) ended with status 1; the other ranks were ended"
    assert (status, complained) == (1, f"error: the NIC agent of rank 2 (h3) has died; {ended}\n")


def test_a_lab_that_is_removed_is_the_cause(lab_name: str, tmp_path: Path, launch: Launch) -> None:
    state_file = lab_paths(lab_name).state_file
    hidden = tmp_path / "lab.json"
    status, _, complained = launch("--hosts", "h0", "--", "sh", "-c", f"mv {state_file} {hidden}; exit 3")
    shutil.move(hidden, state_file)
    assert (status, complained) == (
        3,
        f"error: lab '{lab_name}' was removed; rank 0 (h0) ended with status 3\n",
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--ranks", "2", "--hosts", "h0", "--", "true"), "--ranks and --hosts: give one of them"),
        (("--", "no-such-program"), "no-such-program: there is no such program"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anything_starts(
    launch: Launch, arguments: tuple[str, ...], complaint: str
) -> None:
    status, said, complained = launch(*arguments)
    assert (status, said) == (2, [])
    assert complaint in complained


def test_the_name_of_the_machine_is_not_a_loopback_address(launch: Launch) -> None:
    _, said, _ = launch("--hosts", "h2", "--", "getent", "ahosts", socket.gethostname())
    assert {line.split()[1] for line in said} == {str(management_address(2))}


STEPPING = """
import json, os, sys, time
for step in range(int(sys.argv[1])):
    time.sleep(0.02)
    report = json.dumps({"step": step, "time_s": 0.02, "loss": 1 / (step + 1)})
    os.write(int(os.environ["MRC_TESTBED_REPORT_FD"]), f"{report}\\n".encode())
print("trained")
"""


def test_results_have_steps_and_faults(launch: Launch, lab_name: str, tmp_path: Path) -> None:
    lossy = ["loss", "--link", "h0:0", "--ratio", "1%", "--until", "cleared"]
    assert run(["-n", lab_name, "fault", "add", *lossy]) == 0
    train = ["--ranks", "2", "--runs", str(tmp_path), "--", sys.executable, "-c", STEPPING, "6"]
    status, said, complained = launch(*train)
    assert run(["-n", lab_name, "fault", "clear", "--all"]) == 0
    assert (status, {"[0] trained", "[1] trained"} - {*said}) == (0, set()), complained
    with (tmp_path / "launch" / "latest" / "operations.csv").open(newline="") as stream:
        losses = [float(step["loss"]) for step in csv.DictReader(stream)]
    assert losses == pytest.approx([1 / step for step in range(1, 7)])
    report = (tmp_path / "launch" / "latest" / "report.html").read_text()
    assert "Faults of the lab when it began: loss-1 (loss)." in report
    assert f"results  {tmp_path}/launch/" in complained


LOOKING = (
    STEPPING
    + """
folder = sys.argv[2]
while "job-2" not in str(names := os.listdir(f"{folder}/jobs")):
    time.sleep(0.02)
print(*sorted(name.split(".")[0] for name in names), json.load(open(f"{folder}/run.json"))["scenario"])
"""
)


def test_a_job_beside_another_has_a_name_of_its_own_and_is_the_run_of_the_lab(
    launch: Launch, lab_name: str
) -> None:
    folder = lab_paths(lab_name).folder
    work = Collective("all-reduce", ("h2", "h3"), 4096, "float32", "sum", 1, compute_ns=1)
    with closing(JobRing(folder, "job", work)):
        program = ["--", sys.executable, "-c", LOOKING, "4", str(folder)]
        status, said, complained = launch("--ranks", "1", *program)
    assert (status, said[0]) == (0, "[0] job job-2 launch"), complained
    assert read_run(folder) is None


def test_results_of_a_rank_that_fails_are_kept(launch: Launch, tmp_path: Path) -> None:
    status, _, complained = launch(
        "--ranks", "1", "--runs", str(tmp_path), "--", "sh", "-c", "echo no; exit 9"
    )
    assert (status, complained.splitlines()[-1]) == (9, "error: rank 0 (h0) ended with status 9")
    assert (tmp_path / "launch" / "latest" / "job.log").read_text() == "[0] no\n"


SCENARIO = document("""\
Scenario {name: gray}
  topology: {planes: 2, t0: 1, t1: 1, hosts_per_t0: 2}
  workloads: [{name: any, kind: write-bw, from: h0, to: h1, size: 4KiB, duration: 1s}]
  faults: [{id: gray, at: 10ms, for: 50ms, kind: loss, ratio: 5%, select: {links: "h0:0"}}]
""")


def test_a_scenario_gives_a_lab_of_its_own_with_its_faults(launch: Launch, tmp_path: Path) -> None:
    scenario = tmp_path / "gray.yaml"
    scenario.write_text(SCENARIO)
    before = names()
    train = ["-t", str(scenario), "--runs", str(tmp_path), "--", sys.executable, "-c", STEPPING, "100"]
    status, said, complained = launch(*train)
    assert (status, said) == (0, ["[0] trained", "[1] trained"]), complained
    assert "| gray | 1 |" in (tmp_path / "launch" / "latest" / "summary.md").read_text()
    assert names() == before


def test_a_late_machine_is_no_failure(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    late = TrustCheck("standstill", "2 s", "1 s", "the machine stood still")
    monkeypatch.setattr("mrc_testbed.cli.typed_run.judge_fidelity", lambda _: (late,))
    launched = launch("--ranks", "1", "--", "echo", "done")
    assert launched == (0, ["[0] done"], "UNTRUSTED: the machine stood still\n")
