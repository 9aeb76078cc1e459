"""4:1 incast under credits: nothing is lost, and an adaptive switch sends a flow up by all of its uplinks."""

from pathlib import Path

import pytest
from live_scenario import run_live

from mrc_testbed.agents.abi import PortCounter
from mrc_testbed.fabric.live import Lab

pytestmark = pytest.mark.root

SENDERS, MESSAGES, MESSAGE_BYTES = 4, 10, 64 << 10
PACKETS_PER_FLOW = MESSAGES * MESSAGE_BYTES // 2048
DROPS = tuple(counter for counter in PortCounter if counter.name.startswith("DROP_"))
INCAST = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {{name: incast}}
spec:
  topology: {topology}
  transport: {{kind: infiniband}}
  workloads:
    - {{name: main, kind: incast, from: [h0, h1, h2, h3], to: h4, size: 64KiB, depth: 4, iterations: 10}}
  expect: [queue_drops == 0, wrong_bytes == 0, qp_errors == 0, deadlocked_ports == 0]
"""


def frames_up(live: Lab, sender: int) -> list[int]:
    """Frames that each uplink of a sender's T0 has sent."""
    uplinks = [live.clos.fabric_link(0, sender, uplink).lower.id for uplink in range(live.spec.t1)]
    return [live.port_counters.sum(port_id)[PortCounter.TX_PACKETS] for port_id in uplinks]


def drops(live: Lab) -> dict[str, int]:
    """Frames dropped for whatever reason, by port; those that dropped none are left out."""
    lost = {port.name: live.port_counters.sum(port.id) for port in live.clos.ports()}
    return {name: total for name, counts in lost.items() if (total := sum(counts[drop] for drop in DROPS))}


HASH = pytest.param(
    "hash", marks=[pytest.mark.slow("a lab for what the other one does harder"), pytest.mark.ci]
)


@pytest.mark.parametrize("spread_lab", ["adaptive", HASH], indirect=True, scope="module")
def test_an_incast_under_credits_loses_nothing_by_whatever_uplinks_it_comes(
    spread_lab: Lab, tmp_path: Path
) -> None:
    lost_before, up_before = drops(spread_lab), [frames_up(spread_lab, sender) for sender in range(SENDERS)]
    text = INCAST.format(topology=spread_lab.spec.model_dump_json(exclude_defaults=True))
    result = run_live(spread_lab.name, text, tmp_path).result
    assert [outcome.reason for outcome in result.verdict.outcomes if not outcome.has_passed] == []
    assert drops(spread_lab) == lost_before
    flows = result.recording.outcomes
    assert [(flow.error, flow.payload_bytes, flow.wrong_bytes) for flow in flows] == [
        (None, MESSAGES * MESSAGE_BYTES, 0)
    ] * SENDERS
    assert all(flow.compared_bytes > 0 for flow in flows)
    interval = result.recording.readings[-1].since(result.recording.readings[0])
    assert interval.flow.stalls > 0
    # A machine that stands still for longer than the retransmission time-out loses nothing either.
    again = [interval.hosts[f"h{sender}"].retransmits for sender in range(SENDERS)]
    for sender, before in enumerate(up_before):
        sent = [now - then for now, then in zip(frames_up(spread_lab, sender), before, strict=True)]
        assert sum(sent) == PACKETS_PER_FLOW + again[sender]
        used = [frames for frames in sent if frames]
        assert len(used) == (spread_lab.spec.t1 if spread_lab.spec.uplink_choice == "adaptive" else 1), sent
