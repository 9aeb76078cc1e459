"""Link probes: what leaves, what counts as back in time, late or lost, against a model of the rounds."""

from dataclasses import dataclass, field, replace

import pytest
from exploring import examples
from far_end import FarEnd, packet_of
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import NicBench
from program_bench import Verdict
from reference.frame import Frame, Route, build_frame, decode_frame, encode_frame
from reference.link_probe_header import Lph
from reference.network_header import parse_mac
from reference.opcode import Opcode
from reference.packet import LinkProbe
from reference.transport_header import ENDPOINT_QPN, Bth

from mrc_agents.abi import LinkProbePath, NicCounter
from mrc_testbed.topology.probe_path import probe_paths
from mrc_testbed.topology.usid import Role, Usid, pack_carrier

ROUNDS_REMEMBERED = 64


@dataclass
class Rounds:
    """The expected result of every round on one path, by docs/reference/protocol.md, without a bitmap."""

    lag: int
    back: dict[int, int] = field(default_factory=dict)
    sent: int = 0
    failed_rounds: set[int] = field(default_factory=set)
    in_row: int = 0

    def send(self) -> None:
        due = self.sent - self.lag
        if due >= 0:
            if due in self.back:
                self.in_row = 0
            else:
                self.failed_rounds.add(due)
                self.in_row += 1
        self.sent += 1

    def receive(self, number: int) -> bool:
        """Return False if the probe is stale."""
        age = self.sent - 1 - number
        if not 0 <= age < ROUNDS_REMEMBERED or number in self.back:
            return False
        self.back[number] = age
        return True

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        late = sum(age >= self.lag for age in self.back.values())
        return self.sent, len(self.back) - late, len(self.failed_rounds), late, self.in_row


def counts_of(path: LinkProbePath) -> tuple[int, int, int, int, int]:
    return path.sent, path.passed, path.failed, path.late, path.failed_in_row


def fresh(nic: NicBench, lag: int) -> None:
    """Forgets all rounds."""
    nic.link_probing.lag_rounds = lag
    for path in nic.link_probe_paths:
        for name, _ in LinkProbePath._fields_:
            if name not in {"carrier_hi", "carrier_lo", "plane"}:
                setattr(path, name, 0)


def returning(nic: NicBench, frame: bytes) -> bytes:
    """*frame*, which left the NIC, as its T0 hands it back."""
    sent = decode_frame(frame)
    plane = sent.ev >> 28
    own = Usid(Role.DOWNLINK, plane, nic.clos.numbering.downlink(nic.host))
    assert sent.outer is not None
    return encode_frame(
        replace(sent, outer=replace(sent.outer, destination=pack_carrier((own,)), hop_limit=61))
    )


def expected_frame(nic: NicBench, index: int, lph: Lph) -> Frame:
    path = probe_paths(nic.clos, nic.host)[index]
    port = nic.ports[path.plane]
    address = nic.clos.inner_address(nic.host, path.plane)
    route = Route(
        source_mac=parse_mac(port.mac),
        destination_mac=parse_mac(nic.clos.mac(port.peer_id)),
        source=address,
        destination=address,
        carrier=path.carrier,
        ev=path.plane << 28,
    )
    return build_frame(route, LinkProbe(Bth(Opcode.LINK_PROBE, ENDPOINT_QPN, 0), lph))


def test_a_round_is_a_probe_on_every_path(nic: NicBench) -> None:
    fresh(nic, 1)
    outcomes = nic.link_probes()
    assert len(outcomes) == len(probe_paths(nic.clos, nic.host)) > nic.clos.spec.planes
    for index, outcome in enumerate(outcomes):
        sent_ns = packet_of(outcome.frame, LinkProbe).lph.sent_ns
        assert decode_frame(outcome.frame) == expected_frame(nic, index, Lph(index, 0, sent_ns))
        assert (outcome.verdict, outcome.counters) == (Verdict.REDIRECT, {NicCounter.TX_LINK_PROBE: 1})
        assert outcome.planes == (probe_paths(nic.clos, nic.host)[index].plane,)
    assert nic.kick_again().verdict is Verdict.DROP


def test_what_comes_back_is_counted_with_its_round_trip_time(nic: NicBench) -> None:
    fresh(nic, 1)
    for outcome in nic.link_probes():
        back = nic.receive(returning(nic, outcome.frame), outcome.planes[0])
        assert (back.verdict, back.counters) == (Verdict.DROP, {NicCounter.RX_LINK_PROBE: 1})
    for path in nic.link_probe_paths:
        assert counts_of(path) == (1, 1, 0, 0, 0)
        assert 0 < path.rtt_max_ns == path.rtt_sum_ns < 60_000_000_000


@settings(max_examples=examples(60))
@given(lag=st.integers(1, 63), steps=st.lists(st.one_of(st.none(), st.integers(-2, 70)), max_size=150))
def test_rounds_are_judged_as_the_model_judges_them(nic: NicBench, lag: int, steps: list[int | None]) -> None:
    """None sends a round; a number lets the probe of so many rounds ago come back, if it ever left."""
    fresh(nic, lag)
    model, frames, index = Rounds(lag), [], 0
    for step in steps:
        if step is None:
            frames.append(nic.link_probes()[index].frame)
            model.send()
        elif 0 <= model.sent - 1 - step < model.sent:
            number = model.sent - 1 - step
            back = nic.receive(returning(nic, frames[number]), 0)
            is_fresh = model.receive(number)
            expected = NicCounter.RX_LINK_PROBE if is_fresh else NicCounter.DROP_STALE_PROBE
            assert back.counters == {expected: 1}
        assert counts_of(nic.link_probe_paths[index]) == model.counts


@pytest.mark.parametrize(
    "lph",
    [Lph(1 << 20, 0, 1), Lph(0, 1, 1), Lph(0, 0xFFFFFFFF, 1)],
    ids=["path", "round to come", "round -1"],
)
def test_probe_that_was_never_sent_is_dropped(nic: NicBench, lph: Lph) -> None:
    fresh(nic, 1)
    nic.link_probes()
    back = nic.receive(returning(nic, encode_frame(expected_frame(nic, 0, lph))), 0)
    assert (back.verdict, back.counters) == (Verdict.DROP, {NicCounter.DROP_STALE_PROBE: 1})
    assert counts_of(nic.link_probe_paths[0]) == (1, 0, 0, 0, 0)


def test_probe_of_another_host_or_through_another_plane_is_dropped(nic: NicBench, distant: FarEnd) -> None:
    fresh(nic, 1)
    frame = nic.link_probes()[0].frame
    sent = decode_frame(returning(nic, frame))
    foreign = replace(sent, inner=replace(sent.inner, source=nic.clos.inner_address(distant.peer, 0)))
    assert nic.receive(encode_frame(foreign), 0).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert nic.receive(returning(nic, frame), 1).counters == {NicCounter.DROP_NOT_OURS: 1}
    other_path = replace(sent, packet=replace(packet_of(frame, LinkProbe), lph=Lph(3, 0, 1)))
    assert nic.receive(encode_frame(other_path), 0).counters == {NicCounter.DROP_STALE_PROBE: 1}


def test_truncated_probe_is_dropped(nic: NicBench) -> None:
    fresh(nic, 1)
    good = returning(nic, nic.link_probes()[0].frame)
    for length in range(114, len(good)):
        assert nic.receive(good[:length], 0).counters == {NicCounter.DROP_LENGTH: 1}
    assert counts_of(nic.link_probe_paths[0]) == (1, 0, 0, 0, 0)
