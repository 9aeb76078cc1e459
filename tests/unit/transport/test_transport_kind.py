"""Each transport with the congestion control that goes with it, and none that does not."""

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.transport_kind import (
    TRANSPORT_KINDS,
    GoneCongestion,
    GoneKind,
    TransportKind,
    choose_congestion,
    refuse_gone,
)
from mrc_testbed.workloads.connectors import choose_connector

SHAPED = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=20_000_000))
USUAL = {"mrc": "nscc", "rocev2": "dcqcn", "infiniband": "fixed", "spray-gbn": "dcqcn"}


@pytest.mark.parametrize("kind", TRANSPORT_KINDS)
def test_what_is_usual(kind: TransportKind) -> None:
    assert choose_congestion(SHAPED, kind).algorithm == USUAL[kind]


def test_one_that_is_asked_for() -> None:
    assert choose_congestion(SHAPED, "rocev2", "fixed", window_packets=9).algorithm == "fixed"
    assert choose_congestion(SHAPED, "spray-gbn", evs=8).algorithm == "dcqcn"


@pytest.mark.parametrize(
    ("kind", "asked", "complaint"),
    [
        ("spray-gbn", {"algorithm": "nscc"}, "cc: 'nscc' is not for spray-gbn"),
        ("mrc", {"algorithm": "cubic"}, "cc: 'cubic'"),
        ("rocev2", {"algorithm": "bbr"}, "cc: 'bbr' is not for rocev2"),
        ("infiniband", {"evs": 8}, "evs: a QP of infiniband has one path"),
        ("rocev2", {"settings": {"target_delay": 9}}, "cc_profile: parameters of mrc's"),
    ],
)
def test_what_does_not_go_together(kind: TransportKind, asked: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        choose_congestion(SHAPED, kind, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["tcp", "mptcp"])
def test_one_that_is_gone_is_refused_with_what_to_use(kind: GoneKind) -> None:
    said = f"^{kind} is gone since 0.4; use mrc, rocev2, infiniband or spray-gbn; the kernel's TCP carries"
    with pytest.raises(UsageError, match=said):
        refuse_gone(kind)
    with pytest.raises(UsageError, match=said):
        choose_connector(SHAPED, kind, GoneCongestion("cubic"), evs=None)
    assert [refuse_gone(each) for each in TRANSPORT_KINDS] == list(TRANSPORT_KINDS)
