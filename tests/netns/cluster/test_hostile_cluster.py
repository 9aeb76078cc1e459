"""Somebody who reaches the scheduler, and the head: nothing of theirs runs there, or leaves its folder."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_cluster import ADDRESS, Cluster, cluster_of

pytestmark = [pytest.mark.root, pytest.mark.slow("a cluster"), pytest.mark.ci]

ATTACK = """
import json, os, sys
from distributed import Client

def attack(where, kind, answer, path, dask_scheduler=None):
    from mrc_testbed.cluster import preload, worker

    class Trap(Exception):
        def __reduce__(self):
            return os.system, (f"echo $PPID >> {path}",)

    answer = Trap() if answer == "trap" else eval(answer)

    async def give(*_):
        return answer

    async def fail(*_):
        raise answer

    async def send():
        for comm in dask_scheduler.client_comms.values():
            comm.send({"op": "event", "topic": "print", "event": answer})
        return {}

    def give_now(call, *arguments):
        if isinstance(answer, dict):
            entry = {"key": arguments[0].run.key, "status": "passed", "exit_code": 0, "reason": "",
                     "folder": None, "ended_utc": ""} | answer
            return json.dumps(entry).encode() + b"\\n" + b"no bundle"
        return answer

    def fail_now(*_):
        raise answer

    if where == "worker":
        worker._in_words = fail_now if kind == "exception" else give_now
    else:
        name = preload.VERSION if kind == "version" else preload.MACHINES
        dask_scheduler.handlers[name] = {"failure": fail, "message": send}.get(kind, give)

for line in sys.stdin:
    where, *words = json.loads(line)
    with Client(sys.argv[1]) as client:
        run = client.run_on_scheduler if where == "scheduler" else client.run
        run(attack, where, *words)
    print(flush=True)
"""
NOT_HERE = "which is not unpickled here"


@pytest.fixture
def attacker(cluster: Cluster) -> Iterator["subprocess.Popen[str]"]:
    """A process beside the head that reads attacks, and writes a line when one is prepared."""
    command = ["nsenter", f"--target={cluster.head.holder}", "--net", sys.executable, "-c", ATTACK, ADDRESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(1, 2, tmp_path) as found:
        yield found


def test_nothing_of_theirs_runs_on_the_head_or_leaves_its_folder(
    cluster: Cluster, attacker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    trap.touch()
    cluster.start_all()
    soaks = ["soak", "--universes", "4"]
    failing = '[{"seed": 1, "failures": [{"invariant": "%s", "text": ""}], "time_ns": 1, "events": 1}]'
    for where, kind, answer, said in [
        ("worker", "result", "trap", NOT_HERE),
        ("worker", "exception", "trap", "the worker failed; its log says why"),
        ("worker", "text", "'of the worker'", "one seed=1: the worker failed: of the worker"),
        ("worker", "folder", "{'folder': 'runs/../../../../x'}", "is no folder of a run"),
        ("worker", "folder", "{'folder': '/etc/x'}", "is no folder of a run"),
        ("worker", "bundle", "{'folder': 'runs/one/1'}", "what came back is refused: "),
        ("worker", "status", "{'status': 'fine'}", "what came back is refused: "),
        ("worker", "key", "{'key': 'other'}", "the results of 'other'"),
        ("worker", "judged", repr((failing % "../../x").encode()), "no verdicts on universes"),
        ("worker", "judged", "trap", NOT_HERE),
        ("scheduler", "machines", "{'w0': 1}", "does not list machines as ours does"),
        ("scheduler", "machines", "trap", NOT_HERE),
        ("scheduler", "message", "trap", NOT_HERE),
        ("scheduler", "failure", "trap", "the scheduler failed to answer"),
        ("scheduler", "version", "trap", NOT_HERE),
    ]:
        print(json.dumps([where, kind, answer, str(trap)]), file=attacker.stdin, flush=True)
        assert attacker.stdout
        assert attacker.stdout.readline()
        (cluster.head.folder / "campaign.log").unlink(missing_ok=True)
        head = cluster.campaign(*(soaks if kind == "judged" else ["run", "many.yaml"]))
        status, log = head.wait(), cluster.head.said("campaign.log")
        assert status == 1, (kind, answer, log)
        assert said in log.replace("\n", ""), (kind, answer, log)
        assert "this is a bug" not in log, (kind, answer, log)
        assert "Traceback" not in log, (kind, answer, log)
        assert str(head.pid) not in trap.read_text().split(), (kind, answer)
    assert trap.read_text()  # where a worker looks at what it raises
    assert not list(tmp_path.rglob("x*"))
