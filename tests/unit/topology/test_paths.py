from ipaddress import IPv6Address

import pytest
from clos_strategies import Route, routes, small_closes
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from switch_simulation import SwitchSimulation

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import Ev, decode_ev
from mrc_testbed.topology.forwarding import Action, fib_entries, trace_carrier
from mrc_testbed.topology.path import build_path, explain_ev, path_carrier, qp_template
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.usid import Role, Usid, decode_usid, pack_carrier, shift_carrier, unpack_carrier


def usids_of_contract(route: Route) -> tuple[Usid, ...]:
    """Source T0, T1, T2, T1, destination T0, downlink; without those of tiers that are not crossed."""
    clos, (_, t1, *above) = route.clos, route.clos.numbering.tiers
    lanes, uplinks = t1.lanes, t1.switches * t1.lanes
    first = Usid(Role.T0, route.plane, clos.numbering.row(route.source) * lanes)
    last = Usid(Role.DOWNLINK, route.plane, clos.numbering.downlink(route.destination))
    if not clos.distance(route.source, route.destination):
        return first, last
    row, uplink = clos.numbering.row(route.destination), route.uplink % uplinks
    up = Usid(Role.T1, route.plane, uplink)
    down = Usid(Role.T0, route.plane, row * lanes + uplink % lanes)
    if clos.distance(route.source, route.destination) == 1:
        return first, up, down, last
    second, pod = route.uplink // uplinks, row // t1.joins
    t1_down = Usid(Role.T1, route.plane, uplinks + pod * above[0].lanes + second % above[0].lanes)
    return first, up, Usid(Role.T2, route.plane, second), t1_down, down, last


