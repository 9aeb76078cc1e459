"""EV selectors in the kernel choose as their twins in Python do."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from exploring import examples
from far_end import FarEnd
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import NicBench
from reference.ev_selector import Reps, RoundRobin
from reference.reliability_header import PathAdvice, Seth
from write_source import WriteSource

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import NicSpec, TopologySpec

HOST, DISTANT = 2, 0
WINDOW = 8
TWINS = {"round_robin": RoundRobin, "reps": Reps}


@pytest.fixture(scope="module", params=TWINS)
def selecting(request: pytest.FixtureRequest) -> Iterator[tuple[str, NicBench]]:
    """A NIC with that selector."""
    spec = TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2, nic=NicSpec(ev_selector=request.param))
    with NicBench(Clos(spec), HOST) as nic:
        yield request.param, nic


@settings(max_examples=examples(30))
@given(marks=st.lists(st.booleans(), min_size=1, max_size=60))
def test_twins_agree(selecting: tuple[str, NicBench], marks: list[bool]) -> None:
    name, nic = selecting
    nic.reset()
    far = FarEnd(nic.clos, HOST, DISTANT)
    source = WriteSource(nic, far, far.attributes(window_packets=WINDOW))
    qp, per_plane = nic.qp(), 4
    starts = range(0, qp.evs.plane_count * per_plane, per_plane)
    paths = [ev.path for ev in qp.evs.ev]
    twin = TWINS[name]([list(qp.evs.order[start : start + per_plane - 1]) for start in starts], paths)
    source.post((WINDOW + len(marks)) * 2048)
    outstanding = source.send()
    assert [sent.ev for sent in outstanding] == [twin.select() for _ in range(WINDOW)]
    for is_marked in marks:
        oldest = outstanding.pop(0)
        seth = Seth(oldest.psn, source.attributes.evs[oldest.ev])
        if is_marked:
            seth = replace(seth, advice=PathAdvice.SKIP_ONCE)
        following = source.feed(seth, plane=oldest.plane)
        twin.on_ack(oldest.ev, is_marked=is_marked)
        assert following is not None
        assert following.ev == twin.select()
        outstanding.append(following)
