"""A NIC's memory grows for programs, and what was added is gone with them or with its agent."""

from collections.abc import Iterator
from contextlib import ExitStack
from ctypes import byref, c_uint32

import pytest
from program_socket import Program
from waiting import poll_until

from mrc_agents.abi import ApplicationVerb, Limit
from mrc_agents.bpf.libbpf import library, open_pinned_in
from mrc_agents.bpf.maps import map_info
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab

HOST = "h0"
LARGE = 40 << 20
CHUNK = int(Limit.MEMORY_CHUNK)


@pytest.fixture
def program(live: Lab) -> Iterator[Program]:
    poll_until(lambda: chunks(live) == [0], what="the NIC's memory as it was")
    opened = Program(live, HOST)
    yield opened
    opened.close()


def chunks(live: Lab) -> list[int]:
    """Numbers of the chunks that the NIC's programs find."""
    with ExitStack() as opened:
        memory = open_pinned_in(opened, live.paths.node_pins(HOST), "memory")
        identity = c_uint32()
        return [
            index
            for index in range(Limit.MEMORY_CHUNKS)
            if library().bpf_map_lookup_elem(memory, byref(c_uint32(index)), byref(identity)) == 0
        ]


def test_memory_grows_and_is_given_back(live: Lab, program: Program) -> None:
    assert live.spec.nic.memory == CHUNK
    assert chunks(live) == [0]
    offset = program.allocate(LARGE)
    added = chunks(live)[1:]
    assert len(added) * CHUNK >= LARGE
    assert {offset // CHUNK, (offset + LARGE - 1) // CHUNK} <= {0, *added}
    assert program.register(offset, LARGE).error == 0
    program.close()
    poll_until(lambda: chunks(live) == [0], what="the NIC's memory as it was")


def test_program_gets_the_chunks_that_there_are(live: Lab, program: Program) -> None:
    program.allocate(LARGE)
    there = chunks(live)
    assert len(there) > 1
    for index in there:
        assert program.ask(ApplicationVerb.CHUNK, offset=index).error == 0
        info = map_info(program.descriptors[-1])
        assert info.value_size * info.max_entries == CHUNK
    for index in (max(there) + 1, 255, 256, 0xFFFFFFFF):
        assert program.ask(ApplicationVerb.CHUNK, offset=index).error != 0
    assert len(program.descriptors) == len(set(program.descriptors))
    assert chunks(live) == there


def test_new_agent_begins_with_the_memory_of_the_topology(live: Lab, program: Program) -> None:
    program.allocate(LARGE)
    lab.restart(live.name, (HOST,))
    assert chunks(live) == [0]
    again = Program(live, HOST)
    try:
        assert again.register(again.allocate(LARGE), LARGE).error == 0
    finally:
        again.close()
    poll_until(lambda: chunks(live) == [0], what="the NIC's memory as it was")