def link_ids_of_contract(route: Route) -> list[int]:
    """The links of a path by the numbering formulas of docs/reference/protocol.md, written out."""
    planes, ((per_t0, *_), t1, *above) = route.clos.spec.planes, route.clos.numbering.tiers
    pods = above[0].joins if above else 1
    t0s, uplinks = pods * t1.joins, t1.switches * t1.lanes
    hosts = t0s * per_t0
    source_row, destination_row = route.source // per_t0, route.destination // per_t0
    uplink = route.uplink % uplinks

    def uplink_of_t0(t0: int) -> int:
        return hosts * planes + (route.plane * t0s + t0) * uplinks + uplink

    def uplink_of_t1(pod: int) -> int:
        number = route.plane * pods * t1.switches + pod * t1.switches + uplink // t1.lanes
        first = (hosts + t0s * uplinks) * planes
        return first + number * above[0].switches * above[0].lanes + route.uplink // uplinks

    first = route.source * planes + route.plane
    last = route.destination * planes + route.plane
    if source_row == destination_row:
        return [first, last]
    up, down = uplink_of_t0(source_row), uplink_of_t0(destination_row)
    if source_row // t1.joins == destination_row // t1.joins:
        return [first, up, down, last]
    tops = [uplink_of_t1(row // t1.joins) for row in (source_row, destination_row)]
    return [first, up, *tops, down, last]


@settings(max_examples=examples(150))
@given(routes())
def test_switches_deliver_a_carrier_over_the_links_of_its_path(route: Route) -> None:
    clos = route.clos
    carrier = path_carrier(clos, route.source, route.destination, route.plane, route.uplink)

    delivery = SwitchSimulation(clos).send(route.source, route.plane, int(carrier))

    path = build_path(clos, route.source, route.destination, route.plane, route.uplink)
    assert delivery.host == route.destination
    assert delivery.link_ids == [link.id for link in path.links] == link_ids_of_contract(route)


@settings(max_examples=examples(100))
@given(routes())
def test_explanation_reports_what_the_switches_do(route: Route) -> None:
    clos = route.clos
    path = explain_ev(clos, clos.ev(route.plane, route.uplink), route.source, route.destination)
    assert path.carrier is not None

    delivery = SwitchSimulation(clos).send(route.source, route.plane, int(path.carrier))

    assert [int(hop.departure) for hop in path.hops if hop.departure is not None] == delivery.addresses
    assert [hop.egress.link_id for hop in path.hops if hop.egress is not None] == delivery.link_ids
    switch_count = 1 + 2 * clos.distance(route.source, route.destination)
    assert [hop.action for hop in path.hops] == [
        Action.ENCAPSULATE,
        *[Action.SHIFT] * switch_count,
        Action.DECAPSULATE,
    ]
    for before, after in zip(path.hops, path.hops[1:], strict=False):
        assert before.egress is not None
        assert after.ingress == clos.peer(before.egress)
        assert after.arrival == before.departure


@settings(max_examples=examples(100))
@given(routes())
def test_reverse_path_crosses_the_same_links_backwards(route: Route) -> None:
    clos = route.clos
    entropy = clos.ev(route.plane, route.uplink)
    there = explain_ev(clos, entropy, route.source, route.destination)
    back = explain_ev(clos, entropy, route.destination, route.source)
    assert back.carrier is not None

    delivery = SwitchSimulation(clos).send(route.destination, route.plane, int(back.carrier))

    assert delivery.host == route.source
    assert delivery.link_ids == [link.id for link in reversed(there.links)]


@settings(max_examples=examples(100))
@given(routes())
def test_depositing_plane_and_uplink_in_the_template_gives_the_packed_usids(route: Route) -> None:
    usids = usids_of_contract(route)
    template = qp_template(route.clos, route.source, route.destination)

    distance = route.clos.distance(route.source, route.destination)
    carrier = template.deposit(route.plane, route.clos.numbering.uplinks_of_way(route.uplink, distance))

    assert carrier == pack_carrier(usids)
    assert unpack_carrier(carrier) == usids


@settings(max_examples=examples(60))
@given(routes(small_closes()))
def test_every_path_between_two_hosts_has_links_of_its_own_in_the_middle(route: Route) -> None:
    clos = route.clos
    distance = clos.distance(route.source, route.destination)
    uplinks = range(clos.numbering.way_count(distance))
    middles = [
        {link.id for link in build_path(clos, route.source, route.destination, plane, uplink).links}
        for plane in range(clos.spec.planes)
        for uplink in uplinks
    ]
    if distance:
        middles = [{link_id for link_id in ids if not clos.link(link_id).is_host_link} for ids in middles]
    assert sum(len(middle) for middle in middles) == len(set().union(*middles))


@given(st.integers(0, 15), st.integers(0, 4095), st.integers(0, 65535))
def test_ev_round_trip(plane: int, uplink: int, copy: int) -> None:
    ev = Ev(plane, uplink, copy)
    assert 0 <= ev.value < 1 << 32
    assert decode_ev(ev.value) == ev


def test_ev_fields_stand_where_the_data_plane_reads_them() -> None:
    assert Ev(plane=5, uplink=0x123, copy=0x4567).value == 0x51234567


@given(st.sampled_from([Role.T0, Role.T1, Role.DOWNLINK]), st.integers(0, 15), st.integers(0, 1023))
def test_usid_round_trip(role: Role, plane: int, index: int) -> None:
    assert decode_usid(Usid(role, plane, index).value) == Usid(role, plane, index)


def test_role_zero_is_no_usid() -> None:
    assert decode_usid(0x3FFF) is None


@pytest.mark.parametrize(
    ("spec", "source", "destination", "plane", "uplink", "carrier"),
    [
        (TopologySpec(), 0, 5, 2, 1, "fcbb:0:4800:8801:4801:c801::"),
        (TopologySpec(), 0, 3, 3, 0, "fcbb:0:4c00:cc03::"),
        (TopologySpec(uplinks_per_pair=2), 1, 4, 0, 3, "fcbb:0:4000:8003:4003:c000::"),
        (TopologySpec(uplinks_per_pair=2), 7, 0, 1, 2, "fcbb:0:4402:8402:4400:c400::"),
        (
            TopologySpec(planes=16, t0=64, t1=1024, hosts_per_t0=4),
            0,
            255,
            15,
            1023,
            "fcbb:0:7c00:bfff:7c3f:fc03::",
        ),
    ],
)
def test_carriers_worked_out_by_hand(
    spec: TopologySpec, source: int, destination: int, plane: int, uplink: int, carrier: str
) -> None:
    assert path_carrier(Clos(spec), source, destination, plane, uplink) == IPv6Address(carrier)


def test_shift_consumes_the_active_usid_and_keeps_the_block() -> None:
    assert shift_carrier(IPv6Address("fcbb:0:4800:8801:4801:c801::")) == IPv6Address(
        "fcbb:0:8801:4801:c801::"
    )
    assert shift_carrier(IPv6Address("fcbb:0:1:2:3:4:5:6")) == IPv6Address("fcbb:0:2:3:4:5:6:0")


@pytest.mark.parametrize(
    ("carrier", "actions", "reason"),
    [
        (
            "fcbb:0:8000:4001:c001::",
            ["encapsulate", "forward", "uN shift", "uN shift", "decapsulate"],
            "DL(1) is this NIC port's SID",
        ),
        ("fcbb:0:4000::", ["encapsulate", "drop"], "T0(0) is own; end of carrier"),
        ("fcbb:0:4000:4001:c001::", ["encapsulate", "drop"], "T0(0) is own; no route to T0(1)"),
        ("fcbb:0:4000:8005::", ["encapsulate", "drop"], "T0(0) is own; no route to T1(5)"),
        ("fcbb:0:4400:8400:4401:c401::", ["encapsulate", "drop"], "no route to T0(0) of plane 1"),
        ("fcbb:1:4000:c001::", ["encapsulate", "drop"], "fcbb:1:4000:c001:: is no carrier"),
        (
            "fcbb:0:4000:c001:c002::",
            ["encapsulate", "uN shift", "drop"],
            "fcbb:0:c001:c002:: is not this NIC port's SID fcbb:0:c001::",
        ),
    ],
)
def test_any_carrier_is_explained_to_its_end(carrier: str, actions: list[str], reason: str) -> None:
    hops = trace_carrier(Clos(TopologySpec()), 0, 0, IPv6Address(carrier))

    assert [str(hop.action) for hop in hops] == actions
    assert hops[-1].reason == reason


@settings(max_examples=examples(200))
@given(
    small_closes(),
    st.lists(st.builds(Usid, st.sampled_from(Role), st.integers(0, 1), st.integers(0, 5)), max_size=6),
)
def test_arbitrary_carriers_end_where_the_switches_end_them(clos: Clos, usids: list[Usid]) -> None:
    carrier = pack_carrier(tuple(usids))

    hops = trace_carrier(clos, 0, 0, carrier)

    outcome = SwitchSimulation(clos).send(0, 0, int(carrier))
    last = Action.DROP if outcome.host is None else Action.DECAPSULATE
    assert (hops[-1].action, hops[-1].node.name) == (last, outcome.last_node)
    assert [hop.egress.link_id for hop in hops if hop.egress is not None] == outcome.link_ids


@pytest.mark.parametrize(
    ("source", "destination", "plane", "uplink", "message"),
    [
        (0, 0, 0, 0, "h0 does not send to itself: a path needs two hosts"),
        (0, 8, 0, 0, "host 8 does not exist: they are numbered 0 to 7"),
        (0, 5, 4, 0, "plane 4 does not exist: planes are numbered 0 to 3"),
        (0, 5, 0, 2, "uplink 2 does not exist: the uplinks of a T0 are numbered 0 to 1"),
        (0, 1, 0, 1, "h0 and h1 share their T0s: their paths have uplink 0, not 1"),
    ],
)
def test_paths_that_do_not_exist_are_refused(
    source: int, destination: int, plane: int, uplink: int, message: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        build_path(Clos(TopologySpec()), source, destination, plane, uplink)
    assert refusal.value.message == message


def test_an_ev_wider_than_32_bits_is_refused() -> None:
    with pytest.raises(UsageError, match="EVs have 32 bits"):
        explain_ev(Clos(TopologySpec()), 1 << 32, 0, 5)


@settings(max_examples=examples(60))
@given(small_closes())
def test_a_switch_has_an_entry_per_own_usid_and_per_reachable_neighbour(clos: Clos) -> None:
    spec = clos.spec
    for switch in clos.switches():
        entries = dict(fib_entries(clos, switch))
        own = [key for key, value in entries.items() if value == 0x7FFFFFFF]
        egress_ports = {value - 1 for key, value in entries.items() if key not in own}
        assert len(own) == spec.uplinks_per_pair
        assert egress_ports == {port.id for port in clos.ports_of(switch)}
        assert len(entries) == len(own) + switch.port_count


def test_a_host_has_no_forwarding_table() -> None:
    clos = Clos(TopologySpec())
    with pytest.raises(UsageError, match="h0 is a host"):
        list(fib_entries(clos, clos.host(0)))


def test_an_ev_of_any_uplink_leads_to_a_host_of_the_same_t0():
    """A NIC chooses EVs for applications without regard to their peer."""
    clos = Clos(TopologySpec())
    assert explain_ev(clos, clos.ev(1, 1, 5), 0, 1) == build_path(clos, 0, 1, 1, 0)
