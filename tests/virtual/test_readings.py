"""Sums over all NICs: what one call of the library says is what the maps of the NICs say one by one."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from runs import plan_of
from stopped_clock import StoppedClock

from mrc_agents.abi import EvState, MapHistogram, Qp, QpState
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_testbed.metrics.histogram import merge
from mrc_testbed.metrics.lab_sums import LabSums
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.series import EV_STATES, HostTable, Reading
from mrc_testbed.scenario.execution import execute
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import NicSpec, TopologySpec
from mrc_testbed.virtual.lab import virtual_lab
from mrc_testbed.virtual.world import VirtualLabView, planned_lab, world_in


def nic_by_nic(reader: LabReader) -> LabSums:
    nics, places = reader.nics.values(), {host: at for at, host in enumerate(reader.nics)}
    states = sum((Counter(nic.ev_states()) for nic in nics), Counter[tuple[int, EvState]]())
    return LabSums(
        HostTable.of(places, list(zip(*(nic.counters() for nic in nics), strict=True))),
        tuple(map(merge, zip(*(nic.packet_rtt() for nic in nics), strict=True))),
        merge(nic.message_completion() for nic in nics),
        dict(states),
    )


@pytest.mark.parametrize("scenario", ["nic-agent-kill.yaml", "loss-everywhere.yaml"])
def test_sums_are_those_of_all_nics_throughout_a_run(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(scenario)
    read: list[LabSums] = []
    with planned_lab(plan, StoppedClock()) as lab, world_in(lab, plan, StoppedClock()) as world:
        reader = LabReader("virtual", lab.clos, lab.fabric_pins, lab.fabric_pins)
        take = world.sampler.read

        def compared() -> Reading:
            read.append(reader.sums())
            assert read[-1] == nic_by_nic(reader)
            return take()

        monkeypatch.setattr(world.sampler, "read", compared)
        execute(plan, None, world, VirtualLabView(), tmp_path)
        reader.close()
    assert read[-1].message_completion.count > 100
    assert len({*map(str, (sums.ev_states for sums in read))}) > 2


def test_impossible_counts_and_qps_found_late_count_alike() -> None:
    nic = NicSpec(qps_max=4)
    clos = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=40_000_000, nic=nic))
    with virtual_lab(clos, seed=1) as lab:
        pins = lab.node_pins("h1")
        rtts = MappedArray(pins.map_fd("rtt_histogram"), MapHistogram)
        for plane, count in enumerate((3, 1 << 60)):
            rtts[plane].buckets[7], rtts[plane].sum_ns, rtts[plane].max_ns = count, 21, 7
        MappedArray(lab.node_pins("h0").map_fd("rtt_histogram"), MapHistogram)[1].buckets[9] = 2
        with closing(LabReader("virtual", clos, lab.fabric_pins, lab.fabric_pins)) as reader:
            sums = [reader.sums()]
            assert sums[0] == nic_by_nic(reader)
            assert [rtt.count for rtt in sums[0].packet_rtt] == [3, 2]
            qp = Qp(state=QpState.RTR)
            for place, state in enumerate((*EV_STATES, EV_STATES[0])):
                qp.evs.ev[place].plane, qp.evs.ev[place].state = place % 2, state
            ArrayMap(pins.map_fd("qps"), Qp).write(2, qp)
            for _ in range(12):
                sums.append(reader.sums())
                assert sums[-1] == nic_by_nic(reader)
    assert [sum(each.ev_states.values()) for each in sums] == [0] * 10 + [5] * 3
