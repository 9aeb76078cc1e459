"""Congestion control of reliable connections: what fits a fabric, and what is refused."""

from typing import get_args

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import base_rtt_ns
from mrc_testbed.transport.reliable_connection import RcKind, choose_rc_congestion

SHAPED = Clos(TopologySpec(port_rate=100_000_000))
UNSHAPED = Clos(TopologySpec())


@pytest.mark.parametrize("kind", get_args(RcKind))
def test_what_is_usual(kind: RcKind) -> None:
    congestion = choose_rc_congestion(SHAPED, kind)
    assert congestion.algorithm == ("fixed" if kind == "infiniband" else "dcqcn")
    assert congestion.parameters.line_kbps == (400_000 if kind == "spray-gbn" else 100_000)
    assert congestion.parameters.base_rtt_ns == base_rtt_ns(SHAPED)
    assert congestion.window_packets == SHAPED.spec.nic.window_packets
    assert choose_rc_congestion(UNSHAPED, kind).algorithm == "fixed"


def test_a_full_window_is_out_before_the_time_out() -> None:
    congestion = choose_rc_congestion(SHAPED, "rocev2", window_packets=1024)
    assert congestion.rto_ns > 1024 * 2190 * 8 * 10
    assert congestion.qp_attributes["window_packets"] == 1024


@pytest.mark.parametrize(
    ("clos", "algorithm", "message"),
    [(SHAPED, "nscc", "'nscc' is not for rocev2"), (UNSHAPED, "dcqcn", "needs ports with a rate")],
)
def test_what_does_not_go_together_is_refused(clos: Clos, algorithm: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_rc_congestion(clos, "rocev2", algorithm)


def test_it_says_what_it_is() -> None:
    assert choose_rc_congestion(SHAPED, "rocev2").describe() == "dcqcn, at most 64 packets under way"
    assert choose_rc_congestion(UNSHAPED, "rocev2").describe() == "fixed window of 64 packets"
