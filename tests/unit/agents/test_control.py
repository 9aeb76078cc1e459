"""libmrc's control API: every message that a controller can send, and what it is refused for."""

import asyncio
import errno
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import (
    ControlEvent,
    ControlField,
    ControlMessage,
    ControlObject,
    ControlWord,
    CtlEvOp,
    CtlEvState,
    Event,
    EventKind,
    EvState,
)
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.control import Controller, PathProbes
from mrc_agents.nic.reactions import Reactions
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=3, hosts_per_t0=2))
SETTINGS = NicSettings("h0", rate_bps=400_000_000, base_rtt_ns=750_000)
_, FORMAT, PROFILE, CC, PORT, PROBE = ControlObject
INIT, OFFLINE, ONLINE = range(3)
STATE, CUR_STATE, VENDOR_CFG = 1, 2, 1 << 31
MODE, FMT_ID, COUNT, MIN_ACTIVE, EVENT_MASK, EV_OP, FIELDS = (1 << bit for bit in range(2, 9))
OP = CONFIG = 8
AUTO, EXP, GEN = 1, 2, 4
GOOD, ASSUMED_BAD, DENIED = CtlEvState.GOOD, CtlEvState.ASSUMED_BAD, CtlEvState.DENIED
LIMITS = {"min_active": 2, "event_mask": GOOD}
MADE_WITH: dict[int, dict[str, Any]] = {  # of each kind, what it needs to be OFFLINE and, further on, ONLINE
    FORMAT: {"mask": MODE | OP, "mode": 1, "fields": [(16,), (16,)]},
    PROFILE: {"mask": MODE | COUNT | MIN_ACTIVE | EVENT_MASK, "mode": AUTO, "count": 8} | LIMITS,
    CC: {"mask": MODE | CONFIG, "mode": 1},
}
NSCC = [1, 9000, 800_000, 500_000, 100.4, 5000.0, 0.5, 0.75, 0.25, 30_000, 2, 900_000, 400_000]
"""A CC profile in the order of its words."""


class Nic:
    """A controller's view of a NIC."""

    def __init__(self, device: VirtualNic) -> None:
        self.device = device
        self.published: list[dict[str, Any]] = []
        self.reactions = Reactions(SETTINGS, device, self.published.append, lambda _: None)
        self.verbs = self.reactions.verbs
        self.controller = Controller(SETTINGS, self.reactions, AnsweredProbes(device))

    def send(self, kind: int, number: int, **values: Any) -> ControlMessage:
        """A message, carried out."""
        parts = {name: values.pop(name, ()) for name in ("fields", "entries", "words")}
        control = ControlMessage(object=kind, id=number, **values)
        for place, field in enumerate(parts["fields"]):
            control.fields[place] = field
        for place, entry in enumerate(parts["entries"]):
            for name, value in entry.items():
                setattr(control.entries[place], name, value)
        for place, word in enumerate(parts["words"]):
            control.words[place] = word
        control.field_count = control.field_count or len(parts["fields"])
        control.entry_count = control.entry_count or len(parts["entries"])
        asyncio.run(self.controller.carry_out(control))
        return control

    def query(self, kind: int, number: int, mask: int = 0, **values: Any) -> ControlMessage:
        return self.send(kind, number, is_query=1, mask=mask, **values)

    def move(self, kind: int, number: int, *states: int) -> None:
        for state in states:
            self.send(kind, number, mask=STATE, state=state)

    def make(self, kind: int, number: int, state: int = OFFLINE, **values: Any) -> None:
        """Brings a profile that is INIT up to a state."""
        given = MADE_WITH[kind] | values
        self.send(kind, number, **given | {"mask": given["mask"] | STATE, "state": OFFLINE})
        self.move(kind, number, *range(ONLINE, state + 1))

    def refusal(self, kind: int, number: int, **values: Any) -> int:
        with pytest.raises(UsageError) as refused:
            self.send(kind, number, **values)
        return refused.value.number

    def explicit(self, number: int = 2, state: int = OFFLINE) -> None:
        """A profile of EVs 1 to 3 on each port, its format 13."""
        self.make(FORMAT, 13, ONLINE)
        given = {"mask": MODE | FMT_ID | COUNT | MIN_ACTIVE | EVENT_MASK, "mode": EXP, "format_id": 13}
        self.make(PROFILE, number, count=12, **given)
        self.change(number, *[new(ev, port) for port in (1, 2, 3, 4) for ev in (1, 2, 3)])
        self.move(PROFILE, number, *range(ONLINE, state + 1))

    def change(self, number: int, *entries: dict[str, int], op: int = CtlEvOp.REPLACE_EV) -> ControlMessage:
        return self.send(PROFILE, number, mask=EV_OP, op=op, entries=entries)

    def array(self, number: int) -> list[tuple[int, int, int]]:
        """EVs without their planes, their ports and states."""
        found = self.query(PROFILE, number, EV_OP, op=CtlEvOp.QUERY_EV_ARRAY)
        return [(each.ev & 0xFFFFFFF, each.port, each.state) for each in found.entries[: found.entry_count]]


