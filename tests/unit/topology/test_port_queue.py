"""Settings of queues, worked out by hand: a full frame is 2190 bytes, a SACK 154."""

from typing import Any

import pytest
from topology_file import load_values

from mrc_agents.abi import PortKind
from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.topology import port_queue, timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_queue import PortQueue, control_buffer_bytes, data_buffer_bytes, port_queues
from mrc_testbed.topology.queue_spec import EcnSpec, QueueSpec, TrimSpec
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import IdleFabric

MBIT = 10**6
FRAME_BYTES, SACK_BYTES = 2190, 154
IDLE_RTT_NS = 4 * (175_200 + 12_320)
PRODUCT_BYTES = 16 * FRAME_BYTES  # 100 Mbit/s x 750 us is 9376, fewer than 16 packets
UP, DOWN, T1, NIC = PortKind.T0_UP, PortKind.T0_DOWN, PortKind.T1_DOWN, PortKind.NIC


def queue_of(kind: PortKind, **settings: Any) -> PortQueue:
    clos = Clos(TopologySpec(port_rate=100 * MBIT, queue=QueueSpec(**settings)))
    port = next(port for port in clos.ports() if port.kind is kind)
    return port_queue.port_queues(clos)[port.id]


def test_a_slow_port_holds_a_window() -> None:
    assert data_buffer_bytes(Clos(TopologySpec(port_rate=100 * MBIT))) == 64 * 2190


def test_a_port_with_a_long_link_holds_five_bandwidth_delay_products() -> None:
    clos = Clos(TopologySpec(port_rate=1000 * MBIT, link_delay=1_000_000))
    rtt_ns = 4 * (17_520 + 1_232) + 8_000_000
    assert data_buffer_bytes(clos) == 5 * (rtt_ns // 8)


def test_buffers_are_what_the_user_said() -> None:
    queue = QueueSpec(data_buffer=50_000, control_buffer=7_000)
    clos = Clos(TopologySpec(port_rate=100 * MBIT, queue=queue))
    assert (data_buffer_bytes(clos), control_buffer_bytes(clos)) == (50_000, 7_000)


def test_control_packets_have_room_for_a_thousand_sacks() -> None:
    assert control_buffer_bytes(Clos(TopologySpec(port_rate=100 * MBIT))) == 1024 * 154


def test_a_nic_port_holds_the_windows_of_all_its_qps() -> None:
    clos = Clos(TopologySpec(port_rate=100_000_000))
    nic = clos.spec.nic
    assert port_queue.nic_buffer_bytes(clos) >= nic.qps_max * nic.window_packets * timing.full_frame_bytes(
        clos
    )
    assert port_queue.nic_buffer_bytes(Clos(TopologySpec())) == 0


def test_marks_and_trims_are_on_unless_said_otherwise_or_flow_control_is() -> None:
    assert (queue_of(UP).trim_bytes, queue_of(UP).ecn_max_bytes) == (PRODUCT_BYTES, 28032)
    silent = queue_of(UP, ecn=EcnSpec(enabled=False), trim=TrimSpec(enabled=False))
    assert (silent.trim_bytes, silent.ecn_max_bytes) == (0, 0)
    held = Clos(TopologySpec(port_rate=100 * MBIT, flow_control="pfc"))
    assert {(queue.trim_bytes, queue.ecn_max_bytes) for queue in port_queue.port_queues(held)} == {(0, 0)}


def test_thresholds_are_shares_of_the_bandwidth_delay_product() -> None:
    clos = Clos(TopologySpec(port_rate=1000 * MBIT, link_delay=1_000_000))
    assert port_queue.threshold_unit_bytes(clos) == (4 * (17_520 + 1_232) + 8_000_000) // 8
    queue = queue_of(UP, ecn=EcnSpec(enabled=True), trim=TrimSpec(enabled=True))
    assert (queue.ecn_min_bytes, queue.ecn_max_bytes) == (7008, 28032)
    assert (queue.trim_bytes, queue.ecn_probability) == (PRODUCT_BYTES, 1.0)
    assert queue_of(T1, ecn=EcnSpec(enabled=True), trim=TrimSpec(enabled=True)) == queue


def test_the_last_hop_trims_later_and_marks_only_on_request() -> None:
    queue = queue_of(DOWN, ecn=EcnSpec(enabled=True), trim=TrimSpec(enabled=True))
    assert queue.trim_bytes == PRODUCT_BYTES * 3 // 2
    assert queue.ecn_max_bytes == 0
    assert queue_of(DOWN, ecn=EcnSpec(enabled=True, last_hop=True)).ecn_max_bytes == 28032


def test_a_nic_port_neither_marks_nor_trims() -> None:
    queue = queue_of(NIC, ecn=EcnSpec(enabled=True, last_hop=True), trim=TrimSpec(enabled=True))
    assert (queue.trim_bytes, queue.ecn_max_bytes) == (0, 0)


def test_thresholds_are_what_the_user_said() -> None:
    ecn = EcnSpec(enabled=True, min=1000, max=2000, probability=0.1)
    queue = queue_of(UP, ecn=ecn, trim=TrimSpec(enabled=True, threshold=5000))
    assert (queue.ecn_min_bytes, queue.ecn_max_bytes, queue.ecn_probability) == (1000, 2000, 0.1)
    assert queue.trim_bytes == 5000


def test_what_is_not_trimmed_fits_where_trimming_begins() -> None:
    queue = queue_of(UP, data_buffer=3 * FRAME_BYTES, trim=TrimSpec(enabled=True))
    assert queue.data_buffer_bytes >= queue.trim_bytes == PRODUCT_BYTES


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"ecn": {"min": "9KiB", "max": "9KiB"}}, "queue.ecn.min: ecn.min must be less than ecn.max"),
        (
            {"data_buffer": "9KiB", "trim": {"threshold": "10KiB"}},
            "queue.trim.threshold: trim.threshold must be at most data_buffer",
        ),
        ({"ecn": {"probability": "101%"}}, "queue.ecn.probability: 101% is out of range"),
        ({"ecn": {"enabled": True}}, "queue.ecn.enabled: queue.ecn.enabled has no effect in an unshaped"),
    ],
)
def test_contradictions_are_refused_at_their_key(queue: Tree, message: str) -> None:
    values: dict[str, Tree] = {"queue": queue}
    if "no effect" not in message:
        values["port_rate"] = "100Mbit"
    with pytest.raises(UsageError) as refusal:
        load_values(values)
    assert f": spec.{message}" in refusal.value.message


