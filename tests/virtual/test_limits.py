"""Refusals of what virtual time cannot do: each names its line, before a run begins."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from document_text import document
from runs import ROOT, SCENARIOS

from mrc_testbed.cli.admission import Admission
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.preflight import lab_checks
from mrc_testbed.scenario.spec.load import load_scenario, scenario_variants
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import NicSpec, TopologySpec
from mrc_testbed.virtual import limits

SCENARIO = document("""\
Scenario {{name: large}}
  topology: {{planes: 4, t0: {t0}, t1: 16, hosts_per_t0: 16, port_rate: {rate}, nic: {nic}, link_delay: 1us}}
  transport: {transport}
  workloads: [{{name: all, kind: permutation, size: 256KiB, duration: {duration}}}]
""")
USUAL = {"t0": "4", "rate": "100Gbit", "nic": "{}", "transport": "{}", "duration": "100us"}


def admitted(tmp_path: Path, *, is_virtual: bool = True, **changes: str) -> Admission:
    file = tmp_path / "large.yaml"
    file.write_text(SCENARIO.format(**USUAL | changes))
    scenario = load_scenario(file)
    admission = Admission(is_virtual=is_virtual)
    admission.plan(scenario, resolve(scenario))
    return admission


def refusal(tmp_path: Path, **changes: str) -> str:
    with pytest.raises(UsageError) as caught:
        admitted(tmp_path, is_virtual=True, **changes)
    return caught.value.message.replace(f"{tmp_path}/", "")


def test_true_rates_are_let_through_without_a_warning(tmp_path: Path) -> None:
    assert admitted(tmp_path, nic="{path_mtu: 4KiB}").warning is None


def test_a_rate_at_which_a_frame_takes_less_than_a_ns(tmp_path: Path) -> None:
    assert refusal(tmp_path, rate="1200Gbit") == (
        "large.yaml:5: spec.topology.port_rate: a port of 1,200 Gbit/s sends a trimmed packet of 142 bytes "
        "in less than 1 ns, which is as fine as virtual time is; up to 1,136 Gbit/s is exact"
    )


def test_a_lab_that_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "allowed_bytes", lambda: 20 << 30)
    message = refusal(tmp_path, t0="512", nic="{memory: 64MiB}")
    assert message.startswith("large.yaml:5: spec.topology: 8192 hosts take about ")
    assert "and 20 GiB is available: enough for about " in message


def test_hours_of_traffic_are_let_through_with_the_time_that_they_take(tmp_path: Path) -> None:
    warning = admitted(tmp_path, duration="2h").warning
    assert warning is not None
    assert re.fullmatch(r"virtual time: up to [\d,]+ s on one core, as is assumed", warning)


def test_packets_of_4_kib_are_refused_live(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        admitted(tmp_path, is_virtual=False, nic="{path_mtu: 4KiB}")
    assert caught.value.message.endswith(
        "large.yaml:5: spec.topology.nic.path_mtu: packets of 4KiB are for --virtual: "
        "an interface with XDP takes 2KiB"
    )
    with pytest.raises(UsageError, match="packets of 4KiB"):
        lab_checks(Clos(TopologySpec(nic=NicSpec(path_mtu=4096))), has_containers=False)


@pytest.mark.parametrize("folder", ["", "paper", "paper-true", "true"])
def test_ready_scenarios_are_let_through(folder: str) -> None:
    admission = Admission(is_virtual=True)
    for path in (SCENARIOS / folder).glob("*.yaml"):
        if path.stem == "all":
            continue
        for variant in scenario_variants(load_scenario(path)):
            admission.plan(variant, resolve(variant))


def test_memory_that_is_refused_is_one_clear_error() -> None:
    """The estimate is no promise: the library says so itself, and nothing is left of the lab."""
    program = """
from mrc_agents.bpf.virtual import VirtualRuntime
from mrc_agents.abi import VirtualPayload
from mrc_agents.errors import PreflightError
runtime = VirtualRuntime()
try:
    runtime.begin({"memory": 1 << 20}, bytes(8), [0], seed=1, payload=VirtualPayload.COPY)
except PreflightError as error:
    print(error.message)
runtime.begin({"memory": 4}, bytes(8), [0], seed=1, payload=VirtualPayload.COPY).end()
"""
    limited = f"import resource\nresource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30)){program}"
    done = subprocess.run(
        [sys.executable, "-c", limited], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "memory of the lab: Cannot allocate memory\n"