class AnsweredProbes(PathProbes):
    """Each probe but one of EV 9 takes as many ns as its peer and its EV's body say."""

    async def probe(self, peer_host: int, evs: Sequence[int], wait_ns: int) -> list[dict[str, Any]]:
        assert wait_ns == 1000
        bodies = [ev & 0xFFFFFFF for ev in evs]
        return [{"rtt_ns": None if body == 9 else 1000 * peer_host + body} for body in bodies]


def new(ev_new: int, port_new: int, state: int = GOOD, **old: int) -> dict[str, int]:
    return {"ev_new": ev_new, "port_new": port_new, "state": state} | old


def bits(value: float) -> int:
    """The word of a parameter."""
    return value if isinstance(value, int) else int(struct.unpack("I", struct.pack("f", value))[0])


@pytest.fixture
def nic() -> Iterator[Nic]:
    with virtual_nic(FABRIC) as device:
        yield Nic(device)


@pytest.mark.parametrize("kind", MADE_WITH)
@pytest.mark.parametrize("number", [0, 16])
def test_life_of_a_profile(nic: Nic, kind: int, number: int) -> None:
    def state() -> int:
        return nic.query(kind, number).state

    assert state() == INIT
    assert nic.refusal(kind, number, mask=STATE, state=OFFLINE) == errno.EINVAL  # lacks its attributes
    assert nic.refusal(kind, number, **MADE_WITH[kind]) == errno.EINVAL  # INIT has none
    nic.make(kind, number)
    assert state() == OFFLINE
    ways = {OFFLINE: (3,), ONLINE: (INIT,), INIT: (ONLINE,)}
    for follows in (ONLINE, OFFLINE, ONLINE, OFFLINE, INIT):
        assert nic.refusal(kind, number, mask=STATE | CUR_STATE, state=follows, cur_state=3) == errno.EINVAL
        nic.send(kind, number, mask=STATE | CUR_STATE, state=follows, cur_state=state())
        assert state() == follows
        for wrong in ways[follows]:
            assert nic.refusal(kind, number, mask=STATE, state=wrong) == errno.EINVAL
        if follows == ONLINE:
            assert nic.refusal(kind, number, mask=MODE, mode=1) == errno.EINVAL
    assert nic.refusal(kind, number, mask=VENDOR_CFG) == errno.EOPNOTSUPP
    assert nic.refusal(kind, number, mask=1 << 20) == errno.EINVAL
    assert nic.refusal(kind, 17, mask=STATE, state=OFFLINE) == errno.EINVAL


def test_json_verbs_see_the_same_profiles(nic: Nic) -> None:
    nic.verbs.modify_ev_profile(1, "OFFLINE", mode="AUTO", count=8)
    assert nic.query(PROFILE, 1).count == 8
    assert nic.refusal(PROFILE, 1, mask=STATE, state=ONLINE) == errno.EINVAL  # lacks what libmrc needs
    nic.make(PROFILE, 2, ONLINE)
    assert nic.verbs.query_ev_profile(2)["state"] == "ONLINE"


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"mode": 2}, errno.EOPNOTSUPP),
        ({"mode": 3}, errno.EINVAL),
        ({"fields": [(0,), (16,)]}, errno.EINVAL),
        ({"fields": [(16,), (17,)]}, errno.E2BIG),
        ({"field_count": 9}, errno.E2BIG),
    ],
)
def test_format_that_cannot_be(nic: Nic, values: dict[str, Any], error: int) -> None:
    wanted = MADE_WITH[FORMAT] | {"state": OFFLINE} | values
    assert nic.refusal(FORMAT, 1, **wanted | {"mask": wanted["mask"] | STATE}) == error
    assert nic.query(FORMAT, 1).state == INIT