def test_links_of_an_unshaped_fabric_can_be_direct_all_or_some() -> None:
    one: dict[str, Tree] = {"select": {"links": "h0:0"}, "links": "direct"}
    everywhere: Tree = {"links": "direct"}
    some: Tree = {"overrides": [one]}
    for queue in (everywhere, some):
        clos = Clos(validate_values({"queue": queue}, TopologySpec, "lab.yaml"))
        direct = [port.id for port, own in zip(clos.ports(), port_queues(clos), strict=True) if own.is_direct]
        chosen = clos.links() if queue is everywhere else [clos.link("h0:0")]
        assert direct == sorted(port.id for link in chosen for port in link.ports)
    refused: Tree = {"overrides": [one | {"data_buffer": "64KiB"}]}
    with pytest.raises(UsageError, match=r"queue\.overrides has no effect in an unshaped fabric"):
        validate_values({"queue": refused}, TopologySpec, "lab.yaml")


OVERRIDES: dict[str, Tree] = {
    "port_rate": "100Mbit",
    "link_delay": "5us",
    "link_delays": [
        {"select": {"links": {"plane": 1, "between": ["t0", "t1"]}}, "delay": "50us"},
        {"select": {"links": "h3:2"}, "delay": "0us"},
    ],
    "queue": {
        "ecn": {"enabled": True, "probability": "10%"},
        "overrides": [
            {"at": "t1", "data_buffer": "200KiB", "ecn": {"max": "40KiB"}},
            {"select": {"links": "p0-t1-0:*"}, "at": "t1", "ecn": {"enabled": False}},
            {"select": {"links": "h0:2"}, "at": "t0", "ecn": {"last_hop": True}, "trim": {"enabled": True}},
        ],
    },
}


