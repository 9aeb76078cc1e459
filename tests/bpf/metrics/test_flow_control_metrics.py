"""Metrics and readings of flow control, on the real maps of a lab."""

import time
from collections.abc import Iterator

import pytest
from map_filling import PinnedLab, lab_up, opened

from mrc_agents.abi import LosslessLink
from mrc_agents.bpf.maps import MappedArray
from mrc_testbed.metrics.collector import LabCollector
from mrc_testbed.metrics.exposition import Samples, Value
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.series import FlowCounts
from mrc_testbed.metrics.take_reading import take_reading
from mrc_testbed.topology.spec import FlowControlKind, TopologySpec

pytestmark = pytest.mark.usefixtures("state_root")

SECOND = 10**9


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[PinnedLab]:
    kind: FlowControlKind = request.param
    spec = TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2, port_rate=10**8, flow_control=kind)
    with lab_up("held", spec) as made:
        yield made


@pytest.fixture
def reader(lab: PinnedLab) -> Iterator[LabReader]:
    opened_reader = LabReader("held", lab.clos, lab.paths.fabric_pins, lab.paths.pins / "nodes")
    yield opened_reader
    opened_reader.close()


def fill(lab: PinnedLab, port: str, **counts: int) -> None:
    with opened(lab.paths.fabric_pins / "lossless_links") as descriptor:
        link = MappedArray(descriptor, LosslessLink)[lab.clos.port(port).id]
        for name, count in counts.items():
            setattr(link, name, count)


def collected(lab: PinnedLab, reader: LabReader) -> Samples:
    samples: Samples = {}
    LabCollector(reader, lab.paths).collect(samples)
    return samples


def value(samples: Samples, name: str, *labels: str) -> Value:
    return dict(samples[name])["held", *labels]


HOST = ("0", "host", "h0", "h0:0~p0-t0-0:0")
SWITCH = ("0", "t0", "p0-t0-0", "h0:0~p0-t0-0:0")


@pytest.mark.parametrize("lab", ["pfc"], indirect=True)
def test_pauses_count_at_the_sender_and_paused_time_at_the_port_that_was_paused(
    lab: PinnedLab, reader: LabReader
) -> None:
    fill(lab, "h0:0", pause_frames=7, resume_frames=6, paused_ns=2 * SECOND, buffered_bytes=4380)
    samples = collected(lab, reader)
    assert value(samples, "mrc_pause_frames_total", *SWITCH, "pause") == 7
    assert value(samples, "mrc_pause_frames_total", *SWITCH, "resume") == 6
    assert value(samples, "mrc_pause_frames_total", *HOST, "pause") == 0
    assert value(samples, "mrc_paused_seconds_total", *HOST) == 2
    assert value(samples, "mrc_paused_seconds_total", *SWITCH) == 0
    assert value(samples, "mrc_ingress_buffer_bytes", *SWITCH) == 4380
    assert value(samples, "mrc_deadlock") == 0
    assert "mrc_credit_stalls_total" not in samples


@pytest.mark.parametrize("lab", ["credits"], indirect=True)
def test_stalls_count_at_the_port_that_waits_for_credit(lab: PinnedLab, reader: LabReader) -> None:
    fill(lab, "h0:0", blocks=3, blocked_ns=SECOND // 2, used_bytes=2190)
    samples = collected(lab, reader)
    assert value(samples, "mrc_credit_stalls_total", *HOST) == 3
    assert value(samples, "mrc_credit_stalled_seconds_total", *HOST) == 0.5
    assert sum(take_reading(reader, with_details=True).details.held_ns) == SECOND // 2
    assert value(samples, "mrc_ingress_buffer_bytes", *SWITCH) == 2190
    assert "mrc_pause_frames_total" not in samples


@pytest.mark.parametrize("lab", ["pfc"], indirect=True)
def test_a_pause_that_lasts_counts_and_never_steps_back(lab: PinnedLab, reader: LabReader) -> None:
    fill(lab, "h1:0", paused_since_ns=time.monotonic_ns() - 5 * SECOND)
    before = take_reading(reader)
    assert before.flow.paused_ns >= 5 * SECOND
    fill(lab, "h1:0", paused_since_ns=0, paused_ns=4 * SECOND)  # the model is behind the clock
    assert take_reading(reader).flow == before.flow


@pytest.mark.parametrize("lab", ["none"], indirect=True)
def test_a_lab_without_flow_control_has_none_of_it(lab: PinnedLab, reader: LabReader) -> None:
    samples = collected(lab, reader)
    assert not {"mrc_pause_frames_total", "mrc_credit_stalls_total", "mrc_deadlock"} & samples.keys()
    reading = take_reading(reader)
    assert (reading.flow, reading.deadlock) == (FlowCounts(), None)