def test_fields_of_a_format(nic: Nic) -> None:
    nic.make(FORMAT, 14, mode=4, fields=[(16,), (4,)])
    found = nic.query(FORMAT, 14, MODE | OP)
    assert (found.mode, [each.width for each in found.fields[: found.field_count]]) == (4, [16, 4])


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"mask": COUNT | MODE, "mode": 3}, errno.EINVAL),
        ({"mask": COUNT, "count": 6}, errno.EINVAL),
        ({"mask": COUNT | MIN_ACTIVE, "count": 4, "min_active": 5}, errno.EINVAL),
        ({"mask": MIN_ACTIVE, "min_active": 9}, errno.EINVAL),
        ({"mask": MODE | FMT_ID, "mode": EXP, "format_id": 17}, errno.EINVAL),
        ({"mask": EVENT_MASK, "event_mask": DENIED}, errno.EINVAL),
        ({"mask": MODE, "mode": EXP}, errno.EINVAL),  # it needs a format
        ({"mask": FIELDS, "fields": [(12,)]}, errno.EINVAL),  # AUTO has none
        ({"mask": FIELDS, "field_count": 9}, errno.E2BIG),
        ({"mask": EV_OP | FIELDS}, errno.EINVAL),
        ({"mask": EV_OP, "op": CtlEvOp.QUERY_EV_ARRAY}, errno.EINVAL),
        ({"mask": EV_OP, "entry_count": 257}, errno.E2BIG),
        ({"mask": EV_OP, "entries": [new(1, 1)]}, errno.EINVAL),  # AUTO makes its own
    ],
)
def test_message_that_fails_changes_nothing(nic: Nic, values: dict[str, Any], error: int) -> None:
    nic.make(PROFILE, 5)
    before = bytes(nic.query(PROFILE, 5))
    wanted = {"state": ONLINE} | values
    assert nic.refusal(PROFILE, 5, **wanted | {"mask": wanted["mask"] | STATE}) == error
    assert bytes(nic.query(PROFILE, 5)) == before


def test_explicit_evs_are_given_port_by_port(nic: Nic) -> None:
    nic.explicit()
    nic.change(2, new(7, 2, ev=3, port=2))
    assert nic.array(2)[3:6] == [(1, 2, GOOD), (2, 2, GOOD), (7, 2, GOOD)]
    assert nic.refusal(PROFILE, 2, mask=EV_OP, entries=[new(8, 2)]) == errno.ENOENT  # no free place
    nic.move(PROFILE, 2, INIT)
    nic.make(PROFILE, 2, mask=MODE | FMT_ID | COUNT, mode=EXP, format_id=13, count=8)
    assert nic.array(2) == [(0, 0, CtlEvState.UNKNOWN)] * 8
    nic.change(2, new(5, 3, flags=1), new(6 | 1 << 28, 2, DENIED))
    assert nic.refusal(PROFILE, 2, mask=EV_OP, entries=[new(8, 3)]) == errno.EINVAL  # each port has as many
    assert nic.array(2)[2:6] == [(6, 2, DENIED), (0, 0, CtlEvState.UNKNOWN), (5, 3, GOOD), (5, 3, GOOD)]
    assert nic.refusal(PROFILE, 2, mask=STATE, state=ONLINE) == errno.EINVAL


