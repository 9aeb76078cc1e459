"""The gate's own error, measured: no harmless change is red, and a port rate that is 5 % lower is."""

import json
from collections.abc import Callable
from statistics import median

import pytest
from document_text import document
from runs import run

from mrc_testbed.campaign.cells import Cell, MeasuredRun, build_cells
from mrc_testbed.campaign.gate import Baseline, build_baseline, check, gate_status, named_figures
from mrc_testbed.campaign.plan import CampaignPlan, plan_campaign

TOLERANCE = 0.02
CALM = "lossy faults.gray.ratio=0.1%"
SCENARIO = document("""\
Scenario {{name: lossy}}
  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: {rate}Mbit, link_delay: {delay_ns}ns}}
  workloads: [{{name: main, kind: sendrecv, size: 64KiB, duration: 200ms}}]
  faults:
    - id: gray
      kind: loss
      select: {{links: {{plane: 0, between: [t0, t1]}}, pick: all}}
      ratio: 0.1%
      at: 50ms
      for: 100ms
""")
CAMPAIGN = document("""\
Campaign {name: c}
  scenarios: [lossy.yaml]
  matrix: {faults.gray.ratio: [0.1%, 1%]}
  seeds: {from: 1, count: 8}
  expect:
    - goodput(main) > 1Mbit
    - p99(message_completion) < 1s
    - retransmit_ratio >= 0%
    - restore(gray) < 10s
""")
SLOW = pytest.mark.slow("32 runs each")
CHANGES = [
    pytest.param(491, marks=[SLOW, pytest.mark.ci]),
    *(
        pytest.param(more_ns, marks=SLOW)
        for more_ns in (1, 3, 7, 29, 13, 51, 77, 99, 101, 137, 171, 199, 213, 251, 287, 313, 351, 389, 413)
    ),
]
"""By so many ns the delay of each link grows; an idle RTT has 1.6 ms."""

Measure = Callable[[int, int], tuple[CampaignPlan, tuple[Cell, ...]]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """The campaign and its cells by port rate in Mbit/s and delay of a link in ns."""
    folder = tmp_path_factory.mktemp("gate")

    def measure(rate: int, delay_ns: int) -> tuple[CampaignPlan, tuple[Cell, ...]]:
        (folder / "lossy.yaml").write_text(SCENARIO.format(rate=rate, delay_ns=delay_ns))
        (folder / "c.yaml").write_text(CAMPAIGN)
        plan = plan_campaign(folder / "c.yaml")
        runs = []
        for each in plan.runs:
            done = run(each.plan, folder / "runs")
            manifest = json.loads((done.folder / "manifest.json").read_text())
            runs.append(MeasuredRun(each, manifest["status"], manifest))
        return plan, build_cells(runs)

    return measure


@pytest.fixture(scope="module")
def before(measured: Measure) -> Baseline:
    _, cells = measured(40, 100_000)
    [goodput] = [cell.figures["goodput(main)"].values for cell in cells if cell.key == CALM]
    assert max(goodput) - min(goodput) < 0.02 * median(goodput)
    return build_baseline("c", cells)


@pytest.mark.parametrize("more_ns", CHANGES)
def test_a_harmless_change_is_not_red(more_ns: int, measured: Measure, before: Baseline) -> None:
    plan, cells = measured(40, 100_000 + more_ns)
    findings = check(cells, before, TOLERANCE, named_figures(plan))
    assert any(each.certainty != "equal in every run" for each in findings)
    assert (gate_status(findings), [each for each in findings if each.outcome == "worse"]) == (0, [])


@pytest.mark.parametrize("more_ns", CHANGES)
def test_a_port_rate_that_is_lower_by_a_twentieth_is_red(
    more_ns: int, measured: Measure, before: Baseline
) -> None:
    plan, cells = measured(38, 100_000 + more_ns)
    findings = check(cells, before, TOLERANCE, named_figures(plan))
    worse = {(each.cell, each.name) for each in findings if each.outcome == "worse"}
    assert (CALM, "goodput(main)") in worse
    assert gate_status(findings) == 4
