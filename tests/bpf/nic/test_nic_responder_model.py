"""The responder against its reference, on any sequence of packets: late, doubled, ancient, too far ahead."""

from exploring import examples
from far_end import FarEnd
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import NicBench
from reference.opcode import Opcode
from reference.responder import WINDOW_PSNS
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import NicCounter

REGION_BYTES = 100_000

FIRST_PSNS = st.sampled_from([0, 2**24 - 40, 2**24, 2**31 - 40, 2**32 - 2**24 - 7]) | st.integers(0, 2**31)
STEPS = st.one_of(
    st.integers(0, 3),
    st.integers(-4, 130),
    st.integers(-2 * WINDOW_PSNS, 2 * WINDOW_PSNS),
    st.sampled_from([WINDOW_PSNS - 1, WINDOW_PSNS, -(2**15), -(2**15) - 1, -(2**16)]),
)
ARRIVALS = st.lists(
    st.tuples(
        STEPS,
        st.integers(0, 300),
        st.integers(0, REGION_BYTES - 300),
        st.integers(0, 3),
        st.booleans(),
        st.booleans(),
    ),
    min_size=5,
    max_size=60,
)


@settings(max_examples=examples(30))
@given(FIRST_PSNS, ARRIVALS)
def test_any_sequence_of_packets(
    bench: NicBench, distant: FarEnd, first_psn: int, arrivals: list[tuple[int, int, int, int, bool, bool]]
) -> None:
    bench.reset()
    target = WriteTarget(bench, distant, first_psn + 2**24)
    for number, (step, length, va, plane, is_marked, ends_message) in enumerate(arrivals):
        psn = target.reference.next_psn + step
        opcode = Opcode.WRITE_ONLY if ends_message else Opcode.WRITE_MIDDLE
        packet = target.packet(psn, random_bytes(length, number), va, opcode=opcode, timestamp=number)
        if target.reference.accepts(psn):
            target.deliver(packet, psn, plane=plane, is_marked=is_marked)
        else:
            bench.edit_qp(nak_ns=0)  # as if no refusal had ever been
            outcome = bench.receive(target.far.arriving_octets(packet, plane), plane)
            assert outcome.counters == {NicCounter.DROP_OUT_OF_WINDOW: 1, NicCounter.TX_NACK: 1}
            target.check_memory()
    qp = bench.qp()
    assert qp.resp.cack_next == target.reference.next_psn % 2**32
    assert qp.resp.received_above == len(target.reference.above)
    assert qp.resp.received_bytes == target.reference.received_bytes