@pytest.mark.parametrize(
    ("op", "entry", "error"),
    [
        (CtlEvOp.REPLACE_EV, new(8, 2, ev=9, port=2), errno.ENOENT),
        (CtlEvOp.REPLACE_EV, new(8, 5, ev=1, port=2), errno.EINVAL),
        (CtlEvOp.REPLACE_EV, new(8, 1, ev=1, port=2), errno.EINVAL),
        (CtlEvOp.REPLACE_EV, new(8, 2, ASSUMED_BAD, ev=1, port=2), errno.EINVAL),
        (CtlEvOp.REPLACE_EV, new(8 | 2 << 28, 2, ev=1, port=2), errno.EINVAL),
        (CtlEvOp.MODIFY_EV_STATE, {"ev": 9, "port": 1, "state": GOOD}, errno.ENOENT),
        (CtlEvOp.MODIFY_EV_STATE, {"ev": 1, "port": 1, "state": CtlEvState.UNKNOWN}, errno.EINVAL),
        (CtlEvOp.MODIFY_EV_STATE, {"ev": 0, "port": 0, "state": GOOD}, errno.EINVAL),
    ],
)
def test_array_stops_at_the_entry_that_fails(
    nic: Nic, op: CtlEvOp, entry: dict[str, int], error: int
) -> None:
    nic.explicit(state=ONLINE)
    first = {"ev": 2, "port": 1} if op == CtlEvOp.MODIFY_EV_STATE else {"ev": 3, "port": 1}
    entries = [new(2, 1, DENIED, **first), entry, new(4, 4, ev=1, port=4)]
    assert nic.refusal(PROFILE, 2, mask=EV_OP, op=op, entries=entries) == error
    assert nic.array(2)[1] == (2, 1, DENIED)
    assert nic.array(2)[9] == (1, 4, GOOD)


def test_evs_of_a_profile_that_qps_use(nic: Nic) -> None:
    nic.explicit(state=ONLINE)
    qpn = nic.verbs.create_qp(3, ev_profile=2)
    assert nic.refusal(PROFILE, 2, mask=STATE, state=OFFLINE) == errno.EBUSY
    assert nic.refusal(FORMAT, 13, mask=STATE, state=OFFLINE) == errno.EBUSY
    nic.change(2, new(8, 2, DENIED, ev=1, port=2))
    nic.change(2, {"ev": 2, "port": 2, "state": ASSUMED_BAD}, op=CtlEvOp.MODIFY_EV_STATE)
    evs = nic.device.qps.read(qp_index(qpn)).evs.ev
    assert [evs[place].entropy for place in (3, 4)] == [8 | 1 << 28, 2 | 1 << 28]
    assert [evs[place].state for place in (3, 4)] == [EvState.DENIED, EvState.ASSUMED_BAD]
    entries = [{"ev": 8, "port": 2}, {"ev": 2, "port": 2}, {"ev": 1, "port": 4}]
    found = nic.query(PROFILE, 2, EV_OP, op=CtlEvOp.QUERY_EV_STATE, entries=entries)
    assert [each.state for each in found.entries[:3]] == [DENIED, ASSUMED_BAD, GOOD]
    assert found.entries[2].ev == 1 | 3 << 28


def test_fields_generate_evs_and_change_while_online(nic: Nic) -> None:
    nic.make(FORMAT, 0, ONLINE)
    mask = MODE | FMT_ID | COUNT | MIN_ACTIVE | EVENT_MASK | FIELDS
    fields = [(16, 0xF100, 0, 3, 3), (16, 7, 0, 0, 0)]
    nic.make(PROFILE, 0, ONLINE, mask=mask, mode=GEN, format_id=0, count=8, fields=fields)
    found = nic.query(PROFILE, 0, FIELDS)
    assert [bytes(each) for each in found.fields[:2]] == [bytes(ControlField(*each)) for each in fields]
    assert (found.mode, found.min_active, found.event_mask, found.field_count) == (GEN, 2, GOOD, 2)
    assert {ev & ~0x30000 for ev, _, _ in nic.array(0)} == {0x1000007 | 0x100_0000}
    qpn = nic.verbs.create_qp(3, ev_profile=0)
    nic.send(PROFILE, 0, mask=FIELDS, fields=[(16, 0, 0, 3, 3)])
    evs = nic.device.qps.read(qp_index(qpn)).evs.ev
    assert [ev for ev, _, _ in nic.array(0)] == [evs[place].entropy & 0xFFFFFFF for place in range(8)]
    assert {evs[place].entropy & 0xFFFF for place in range(8)} == {0}
    assert nic.refusal(PROFILE, 0, mask=FIELDS, fields=[(1,)] * 3) == errno.E2BIG


