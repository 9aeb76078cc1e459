"""`check --virtual`: what is broken is named, exactly that; what is well is not."""

import json
from pathlib import Path

import pytest
from golden_documents import check_document

from mrc_testbed.cli.app import run

TOPOLOGY = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2, "port_rate": "100Gbit", "link_delay": "500ns"}
SCENARIO = {
    "apiVersion": "mrc-testbed/v1",
    "kind": "Scenario",
    "metadata": {"name": "broken"},
    "spec": {
        "topology": TOPOLOGY,
        "workloads": [
            {"name": "main", "kind": "write-bw", "from": "h0", "to": "h3", "size": "64KiB", "duration": "1ms"}
        ],
    },
}
FASTER = ("--size", "16KiB", "--repetitions", "8")


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    status = run(["check", "--virtual", *FASTER, *words])
    return status, capsys.readouterr().out


def scenario(tmp_path: Path, kind: str, select: dict[str, str], options: dict[str, str]) -> str:
    fault = {"id": "f", "at": "0ms", "kind": kind, "until": "cleared", "select": select, **options}
    file = tmp_path / "broken.yaml"
    file.write_text(json.dumps(SCENARIO | {"spec": {**SCENARIO["spec"], "faults": [fault]}}))  # type: ignore[dict-item]
    return str(file)


def test_nothing_is_named_in_a_healthy_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "topology.yaml"
    document = {"kind": "Topology", "metadata": {"name": "small"}, "spec": TOPOLOGY}
    file.write_text(json.dumps({"apiVersion": "mrc-testbed/v1", **document}))
    status, out = check(capsys, "-t", str(file), "-o", "json")
    found = json.loads(out)
    check_document("HealthCheck", found)
    assert (status, found["healthy"], found["findings"]) == (0, True, [])
    assert len(found["pairs"]) == found["pair_count"] == 12
    assert len(found["paths"]) == found["path_count"] == 4 * 2 + 8 * 4
    assert found["all_reduce"]["operations"] == 5
    assert check(capsys, "-t", str(file), "-o", "json") == (status, out)
    status, out = check(capsys, "-t", str(file), "h0,h1,h3", "--pairs", "2")
    assert "no host, path or link is slow or dead" in out


@pytest.mark.parametrize(
    ("kind", "select", "options", "named"),
    [
        ("slow-link", {"links": "h2:*"}, {"to": "20%"}, {("slow", "host", ("h2",))}),
        ("blackhole", {"nodes": "p1-t1-0"}, {}, {("suspect", "switch", ("p1-t1-0",))}),
        ("nic-port-down", {"links": "h3:1"}, {}, {("suspect", "link", ("h3:1~p1-t0-1:1",))}),
        ("link-down", {"links": "p0-t0-0:2"}, {}, {("suspect", "link", ("p0-t0-0:2~p0-t1-0:0",))}),
        ("delay", {"links": "p0-t0-0:2"}, {"by": "20us"}, {("suspect", "link", ("p0-t0-0:2~p0-t1-0:0",))}),
        ("link-down", {"links": "h3:*"}, {}, {("dead", "host", ("h3",)), ("suspect", "host", ("h3",))}),
        ("nic-agent-kill", {"nodes": "h1"}, {}, {("dead", "host", ("h1",))}),
    ],
)
def test_what_is_broken_is_named(
    kind: str,
    select: dict[str, str],
    options: dict[str, str],
    named: set[tuple[str, str, tuple[str, ...]]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out = check(capsys, "-t", scenario(tmp_path, kind, select, options), "-o", "json")
    found = json.loads(out)
    check_document("HealthCheck", found)
    findings = {(each["kind"], each["subject"], tuple(each["names"])) for each in found["findings"]}
    assert {each for each in findings if each[1] != "path"} == named
    assert status == 4


def test_lines_say_it_to_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = check(capsys, "-t", scenario(tmp_path, "blackhole", {"nodes": "p1-t1-0"}, {}))
    assert status == 4
    lines = out.splitlines()
    assert "suspect: switch p1-t1-0: its links lose 100 % of probes, no other loses any" in lines
    assert "dead: path h0 > h3 over p1-t1-0" in lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["h0,h9"], "there is no node 'h9'"),
        (["h0,p0-t0-0"], "p0-t0-0 is a switch"),
        (["h0"], "1 host: a check takes two or more"),
        (["-t", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "--virtual", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("error: ")
