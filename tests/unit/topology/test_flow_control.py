"""Buffers of links under flow control, worked out by hand: a full frame is 2190 bytes."""

import pytest
from topology_file import load_values

from mrc_agents.abi import LosslessLimit
from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_queue import TRANSIT_FRAMES, LinkBuffer, link_buffers, port_queues
from mrc_testbed.topology.spec import TopologySpec

FRAME_BYTES = 2190
RATE = "100Mbit"  # 12.5 bytes in a microsecond


def clos_of(**values: Tree) -> Clos:
    return Clos(validate_values({"port_rate": RATE, **values}, TopologySpec, "test"))


def refusal(values: dict[str, Tree]) -> list[str]:
    with pytest.raises(UsageError) as refused:
        load_values(values)
    return [line.split(": spec.", 1)[1] for line in refused.value.message.splitlines()]


def test_transit_is_that_of_the_data_plane() -> None:
    assert LosslessLimit.TRANSIT_MAX.value == TRANSIT_FRAMES


def test_without_flow_control_no_link_has_a_buffer() -> None:
    assert link_buffers(clos_of()) == ()


def test_pfc_thresholds_follow_from_frame_and_delay() -> None:
    buffers = link_buffers(clos_of(flow_control="pfc", link_delay="20us"))
    xon_bytes = 500 + 4 * FRAME_BYTES  # 40 us hold 500 bytes
    xoff_bytes = xon_bytes + 4 * FRAME_BYTES
    assert set(buffers) == {LinkBuffer(xoff_bytes, xon_bytes, xoff_bytes + 500 + 18 * FRAME_BYTES)}
    assert len(buffers) == clos_of().numbering.port_count


def test_a_longer_link_has_a_larger_buffer_at_both_ends() -> None:
    delays: Tree = [{"select": {"links": "h0:1"}, "delay": "1ms"}]
    clos = clos_of(flow_control="credits", link_delays=delays)
    buffers = link_buffers(clos)
    link = clos.link("h0:1")
    assert buffers[link.lower.id] == LinkBuffer(0, 0, 25_000 + 8 * FRAME_BYTES)
    assert buffers[link.upper.id] == buffers[link.lower.id]
    assert buffers[clos.link("h0:2").lower.id] == LinkBuffer(0, 0, 8 * FRAME_BYTES)


def test_what_the_user_says_holds() -> None:
    pfc: Tree = {"xoff": "20000B", "xon": "10000B", "headroom": "0B"}
    assert set(link_buffers(clos_of(flow_control="pfc", pfc=pfc))) == {LinkBuffer(20_000, 10_000, 20_000)}
    credit: Tree = {"buffer": "9000B"}
    assert set(link_buffers(clos_of(flow_control="credits", credits=credit))) == {LinkBuffer(0, 0, 9_000)}


def test_xon_stays_below_an_xoff_that_is_low() -> None:
    (buffer,) = set(link_buffers(clos_of(flow_control="pfc", pfc={"xoff": "2190B"})))
    assert (buffer.xoff_bytes, buffer.xon_bytes) == (2190, 2189)


@pytest.mark.parametrize("kind", ["pfc", "credits"])
def test_a_port_holds_all_that_waits_in_its_switch(kind: str) -> None:
    clos = clos_of(flow_control=kind)
    ports_of_t0 = clos.spec.hosts_per_t0 + clos.numbering.uplink_count
    room_bytes = link_buffers(clos)[0].room_bytes
    for port, queue in zip(clos.ports(), port_queues(clos), strict=True):
        assert queue.data_buffer_bytes >= ports_of_t0 * room_bytes, port.name
        assert queue.trim_bytes == 0


REFUSED: list[tuple[dict[str, Tree], list[str]]] = [
    (
        {"flow_control": "pfc"},
        ["flow_control: flow_control has no effect in an unshaped fabric; give port_rate too"],
    ),
    (
        {"port_rate": RATE, "pfc": {"xoff": "1KiB"}},
        ["pfc.xoff: pfc.xoff has no effect without flow_control: pfc"],
    ),
    (
        {"port_rate": RATE, "flow_control": "pfc", "credits": {"buffer": "9KiB"}},
        ["credits.buffer: credits.buffer has no effect without flow_control: credits"],
    ),
    (
        {"port_rate": RATE, "flow_control": "pfc", "pfc": {"xoff": "1KiB", "xon": "1KiB"}},
        ["pfc.xon: xon must be less than xoff"],
    ),
    (
        {"port_rate": RATE, "flow_control": "credits", "credits": {"buffer": "2KiB"}},
        ["credits.buffer: a full frame has 2190 bytes, so none could ever be sent into 2048"],
    ),
    (
        {"port_rate": RATE, "flow_control": "credits", "queue": {"trim": {"enabled": True}}},
        ["queue.trim.enabled: a fabric with flow_control: credits holds packets back; it never trims"],
    ),
    (
        {"port_rate": RATE, "flow_control": "pfc", "queue": {"data_buffer": "1MiB"}},
        [
            "queue.data_buffer: with flow_control: pfc a packet waits in the buffer of the link it came by; "
            "set pfc.xoff and pfc.headroom"
        ],
    ),
]


@pytest.mark.parametrize(("values", "problems"), REFUSED)
def test_what_contradicts_itself_is_refused_at_its_key(values: dict[str, Tree], problems: list[str]) -> None:
    assert refusal(values) == problems
