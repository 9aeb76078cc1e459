import pytest

from mrc_agents.abi import EvState, QpState
from mrc_testbed.scenario.measure.event import EvTransition, PortTransition, QpTransition
from mrc_testbed.scenario.run.live import parse_nic_event
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec())


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            {
                "event": "ev_state",
                "time_ns": 7,
                "host": "h0",
                "qpn": 256,
                "ev": 3,
                "entropy": 0x1000_0002,
                "plane": 1,
                "peer_host": 4,
                "from": "GOOD",
                "to": "ASSUMED_BAD",
                "reason": "loss",
            },
            EvTransition(7, "h0", "h4", 256, 0x1000_0002, EvState.GOOD, EvState.ASSUMED_BAD, "loss"),
        ),
        (
            {
                "event": "qp_state",
                "time_ns": 8,
                "host": "h0",
                "qpn": 256,
                "from": "RTS",
                "to": "ERROR",
                "status": "retry_exceeded",
            },
            QpTransition(8, "h0", 256, QpState.RTS, QpState.ERROR, "retry_exceeded"),
        ),
        (
            {"event": "port_state", "time_ns": 9, "host": "h0", "plane": 2, "is_up": False},
            PortTransition(9, "h0", 2, is_up=False),
        ),
        ({"event": "completion", "time_ns": 10, "host": "h0", "qpn": 256}, None),
    ],
)
def test_messages_of_an_agent_become_events(message: dict[str, object], event: object) -> None:
    assert parse_nic_event(CLOS, message) == event
