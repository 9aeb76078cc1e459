"""Terminals, files and pages of runs and campaigns have one name and one unit for each quantity."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from document_text import document

from tests.prose.quantities import quantities

PROGRAM = Path(sys.executable).with_name("mrc-testbed")

SCENARIO = document("""\
Scenario {name: named}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 40Mbit}
  workloads:
    - {name: main, kind: sendrecv, size: 64KiB, shift: 2, duration: 400ms}
    - {name: job, kind: training, hosts: [h0, h2], compute: 5ms, size: 16KiB, duration: 400ms}
  faults:
    - id: cut
      kind: link-down
      select: {links: {plane: 0, between: [t0, t1]}, pick: first}
      at: 100ms
      for: 100ms
  expect:
    - fault_drops > 0
    - goodput(main) < 1Mbit
    - p99(step_time(job)) during cut < 10s
""")
CAMPAIGN = document("""\
Campaign {name: names}
  scenarios: [named.yaml]
  matrix: {transport.window: [16, 32]}
  seeds: {from: 1, count: 6}
  baseline: {transport.window: 16}
  expect: [goodput(main) > 1Mbit]
""")
RECOVERY = ("packets dropped", "EVs evicted", "time to detect", "time to last drop", "recovery time")
COMMANDS = {
    "run named.yaml --virtual": 4,
    "campaign run names.yaml --virtual": 4,
    "campaign stats names": 0,
    "campaign show names": 4,
    "compare named named": 0,
}
"""Command -> its exit status."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Texts that a run and a campaign show, by command or file."""
    place = tmp_path_factory.mktemp("names")
    (place / "named.yaml").write_text(SCENARIO)
    (place / "names.yaml").write_text(CAMPAIGN)
    found = {}
    for words, status in COMMANDS.items():
        ended = subprocess.run(
            [PROGRAM, *words.split()],
            cwd=place,
            env=os.environ | {"COLUMNS": "240"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == status, ended.stderr
        found[words] = ended.stdout
    for folder in ("runs/named/latest", "campaigns/names/latest"):
        for file in ("summary.md", "report.html"):
            found[f"{folder}/{file}"] = (place / folder / file).read_text(encoding="utf-8")
    return found


@pytest.mark.slow("runs a campaign and all that shows it")
@pytest.mark.ci
def test_quantities_have_one_name_and_one_unit(shown: Mapping[str, str]) -> None:
    findings = [finding for what, text in shown.items() for finding in quantities(what, text, is_shown=True)]
    assert findings == []


@pytest.mark.slow("runs a campaign and all that shows it")
@pytest.mark.ci
@pytest.mark.parametrize(
    "what", ["run named.yaml --virtual", "runs/named/latest/summary.md", "runs/named/latest/report.html"]
)
def test_the_recovery_from_a_fault_has_the_same_columns_everywhere(
    shown: Mapping[str, str], what: str
) -> None:
    assert [name for name in RECOVERY if name not in shown[what]] == []