def overridden() -> Clos:
    return Clos(validate_values(OVERRIDES, TopologySpec, "lab.yaml"))


def test_overrides_hold_for_their_ports_key_by_key_and_for_no_others() -> None:
    clos = overridden()
    queues = {
        port.name: queue for port, queue in zip(clos.ports(), port_queue.port_queues(clos), strict=True)
    }
    plain, t1, silent, last_hop = (
        queues[name] for name in ("p0-t0-0:4", "p1-t1-0:0", "p0-t1-0:1", "p2-t0-0:0")
    )
    assert (plain.ecn_probability, plain.ecn_max_bytes, plain.trim_bytes) == (0.1, 28032, PRODUCT_BYTES)
    assert (t1.ecn_probability, t1.ecn_max_bytes, t1.data_buffer_bytes) == (0.1, 40 << 10, 200 << 10)
    assert (silent.ecn_max_bytes, silent.data_buffer_bytes) == (0, 200 << 10)
    assert (last_hop.ecn_max_bytes, last_hop.trim_bytes) == (28032, PRODUCT_BYTES * 3 // 2)
    assert queues["h0:2"] == queues["h0:1"]
    assert queues["p1-t0-0:0"].ecn_max_bytes == 0


def test_a_spec_means_the_same_after_it_was_stored() -> None:
    stored = TopologySpec.model_validate_json(overridden().spec.model_dump_json())
    assert port_queue.port_queues(Clos(stored)) == port_queue.port_queues(overridden())


def test_theory_counts_the_delay_of_the_slowest_path() -> None:
    clos = overridden()
    serialisation_ns = 4 * (175_200 + 12_320)
    assert IdleFabric(clos).rtt_ns(0, 5) == serialisation_ns + 4 * (5_000 + 50_000)
    assert IdleFabric(clos).rtt_ns(0, 3) == serialisation_ns // 2 + 4 * 5_000
    assert timing.base_rtt_ns(clos) == serialisation_ns + 4 * (5_000 + 50_000)


def test_the_fullest_queue_takes_its_time_to_empty() -> None:
    assert port_queue.longest_wait_ns(overridden()) == 200 * 1024 * 8 * 10
    assert port_queue.longest_wait_ns(Clos(TopologySpec())) == 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            {"select": {"links": "p9-t0-0:0"}, "data_buffer": "9KiB"},
            "queue.overrides[0].select: there is no node 'p9-t0-0'",
        ),
        (
            {"select": {"links": {"between": ["t0", "t1"]}}, "at": "host", "data_buffer": "9KiB"},
            "queue.overrides[0].at: none of these links ends at a host",
        ),
        ({"data_buffer": "9KiB"}, "queue.overrides[0]: an override needs the ports it is for"),
        ({"at": "t0"}, "queue.overrides[0]: an override without a setting changes nothing"),
        ({"at": "t0", "ecn": {"mni": "1KiB"}}, "queue.overrides[0].ecn.mni"),
        ({"at": "t0", "rate": "101Mbit"}, "queue.overrides[0].rate: rate must be port_rate, 100Mbit"),
    ],
)
def test_overrides_that_mean_nothing_are_refused(override: Tree, message: str) -> None:
    values: dict[str, Tree] = {"port_rate": "100Mbit", "queue": {"overrides": [override]}}
    with pytest.raises(UsageError) as refusal:
        load_values(values)
    assert f": spec.{message}" in refusal.value.message


def test_delays_of_links_that_do_not_exist_are_refused() -> None:
    values: dict[str, Tree] = {
        "port_rate": "100Mbit",
        "link_delays": [{"select": {"links": "h99:0"}, "delay": "5us"}],
    }
    with pytest.raises(UsageError, match=r"<text>:\d+: spec.link_delays\[0\].select: there is no node 'h99'"):
        load_values(values)
