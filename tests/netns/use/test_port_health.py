"""A port that lets no packet pass is a problem of its lab, which `up` fixes, unless a fault wants it so."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shared_lab import SPEC
from typed_command import Command

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.ownership import owned_name
from mrc_testbed.fabric.port_state import observe_ports

SIZES = {"planes", "t0", "t1", "hosts_per_t0"}
BREAKS = {
    "down": (("down",), "is down, and no fault wants it so"),
    "no program": (("xdp", "off"), "no XDP program"),
    "another address": (("address", "02:00:00:00:00:99"), "02:00:00:00:00:99"),
    "a small MTU": (("mtu", "1500"), "an MTU of 1500"),
}


@pytest.fixture
def set_link(lab_name: str) -> Callable[..., None]:
    """`ip link set` in a node, by whoever can."""

    def set_link(node: str, interface: str, *words: str) -> None:
        command = ["ip", "-n", owned_name(lab_name, node), "link", "set", interface, *words]
        subprocess.run(command, check=True)

    return set_link


def problems_until_fixed(live: Lab) -> str:
    """The problems that `status` reports; `up` fixes them, and packets pass everywhere again."""
    found = lab.status(live.name)
    assert lab.up(SPEC, name=live.name, runtime="netns").is_healthy
    live.prove_planes()
    return "\n".join(found.problems)


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize(("node", "interface"), [("h0", "plane0"), ("p0-t0-0", "up0")])
def test_a_port_that_somebody_broke_is_a_problem_until_up_fixes_it(
    broken: str, node: str, interface: str, live: Lab, set_link: Callable[..., None]
) -> None:
    words, problem = BREAKS[broken]
    set_link(node, interface, *words)
    assert problem in problems_until_fixed(live)


def test_the_far_end_of_a_port_that_is_down_has_no_carrier(live: Lab, set_link: Callable[..., None]) -> None:
    set_link("p0-t0-0", "down0", "down")
    assert "port h0:0 has no carrier" in problems_until_fixed(live)


@pytest.mark.parametrize("mode", ["xdpdrv", "xdpgeneric"])
def test_a_program_of_somebody_else_is_a_problem(
    mode: str, live: Lab, set_link: Callable[..., None], tmp_path: Path
) -> None:
    source, program = tmp_path / "pass.c", tmp_path / "pass.o"
    source.write_text('__attribute__((section("xdp"))) int pass_all(void *packet) { return 2; }')
    subprocess.run(["clang", "-O2", "-target", "bpf", "-c", source, "-o", program], check=True)
    set_link("h1", "plane0", "xdp", "off")
    set_link("h1", "plane0", mode, "object", str(program), "section", "xdp")
    assert "port h1:0 has an XDP program that is not ours" in problems_until_fixed(live)


def test_bench_and_run_refuse_a_lab_with_a_broken_port(
    command: Command,
    live: Lab,
    set_link: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    workload = {"name": "w", "kind": "sendrecv", "size": "64KiB", "duration": "1s"}
    scenario = {
        "apiVersion": "mrc-testbed/v1",
        "kind": "Scenario",
        "metadata": {"name": "one"},
        "spec": {"topology": SPEC.model_dump(mode="json", include=SIZES), "workloads": [workload]},
    }
    Path("one.yaml").write_text(json.dumps(scenario))
    set_link("p1-t1-0", "down0", "xdp", "off")
    for words in (["bench", "write-bw", "h0", "h1"], ["run", "one.yaml"]):
        command(*words, status=1)
        assert "port p1-t1-0:0 has no XDP program" in command.stderr
    assert command.json("restart")["ports"] == ["p1-t1-0:0"]
    command("bench", "write-bw", "h0", "h1", "--iterations", "1")


def test_a_port_that_a_fault_has_lowered_is_no_problem_and_stays_down(command: Command, live: Lab) -> None:
    command("fault", "add", "nic-port-down", "--link", "h0:0", "--id", "f1", "--until", "cleared")
    command("status")
    command("restart")
    (observed,) = observe_ports(live.name, "h0", [live.clos.port("h0:0")])
    assert observed
    assert not observed.has_carrier
    command("fault", "clear", "f1")
    command("status")
