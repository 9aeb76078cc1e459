"""A drill on a lab: nothing that people look at shows a hidden fault before it is revealed."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from shared_lab import SPEC
from typed_command import Command
from waiting import DEADLINE_S

from mrc_testbed.cli.app import run
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.ledger import Ledger, read_lines
from mrc_testbed.live.control import ClearRequest
from mrc_testbed.live.feed import Feed
from mrc_testbed.live.server import LiveServer, live_server
from mrc_testbed.metrics.exporter import exporter_running

LINK = "p0-t0-0:2~p0-t1-0:0"
ADD = ("fault", "add", "loss", "--link", LINK, "--ratio", "50%", "--until", "cleared", "--hidden")


def shown(server: LiveServer, metrics_url: str, command: Command) -> str:
    """All that people see of faults from now on."""
    begun = server.feed.latest.number + 1
    with urllib.request.urlopen(f"http://{server.host}/api/events", timeout=DEADLINE_S) as answer:
        lines = (json.loads(line.removeprefix(b"data: ")) for line in answer if line.startswith(b"data: "))
        update = next(line for line in lines if line["snapshot"] and line["number"] > begun)
    states = [link for link in update["snapshot"].pop("links") if link["faults"] or link["state"] != "up"]
    with urllib.request.urlopen(metrics_url, timeout=DEADLINE_S) as page:  # noqa: S310 - our own
        metrics = [line for line in page.read().decode().splitlines() if "fault" in line and line[0] != "#"]
    listed, status = command("fault", "list"), command("status")
    hops = command.json("ev", "explain", "h0", "h2", "0:0")["hops"]
    return f"{json.dumps(update)} {states} {metrics} {listed} {status} {[hop['faults'] for hop in hops]}"


def test_a_hidden_fault_is_seen_nowhere_until_it_is_revealed(
    command: Command, faults: Callable[[], object], live: Lab
) -> None:
    added = command.json(*ADD)
    assert (added["id"], added["hidden"], added["links"]) == ("hidden-1", True, [])
    with (
        exporter_running([live.name], port=0) as url,
        Feed(live.name, 100_000_000) as feed,
        live_server(feed) as server,
    ):
        before = shown(server, url, command)
        assert "hidden-1" not in before
        assert LINK not in before
        command("fault", "clear", "nothing", status=1)
        assert "hidden-1" not in command.stderr
        server.control.clear(ClearRequest())  # those that its reader sees, of which there is none
        found = command.json("probe", "links", "-d", "500ms", "-i", "5ms")
        assert LINK in {row["link"] for row in found["suspects"]}  # a busy machine may lose probes elsewhere
        [score] = command.json("fault", "reveal")["faults"]
        assert (score["fault_id"], score["places"]) == ("hidden-1", [LINK])
        assert (score["named"], score["by"]) == ("named", "probe links")
        after = shown(server, url, command)
    assert after.count("hidden-1") > before.count("hidden-1") + 4
    assert LINK in after
    assert LINK in command("fault", "clear", "hidden-1")
    command(*ADD)
    assert command.json("fault", "clear", "--all")["faults"] == []
    command(*ADD)
    assert command("fault", "clear", "hidden-2").strip() == "1 hidden fault: `fault reveal` names them"
    assert [row["named"] for row in command.json("fault", "reveal")["faults"]] == ["missed", "missed"]


def test_the_end_of_a_run_reveals_its_faults(
    live: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = SPEC.model_dump(include={"planes", "t0", "t1", "hosts_per_t0"})
    path = tmp_path / "short.yaml"
    path.write_text(
        "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: short}\n"
        f"spec:\n  topology: {topology}\n"
        "  workloads: [{name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 1s}]\n"
        "  faults: [{id: cut, hidden: true, kind: link-down, at: 100ms, for: 300ms, "
        "select: {links: 'h0:1'}}]\n"
    )
    status = run(["-v", "-n", live.name, "run", str(path), "--runs", str(tmp_path / "runs"), "-o", "json"])
    out, err = capsys.readouterr()
    assert status in (0, 7)
    assert [each["id"] for each in json.loads(out)["manifest"]["faults"]] == ["cut"]
    assert "workload main started" in err
    assert "cut applied" not in err
    [score] = [line.split() for line in err.splitlines() if line.startswith("cut")]
    assert score == ["cut", "link-down", "h0:1~p1-t0-0:0", "missed", "-", "-"]
    ledger = Ledger(live.paths.faults)
    assert not ledger.hidden_path.exists()
    assert [each.get("fault_id") for each in read_lines(ledger.events_path)][-2:] == ["cut", "cut"]
