"""A cell of the campaign dead-paths in which the queue of a NIC's own port is longer than a round trip."""

from pathlib import Path

import pytest
from runs import SCENARIOS, run_campaign

from mrc_testbed.campaign.plan import plan_variants
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.scenario.spec.load import load_scenario


@pytest.mark.slow("a burst of many packets")
@pytest.mark.ci
def test_a_burst_that_fills_the_port_of_a_nic_does_not_delay_a_tail_loss_probe(tmp_path: Path) -> None:
    """RTTs and PTOs are those of the fabric: else the last packet of a message was missed for 100 ms."""
    text = (SCENARIOS / "dead-path.yaml").read_text(encoding="utf-8")
    changed = text.replace("evs: 96", "evs: 126").replace("size: 96KiB, qps: 2", "size: 256KiB, qps: 1")
    assert changed != text
    file = tmp_path / "dead-path.yaml"
    file.write_text(changed, encoding="utf-8")
    code, folder = run_campaign(plan_variants(load_scenario(file), seed=None), tmp_path)
    assert code == 0, summarize_campaign(folder)
