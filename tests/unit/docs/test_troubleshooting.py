"""The guide has an entry for every check of the preflight."""

from mrc_testbed.fabric.preflight import Check, lab_checks, machine_checks
from mrc_testbed.installation import ROOT
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec


def test_every_check_has_a_row_in_the_troubleshooting_guide() -> None:
    shaped = Clos(TopologySpec(port_rate=100_000_000))
    checks: tuple[Check, ...] = (*machine_checks(), *lab_checks(shaped, has_containers=True))
    guide = (ROOT / "docs/guide/troubleshooting.md").read_text()
    rows = {line.split("|")[1].strip() for line in guide.splitlines() if line.startswith("|")}
    missing = {check.what for check in checks} - rows
    assert not missing
    assert len(checks) > 10