def test_parameters_of_congestion_control(nic: Nic) -> None:
    padding = {0: 0xABCD00, 10: 0x1200}  # of members that are bytes
    words = [bits(value) | padding.get(place, 0) for place, value in enumerate(NSCC)]
    nic.make(CC, 3, ONLINE, words=words)
    exact = [*NSCC[:4], 100.0, *NSCC[5:]]  # eta is whole bytes
    assert nic.query(CC, 3, CONFIG).words[: len(NSCC)] == [bits(value) for value in exact]
    nic.make(CC, 4)
    in_force = nic.query(CC, 4, CONFIG).words
    assert (in_force[0], in_force[3], in_force[12] > 0) == (0, SETTINGS.base_rtt_ns, True)
    for bad in ([*NSCC[:5], float("nan")], [*NSCC[:7], 2.0]):
        assert nic.refusal(CC, 4, mask=CONFIG, words=map(bits, bad)) == errno.EINVAL
    nic.verbs.create_qp(3, [plane << 28 for plane in range(4)], cc_profile=3)
    assert nic.refusal(CC, 3, mask=STATE, state=OFFLINE) == errno.EBUSY


def test_no_congestion_control_is_a_fixed_window(nic: Nic) -> None:
    nic.make(CC, 0, ONLINE, mask=MODE, mode=0)
    assert nic.query(CC, 0, MODE | CONFIG).mode == 0
    nic.verbs.create_qp(3, [plane << 28 for plane in range(4)], cc_profile=0)
    assert nic.verbs.list_qps()[0]["cc"] == "fixed"


def test_disabled_port_is_down_whatever_its_carrier_is(nic: Nic) -> None:
    port = nic.device.config.port_id[1]
    up = nic.device.control
    for state, carrier, is_up in [(0, True, False), (0, False, False), (1, False, False), (1, True, True)]:
        nic.send(PORT, 2, mask=1, state=state)
        nic.reactions.on_carrier(port, is_up=carrier)
        assert (nic.query(PORT, 2).state, up.port_up_mask) == (state, 0b1111 if is_up else 0b1101)
    assert [(each["plane"], each["is_up"]) for each in nic.published] == [(1, False), (1, True)]
    for number, values in ((0, {}), (5, {}), (1, {"mask": 1, "state": 2}), (1, {"mask": 2})):
        assert nic.refusal(PORT, number, **values) == errno.EINVAL


def test_probes_of_several_peers(nic: Nic) -> None:
    entries = [{"peer": peer, "ev": ev, "port": 2} for peer, ev in ((1, 5), (3, 6), (1, 9), (3, 8))]
    found = nic.send(PROBE, 0, entries=entries, timeout_ns=1000)
    assert [each.rtt_ns for each in found.entries[:4]] == [1005, 3006, 0, 3008]
    own, no_port = [{"peer": 0, "ev": 1, "port": 1}], [{"peer": 1, "ev": 1, "port": 5}]
    for refused in ({"timeout_ns": 0, "entries": entries}, {}, {"entries": own}, {"entries": no_port}):
        assert nic.refusal(PROBE, 0, **{"timeout_ns": 1, **refused}) == errno.EINVAL


def test_device(nic: Nic) -> None:
    nic.make(PROFILE, 7)
    words = nic.query(ControlObject.DEVICE, 0).words
    assert list(words[: ControlWord.HAS_NSCC + 1]) == [17, 17, 17 * 256, 17 * 256 - 8, 256, 4, 32, 17, 30, 1]
    assert nic.refusal(ControlObject.DEVICE, 0) == nic.refusal(9, 0) == errno.EINVAL


def test_changes_of_evs_that_a_profile_reports(nic: Nic) -> None:
    nic.make(PROFILE, 6, ONLINE)
    nic.verbs.create_qp(3, ev_profile=6)
    for state in (EvState.ASSUMED_BAD, EvState.GOOD, EvState.DENIED):
        event = Event(time_ns=1, kind=EventKind.EV_STATE, qp_index=0, a=2, c=state, drop_count=3)
        nic.reactions.on_events([event])
    packets = [nic.controller.event(fields) for fields in nic.published]
    assert packets[1:] == [None]  # DENIED is not in any mask
    found = ControlEvent.from_buffer_copy(packets[0] or b"")
    ev = nic.verbs._profiles[6].evs[2]
    assert (found.profile_id, found.ev, found.port, found.drop_count, found.state) == (6, ev, 2, 3, GOOD)
