"""Reading the pinned maps of a lab; the maps are those that `up` makes."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from histograms import histogram_of
from map_filling import PinnedLab, filling, opened, write_per_cpu
from port_faults import write_port_fault

from mrc_agents import clock
from mrc_agents.abi import (
    EvState,
    NicControl,
    NicCounter,
    NicCounters,
    PortCounter,
    PortCounters,
    Qp,
    QpState,
    WorkRing,
)
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.fabric.data_plane import FabricMaps
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.take_reading import take_reading


@pytest.fixture
def reader(pinned_lab: PinnedLab) -> Iterator[LabReader]:
    reader = open_reader(pinned_lab.paths.lab)
    yield reader
    reader.close()


def connect_qp(
    pinned_lab: PinnedLab,
    index: int,
    states: list[EvState],
    state: QpState = QpState.RTS,
    profiles: tuple[int, int] = (0, 0),
) -> None:
    """Makes QP *index* of h0 one whose EVs, in plane 0 and 1 by turns, are in *states*."""
    qp = Qp()
    qp.state = state
    qp.ev_profile, qp.cc_profile = profiles
    for ev, ev_state in enumerate(states):
        qp.evs.ev[ev].plane = ev % 2
        qp.evs.ev[ev].state = ev_state
    with opened(pinned_lab.paths.node_pins("h0") / "qps") as descriptor:
        ArrayMap(descriptor, Qp).write(index, qp)


def test_counters_are_added_up_over_cpus(pinned_lab: PinnedLab, reader: LabReader) -> None:
    pin = pinned_lab.paths.node_pins("h1") / "nic_counters"
    write_per_cpu(pin, NicCounters, 0, {NicCounter.TX_DATA: [5, 7], NicCounter.DROP_OPCODE: [2**63, 1]})
    counters = reader.nics["h1"].counters()
    assert counters[NicCounter.TX_DATA] == 12
    assert counters[NicCounter.DROP_OPCODE] == 2**63 + 1
    assert sum(counters) == 12 + 2**63 + 1
    assert not any(reader.nics["h0"].counters())


def test_port_counters_are_kept_by_port(pinned_lab: PinnedLab, reader: LabReader) -> None:
    ports = pinned_lab.clos.numbering.port_count
    for port_id in range(ports):
        values = {PortCounter.TX_PACKETS: [port_id, 1], PortCounter.PASSED_TO_STACK: [0, 3]}
        write_per_cpu(pinned_lab.paths.fabric_pins / "port_counters", PortCounters, port_id, values)
    counters = reader.port_counters()
    assert len(counters) == PortCounter.COUNT
    assert counters[PortCounter.TX_PACKETS] == [port_id + 1 for port_id in range(ports)]
    assert counters[PortCounter.PASSED_TO_STACK] == [3] * ports
    assert counters[PortCounter.TX_BYTES] == [0] * ports


def test_frames_that_hidden_faults_took_do_not_count_until_they_are_revealed(
    pinned_lab: PinnedLab, reader: LabReader
) -> None:
    def lose(frames: int) -> int:
        values = {PortCounter.DROP_LOSS: [frames], PortCounter.DROP_LINK_DOWN: [frames]}
        write_per_cpu(pinned_lab.paths.fabric_pins / "port_counters", PortCounters, 1, values)
        counters = reader.port_counters()
        assert counters[PortCounter.DROP_LINK_DOWN][1] == frames
        return counters[PortCounter.DROP_LOSS][1]

    assert lose(2) == 2
    ledger = Ledger(pinned_lab.paths.faults)
    ledger.create()
    ledger.record({"event": "fault-applied", "is_hidden": True})
    assert [lose(5), lose(7)] == [2, 2]
    ledger.reveal()
    assert lose(9) == 9


def test_a_histogram_is_read_by_plane(pinned_lab: PinnedLab, reader: LabReader, twin_object: Path) -> None:
    with filling(twin_object, pinned_lab.paths.node_pins("h0") / "rtt_histogram") as rtt:
        for time_ns in (1000, 2000, 3_000_000):
            rtt.add(time_ns, key=1)
    with filling(twin_object, pinned_lab.paths.node_pins("h0") / "message_histogram") as messages:
        messages.add(77_000)
    assert reader.nics["h0"].packet_rtt() == (Histogram(), histogram_of([1000, 2000, 3_000_000]))
    assert reader.nics["h0"].message_completion() == histogram_of([77_000])
    assert reader.nics["h1"].packet_rtt() == (Histogram(), Histogram())


def test_ports_are_up_without_fault_and_with_carrier(pinned_lab: PinnedLab, reader: LabReader) -> None:
    clos = pinned_lab.clos
    for host in ("h0", "h1"):
        with opened(pinned_lab.paths.node_pins(host) / "nic_control") as descriptor:
            MappedArray(descriptor, NicControl)[0].port_up_mask = 0b11
    assert reader.ports_up() == [True] * clos.numbering.port_count
    uplink = clos.link("p0-t0-0:2~p0-t1-0:0")
    maps = FabricMaps(pinned_lab.paths)
    write_port_fault(maps, uplink.upper.id, is_down=True)
    maps.close()
    with opened(pinned_lab.paths.node_pins("h1") / "nic_control") as descriptor:
        MappedArray(descriptor, NicControl)[0].port_up_mask = 0b01
    lost = clos.link("h1:1")
    down = {port_id for port_id, is_up in enumerate(reader.ports_up()) if not is_up}
    assert down == {uplink.upper.id, lost.lower.id, lost.upper.id}


def test_evs_of_connected_qps_are_counted_by_plane_and_state(
    pinned_lab: PinnedLab, reader: LabReader
) -> None:
    good, bad, skip = EvState.GOOD, EvState.ASSUMED_BAD, EvState.SKIP
    connect_qp(pinned_lab, 0, [good, good, bad, good])
    connect_qp(pinned_lab, 3, [good, skip], QpState.RTR)
    connect_qp(pinned_lab, 5, [good] * 8, QpState.RESET)
    assert reader.nics["h0"].ev_states() == {(0, good): 2, (0, bad): 1, (1, good): 2, (1, skip): 1}
    assert reader.nics["h1"].ev_states() == {}


def test_profiles_of_connected_qps_are_read_but_not_numbers_that_no_profile_has(
    pinned_lab: PinnedLab, reader: LabReader
) -> None:
    for index, profiles in enumerate([(0, 0), (4, 3), (4, 3), (0, 17), (0, 18), (18, 0), (65535, 1)]):
        connect_qp(pinned_lab, index, [EvState.DENIED], profiles=profiles)
    connect_qp(pinned_lab, 8, [], QpState.ERROR, (2, 2))
    assert reader.nics["h0"].qps().profiles == {(4, 3), (0, 17)}
    assert reader.nics["h1"].qps().profiles == frozenset()


def test_a_qp_is_found_and_lost_as_it_comes_and_goes(pinned_lab: PinnedLab, reader: LabReader) -> None:
    nic = reader.nics["h0"]
    assert nic.ev_states() == {}
    connect_qp(pinned_lab, 2, [EvState.GOOD])
    # unconnected QPs are searched now and then only
    found = [nic.ev_states() for _ in range(20)]
    assert found[-1] == {(0, EvState.GOOD): 1}
    connect_qp(pinned_lab, 2, [EvState.GOOD], QpState.ERROR)
    assert nic.ev_states() == {}


def test_a_qp_that_is_given_work_is_found_at_once(pinned_lab: PinnedLab, reader: LabReader) -> None:
    nic = reader.nics["h0"]
    assert nic.ev_states() == {}
    connect_qp(pinned_lab, 2, [EvState.GOOD])
    with opened(pinned_lab.paths.node_pins("h0") / "work_ring") as descriptor:
        MappedArray(descriptor, WorkRing)[2].tail = 1
    assert nic.ev_states() == {(0, EvState.GOOD): 1}
    assert nic.ev_states() == {(0, EvState.GOOD): 1}


def test_a_reading_sums_hosts_and_ports(pinned_lab: PinnedLab, reader: LabReader, twin_object: Path) -> None:
    for host, amount in (("h0", 1), ("h1", 10)):
        pins = pinned_lab.paths.node_pins(host)
        values = {
            NicCounter.RX_PLACED_BYTES: [amount],
            NicCounter.DROP_R_KEY: [amount],
            NicCounter.DROP_OPCODE: [5],
        }
        write_per_cpu(pins / "nic_counters", NicCounters, 0, values)
        with filling(twin_object, pins / "rtt_histogram") as rtt:
            rtt.add(amount * 1000, key=0)
    for port in pinned_lab.clos.ports():
        sent = {PortCounter.TX_BYTES: [10**port.plane], PortCounter.DROP_LOSS: [2]}
        write_per_cpu(pinned_lab.paths.fabric_pins / "port_counters", PortCounters, port.id, sent)
    with clock.simulated(lambda: 123):
        reading = take_reading(reader, with_details=True)
    assert reading.time_ns == 123
    assert {name: host.goodput_bytes for name, host in reading.hosts.items()} == {"h0": 1, "h1": 10}
    assert reading.hosts["h1"].refused_packets == 15
    assert reading.packet_rtt == (histogram_of([1000, 10_000]), Histogram())
    # two hosts, one NIC port in each plane; ports of switches send too, but that is not the hosts' load
    assert reading.plane_tx_bytes == (2, 20)
    assert reading.port_drops["loss"] == 2 * pinned_lab.clos.numbering.port_count
    assert {*zip(reading.details.tx_bytes, reading.details.dropped, strict=True)} == {(1, 2), (10, 2)}
    assert reading.cpus.cpus


def test_intervals_add_up_to_the_whole(pinned_lab: PinnedLab, reader: LabReader, twin_object: Path) -> None:
    readings, sent = [take_reading(reader)], 0
    with filling(twin_object, pinned_lab.paths.node_pins("h0") / "rtt_histogram") as rtt:
        for _ in range(5):
            for _ in range(1000):
                rtt.add(10_000 + sent % 5000, key=sent % 2)
                sent += 1
            readings.append(take_reading(reader))
    intervals = [later.since(earlier) for earlier, later in pairwise(readings)]
    assert sum(merge(interval.packet_rtt).count for interval in intervals) == sent
    whole = readings[-1].since(readings[0])
    assert merge(whole.packet_rtt).count == sent
    latency = whole.packet_rtt_overall()
    assert latency is not None
    assert 10_000 <= latency.p50_ns <= latency.p999_ns <= latency.max_ns <= 15_000


def test_a_lab_that_does_not_exist_cannot_be_read(pinned_lab: PinnedLab) -> None:
    with pytest.raises(UsageError, match=f"no lab 'elsewhere'; there are: {pinned_lab.paths.lab}"):
        open_reader("elsewhere")


def test_a_missing_map_is_named(pinned_lab: PinnedLab) -> None:
    (pinned_lab.paths.node_pins("h1") / "rtt_histogram").unlink()
    with pytest.raises(FabricError, match="h1/rtt_histogram"):
        open_reader(pinned_lab.paths.lab)
