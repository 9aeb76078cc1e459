"""Each transport with the congestion control that goes with it, and none that does not."""

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.transport_kind import TRANSPORT_KINDS, TransportKind, choose_congestion

SHAPED = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=20_000_000))
USUAL = {
    "mrc": "nscc",
    "rocev2": "dcqcn",
    "infiniband": "fixed",
    "spray-gbn": "dcqcn",
    "tcp": "cubic",
    "mptcp": "cubic",
}


@pytest.mark.parametrize("kind", TRANSPORT_KINDS)
def test_what_is_usual(kind: TransportKind) -> None:
    assert choose_congestion(SHAPED, kind).algorithm == USUAL[kind]


def test_one_that_is_asked_for() -> None:
    assert choose_congestion(SHAPED, "mptcp", "bbr").describe() == "the kernel's bbr"
    assert choose_congestion(SHAPED, "rocev2", "fixed", window_packets=9).algorithm == "fixed"
    assert choose_congestion(SHAPED, "spray-gbn", evs=8).algorithm == "dcqcn"


@pytest.mark.parametrize(
    ("kind", "asked", "complaint"),
    [
        ("tcp", {"algorithm": "nscc"}, "cc: 'nscc' is not for tcp"),
        ("mrc", {"algorithm": "cubic"}, "cc: 'cubic'"),
        ("rocev2", {"algorithm": "bbr"}, "cc: 'bbr' is not for rocev2"),
        ("mptcp", {"window_packets": 5}, "window: mptcp has the kernel's windows"),
        ("tcp", {"evs": 8}, "evs: a connection of tcp has one path"),
        ("mptcp", {"evs": 8}, "evs: a connection of mptcp has one subflow per plane"),
        ("infiniband", {"evs": 8}, "evs: a QP of infiniband has one path"),
        ("tcp", {"settings": {"target_delay": 9}}, "cc_profile: parameters of mrc's"),
    ],
)
def test_what_does_not_go_together(kind: TransportKind, asked: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        choose_congestion(SHAPED, kind, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["tcp", "mptcp"])
def test_switches_that_read_evs_cannot_carry_the_kernels_packets(kind: TransportKind) -> None:
    clos = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, forwarding="stev"))
    with pytest.raises(UsageError, match="needs forwarding: srv6 or ecmp"):
        choose_congestion(clos, kind)
