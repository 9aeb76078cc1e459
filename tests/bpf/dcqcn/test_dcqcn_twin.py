"""DCQCN in the kernel against its reference: after any events, the same state, the same window."""

from collections.abc import Iterator
from ctypes import Structure, byref, c_uint32
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import compile_program, layouts
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.dcqcn import Dcqcn, DcqcnReason

from mrc_agents.bpf.libbpf import BpfObject, library, run_once
from mrc_agents.protocol.dcqcn import DcqcnParameters, cnp_interval_ns

SOURCE = Path(__file__).parent / "dcqcn_twin.bpf.c"
START_NS = 10**12
RTT_NS = 750_000
USUAL = DcqcnParameters.scaled(400_000_000, RTT_NS, 2190)
START, CNP, ACK = range(3)


class KernelTwin:
    """The compiled twin."""

    def __init__(self, program: BpfObject, types: SimpleNamespace) -> None:
        self._program_fd = program.program_fd("step")
        self._map_fd = program.map_fd("states")
        self._locked: type[Structure] = types.Locked
        self._parameters: type[Structure] = types.DcqcnParameterStruct
        self._step: type[Structure] = types.Step

    def begin(self, parameters: DcqcnParameters) -> None:
        value = self._locked(parameters=self._parameters(**asdict(parameters)))
        assert library().bpf_map_update_elem(self._map_fd, byref(c_uint32(0)), byref(value), 0) == 0
        self.step(START, START_NS)

    def step(self, kind: int, now_ns: int, acked_bytes: int = 0, rtt_ns: int = 0) -> DcqcnReason:
        event = self._step(kind=kind, now_ns=now_ns, bytes=acked_bytes, rtt_ns=rtt_ns)
        answer, _ = run_once(self._program_fd, bytes(event))
        return DcqcnReason(answer)

    def state(self) -> tuple[dict[str, int], int]:
        """Fields of struct mrc_dcqcn, and the window in bytes."""
        value: Any = self._locked()
        assert library().bpf_map_lookup_elem(self._map_fd, byref(c_uint32(0)), byref(value)) == 0
        return {name: getattr(value.dcqcn, name) for name, *_ in value.dcqcn._fields_}, value.window_bytes


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelTwin]:
    target = compile_program(SOURCE, tmp_path_factory.mktemp("dcqcn"))
    with BpfObject(target) as program:
        yield KernelTwin(program, layouts(target))


def fields(dcqcn: Dcqcn) -> dict[str, int]:
    return {name: int(value) for name, value in asdict(dcqcn).items() if name != "parameters"}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([CNP, ACK, ACK, ACK, ACK]),
        st.integers(-RTT_NS // 10, 40 * RTT_NS),
        st.integers(0, 200_000),
        st.one_of(st.just(0), st.integers(1, 10 * RTT_NS)),
    ),
    max_size=60,
)
PARAMETERS = st.builds(
    lambda rate_bps, rtt_ns, mtu, is_fixed: DcqcnParameters.scaled(rate_bps, rtt_ns, mtu, is_fixed=is_fixed),
    st.integers(1_000_000, 400_000_000_000),
    st.integers(1_000, 20_000_000),
    st.sampled_from([256, 1024, 2190, 4096]),
    st.booleans(),
)


@settings(max_examples=examples(150))
@given(parameters=PARAMETERS, events=EVENTS)
def test_the_kernel_does_what_the_reference_does(
    twin: KernelTwin, parameters: DcqcnParameters, events: list[tuple[int, int, int, int]]
) -> None:
    twin.begin(parameters)
    reference = Dcqcn.start(parameters, START_NS)
    now_ns = START_NS
    for kind, after_ns, acked_bytes, rtt_ns in events:
        now_ns += after_ns
        is_cnp = kind == CNP
        expected = reference.on_cnp(now_ns) if is_cnp else reference.on_ack(now_ns, acked_bytes, rtt_ns)
        assert twin.step(kind, now_ns, acked_bytes, rtt_ns) == expected
        assert twin.state() == (fields(reference), reference.window_bytes)
        assert parameters.min_kbps <= reference.rate_kbps <= parameters.line_kbps


def test_a_rate_of_32_bits_and_a_long_rtt_do_not_overflow(twin: KernelTwin) -> None:
    parameters = replace(USUAL, line_kbps=(1 << 32) - 1, base_rtt_ns=(1 << 32) - 1)
    twin.begin(parameters)
    reference = Dcqcn.start(parameters, START_NS)
    for rtt_ns in (0, (1 << 32) - 1, (1 << 32) - 1):
        assert twin.step(ACK, START_NS, 0, rtt_ns) == reference.on_ack(START_NS, 0, rtt_ns)
        state, window_bytes = twin.state()
        assert state == fields(reference)
        assert window_bytes == reference.window_bytes & 0xFFFFFFFF


def test_cnps_halve_the_rate_while_congestion_lasts_and_it_comes_back() -> None:
    dcqcn = Dcqcn.start(USUAL, START_NS)
    now_ns = START_NS
    dcqcn.on_cnp(now_ns)
    assert dcqcn.rate_kbps == USUAL.line_kbps // 2
    for _ in range(20):
        now_ns += cnp_interval_ns(RTT_NS)
        dcqcn.on_cnp(now_ns)
    assert dcqcn.rate_kbps == USUAL.min_kbps
    seen = set()
    for _ in range(4000):
        now_ns += RTT_NS
        seen.add(dcqcn.on_ack(now_ns, 20_000, RTT_NS))
    assert dcqcn.rate_kbps == USUAL.line_kbps
    assert seen == set(DcqcnReason) - {DcqcnReason.CNP}
