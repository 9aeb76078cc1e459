"""NSCC among other flows: shares, delay, incast, an idle link, a fabric in slow motion."""

from fractions import Fraction

import pytest
from bottleneck import Bottleneck, Simulation
from reference.congestion import CcReason

from mrc_testbed.agents.protocol.cc_profile import CcLink, CcParameters, derive_profile

DATA_CENTRE = CcLink(rate_bps=10**11, base_rtt_ns=12_000, mtu_bytes=4096)
LAB = CcLink(rate_bps=4 * 10**8, base_rtt_ns=750_000, mtu_bytes=2048)


def bdp_bytes(link: CcLink) -> int:
    return link.rate_bps * link.base_rtt_ns // (8 * 10**9)


def simulate(link: CcLink, flow_count: int, *, serialisation_ns: int | None = None) -> Simulation:
    """Flows over one queue of the link's rate: marks from 0.2 to 0.8 BDP, trims above 1 BDP."""
    nominal_bytes = link.mtu_bytes + 88
    bdp = bdp_bytes(link)
    way = Bottleneck(
        serialisation_ns=serialisation_ns or round(Fraction(nominal_bytes * 8 * 10**9, link.rate_bps)),
        base_rtt_ns=link.base_rtt_ns,
        nominal_bytes=nominal_bytes,
        mark_from_bytes=bdp // 5,
        mark_all_bytes=bdp * 4 // 5,
        trim_bytes=bdp,
    )
    return Simulation(way, CcParameters.from_profile(derive_profile(link)), flow_count)


@pytest.mark.parametrize("link", [DATA_CENTRE, LAB], ids=["data centre", "lab"])
@pytest.mark.parametrize("flow_count", [2, 8])
def test_flows_that_start_one_after_another_converge_to_equal_shares_at_the_target(
    link: CcLink, flow_count: int
) -> None:
    simulation = simulate(link, flow_count)
    for number, flow in enumerate(simulation.flows):
        simulation.start(flow, 1 + number * 10 * link.base_rtt_ns)
    settled_ns, end_ns = 400 * link.base_rtt_ns, 1_600 * link.base_rtt_ns
    simulation.run(settled_ns)
    before = [flow.received_bytes for flow in simulation.flows]
    simulation.run(end_ns)
    shares = [flow.received_bytes - bytes_ for flow, bytes_ in zip(simulation.flows, before, strict=True)]
    mean_share = sum(shares) / flow_count
    line_bytes = link.rate_bps * (end_ns - settled_ns) / (8 * 10**9)
    assert sum(shares) > 0.99 * line_bytes
    assert all(abs(share - mean_share) < 0.15 * mean_share for share in shares)
    target_ns = simulation.flows[0].nscc.parameters.target_delay_ns
    assert simulation.mean_wait_ns(settled_ns) == pytest.approx(target_ns, rel=0.15)


@pytest.mark.parametrize("link", [DATA_CENTRE, LAB], ids=["data centre", "lab"])
def test_incast_is_brought_down_to_what_the_link_holds_within_six_round_trips(link: CcLink) -> None:
    simulation = simulate(link, 16)
    for flow in simulation.flows:
        simulation.start(flow, 1)
    assert sum(flow.nscc.cwnd_bytes for flow in simulation.flows) > 23 * bdp_bytes(link)
    simulation.run(6 * link.base_rtt_ns)
    reasons = [reason for flow in simulation.flows for reason in flow.reasons]
    assert CcReason.QUICK_ADAPT in reasons
    assert CcReason.TRIM in reasons
    assert sum(flow.nscc.cwnd_bytes for flow in simulation.flows) < 3 * bdp_bytes(link)


def test_window_on_an_idle_link_is_back_at_its_maximum_within_twenty_round_trips() -> None:
    simulation = simulate(DATA_CENTRE, 1)
    (flow,) = simulation.flows
    flow.nscc.cwnd_bytes = DATA_CENTRE.mtu_bytes
    simulation.start(flow, 1)
    simulation.run(20 * DATA_CENTRE.base_rtt_ns)
    assert flow.nscc.cwnd_bytes == flow.nscc.max_wnd_bytes == 225_000
    assert CcReason.FAST_INCREASE in flow.reasons
    assert set(flow.reasons) <= {
        CcReason.NONE,
        CcReason.FAST_INCREASE,
        CcReason.PROPORTIONAL_INCREASE,
        CcReason.PERIODIC_INCREASE,
    }


@pytest.mark.parametrize("stretch", [7, 1_000])
def test_stretched_fabric_is_the_same_film_in_slow_motion(stretch: int) -> None:
    """Averages are rounded in finer steps there, so windows may be some bytes apart, but no packet."""
    films = []
    for factor in (1, stretch):
        link = CcLink(DATA_CENTRE.rate_bps // factor, DATA_CENTRE.base_rtt_ns * factor, 4096)
        simulation = simulate(link, 6, serialisation_ns=335 * factor)
        for number, flow in enumerate(simulation.flows):
            simulation.start(flow, (1 + number) * 1_000 * factor)
        film = []
        for picture in range(1, 200):
            simulation.run(picture * link.base_rtt_ns // 2)
            film.append([(flow.nscc.cwnd_bytes, flow.received_bytes) for flow in simulation.flows])
        films.append(film)
    assert len({cwnd for picture in films[0] for cwnd, _ in picture}) > 100
    for original, stretched in zip(*films, strict=True):
        for (cwnd, received), (stretched_cwnd, stretched_received) in zip(original, stretched, strict=True):
            assert received == stretched_received
            assert abs(cwnd - stretched_cwnd) <= 32
