"""A program in a scenario file: bound to hosts, shown, kept."""

from pathlib import Path

import pytest
from scenario_text import HEAD

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import Plan, dump_plan, load_plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.timeline import format_plan
from mrc_testbed.workloads.program import Program


def text(more: str, spec: str = "") -> str:
    return (
        f"{HEAD}  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 2}}\n{spec}"
        f"  workloads:\n    - {{name: job, kind: program, command: [python, train me.py]{more}}}\n"
    )


def plan(more: str = "", spec: str = "") -> Plan:
    return resolve(load_scenario(text(more, spec)))


def test_a_program_is_bound_to_its_hosts(tmp_path: Path) -> None:
    found = plan(", hosts: 3, as: nccl, environment: {A: b}, compute: 100ms, timeout: 2m")
    [workload] = found.workloads
    assert workload.program == Program(
        ("h0", "h1", "h2"), ("python", "train me.py"), {"A": "b"}, "nccl", "100ms"
    )
    assert (workload.flows, workload.timeout_ns, found.end_ns) == ((), 120 * 10**9, None)
    assert workload.load.hosts == ("h0", "h1", "h2")
    (tmp_path / "plan.json").write_text(dump_plan(found))
    assert load_plan(tmp_path / "plan.json") == found


def test_hosts_are_all_or_those_listed() -> None:
    assert plan().workloads[0].load.hosts == ("h0", "h1", "h2", "h3")
    assert plan(", hosts: [h3, h1]").workloads[0].load.hosts == ("h3", "h1")


def test_the_plan_shows_command_limit_and_ranks() -> None:
    assert "workload   job: program, python 'train me.py'; ranks on h1, h0; at most 5m\n" in format_plan(
        plan(", hosts: [h1, h0]")
    )


@pytest.mark.parametrize(
    ("more", "spec", "complaint"),
    [
        (", hosts: 5", "", "hosts: 5; the fabric has 4 hosts, and a host has one rank"),
        (", hosts: [h0, h9]", "", "hosts: there is no host 'h9' (hosts are h0 to h3)"),
        (", hosts: [h0, h0]", "", "hosts: h0 is named twice"),
        (", hosts: true", "", "expected an integer, found true"),
        (", as: mpi", "", "workloads[0].as"),
        (", size: 1MiB", "", "workloads[0].size"),
        ("", "  transport: {kind: infiniband}\n", "sends by mrc or rocev2, not by infiniband"),
    ],
)
def test_what_is_wrong_is_refused(more: str, spec: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan(more, spec)
    assert complaint in refused.value.message


@pytest.mark.parametrize(
    ("quantity", "misfit"),
    [
        ("goodput(job)", "whose flows and data are its own; name another workload"),
        ("wrong_bytes(job)", "whose flows and data are its own; name another workload"),
        ("busbw(job)", "whose collectives are its own; name a collective or training"),
        ("p99(collective_time(job))", "whose collectives are its own; name a collective or training"),
        ("p99(step_time(job))", None),
        ("job_throughput(job)", None),
        ("operations(job)", None),
        ("loss(job)", None),
    ],
)
def test_quantities_that_a_program_has(quantity: str, misfit: str | None) -> None:
    axes = "  variants: {evs: {few: {transport.evs: 8}, many: {transport.evs: 16}}}\n"
    written = text("") + axes + f"  compare: ['{quantity}']\n"
    if misfit is None:
        assert load_scenario(written).spec.compare == [quantity]
        return
    with pytest.raises(UsageError) as refused:
        load_scenario(written)
    assert f"job is program, {misfit}" in refused.value.message


def test_only_programs_report_a_loss() -> None:
    written = (
        f"{HEAD}  workloads: [{{name: a, kind: write-bw, from: h0, to: h1, size: 1KiB, duration: 1s}}]\n"
    )
    with pytest.raises(UsageError, match="a is write-bw, which reports no loss; name a program"):
        load_scenario(f"{written}  expect: [loss(a) < 1]\n")


@pytest.mark.parametrize(
    ("figure", "complaint"),
    [
        ("{kind: step-time}", None),
        ("{kind: plane-share, workloads: [job]}", None),
        ("{kind: per-flow}", "per-flow draws flows, which no workload has"),
        ("{kind: by-size, workloads: [job]}", "job is program, which has no flows to draw"),
    ],
)
def test_figures_that_can_draw_a_program(figure: str, complaint: str | None) -> None:
    written = text("") + f"  figure: [{figure}]\n"
    if complaint is None:
        assert resolve(load_scenario(written)).figure[0].workloads == ("job",)
        return
    with pytest.raises(UsageError, match=complaint):
        load_scenario(written)
