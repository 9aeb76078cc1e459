"""A hostile program at a NIC agent's socket for applications has no effect."""

import errno
import socket
from collections.abc import Callable, Iterator
from ctypes import sizeof

import pytest
from program_socket import ADDRESS, PAGE, Program

from mrc_agents.abi import (
    ApplicationLimit,
    ApplicationReply,
    ApplicationRequest,
    ApplicationTransport,
    ApplicationVerb,
    ControlMessage,
    ControlObject,
    PageList,
    QpState,
)
from mrc_agents.nic.watch_sockets import SOCKETS_MAX
from mrc_testbed.fabric.live import Lab

CONTROL = bytes(ApplicationRequest(verb=ApplicationVerb.CONTROL))  # without its message
NONE = {"page_list": PageList.NO_PAGE_LIST}


@pytest.fixture
def program(live: Lab) -> Iterator[Callable[[], Program]]:
    """Connects programs to h0's NIC; their QPs and regions are gone when the test has ended."""
    opened: list[Program] = []

    def connect() -> Program:
        opened.append(Program(live, "h0"))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def test_hello_names_the_host(live: Lab, program: Callable[[], Program]) -> None:
    hello = program().hello
    assert (hello.error, hello.host_index) == (0, live.clos.node("h0").index)


@pytest.mark.parametrize("packet", [b"x", bytes(sizeof(ApplicationRequest) - 1), bytes(4096), CONTROL])
def test_malformed_packet_ends_the_connection(program: Callable[[], Program], packet: bytes) -> None:
    broken, other = program(), program()
    broken.socket.send(packet)
    assert broken.socket.recv(1) == b""
    assert other.ask(ApplicationVerb.CREATE_QP).error == 0


def test_others_are_served_while_probes_of_a_controller_wait(program: Callable[[], Program]) -> None:
    controller, other = program(), program()
    probes = ControlMessage(object=ControlObject.PROBE, entry_count=2, timeout_ns=300_000_000)
    for entry, peer in zip(probes.entries, (1, 200), strict=False):  # there is no host 200
        entry.peer, entry.port = peer, 1
    controller.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        controller.control(probes)
    assert other.ask(ApplicationVerb.QUERY_PORT).error == 0
    with pytest.raises(BlockingIOError):
        controller.socket.recv(1)
    controller.socket.setblocking(True)
    packet = controller.socket.recv(sizeof(ApplicationReply) + sizeof(ControlMessage))
    first, second, *_ = ControlMessage.from_buffer_copy(packet, sizeof(ApplicationReply)).entries
    assert (first.rtt_ns > 0, second.rtt_ns) == (True, 0)
    assert controller.control(ControlMessage(object=9))[0] == errno.EINVAL


def test_qps_and_regions_of_others_are_out_of_reach(program: Callable[[], Program]) -> None:
    mine, other = program(), program()
    qpn = mine.ask(ApplicationVerb.CREATE_QP).qpn
    pages = mine.allocate(PAGE)
    key = mine.register(pages).r_key
    refused = [
        other.ask(ApplicationVerb.DESTROY_QP, qpn=qpn),
        other.ask(ApplicationVerb.MODIFY_QP, qpn=qpn, state=QpState.ERROR),
        other.ask(ApplicationVerb.DEREGISTER, r_key=key),
        other.ask(ApplicationVerb.FREE, offset=pages),
        other.register(pages),
    ]
    assert [reply.error for reply in refused] == [errno.EINVAL] * 5
    assert mine.ask(ApplicationVerb.DESTROY_QP, qpn=qpn).error == 0
    assert mine.ask(ApplicationVerb.DEREGISTER, r_key=key).error == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"verb": 99}, errno.EINVAL),
        ({"verb": ApplicationVerb.ALLOCATE, "length": 0}, errno.EINVAL),
        ({"verb": ApplicationVerb.ALLOCATE, "length": 1 << 40}, errno.ENOMEM),
        ({"verb": ApplicationVerb.ALLOCATE, "length": 2**64 - 1}, errno.ENOMEM),
        ({"verb": ApplicationVerb.FREE, "offset": 0}, errno.EINVAL),
        ({"verb": ApplicationVerb.DEREGISTER, "r_key": 0}, errno.EINVAL),
        ({"verb": ApplicationVerb.REGISTER, "address": ADDRESS, "length": 1} | NONE, errno.EINVAL),
        ({"verb": ApplicationVerb.MODIFY_QP, "qpn": 0xFFFFFFFF, "state": 2}, errno.EINVAL),
        ({"verb": ApplicationVerb.CREATE_QP, "transport": 2}, errno.EINVAL),
    ],
)
def test_request_that_cannot_be_carried_out(
    program: Callable[[], Program], fields: dict[str, int], error: int
) -> None:
    mine = program()
    assert mine.ask(**fields).error == error
    assert mine.ask(ApplicationVerb.CREATE_QP).error == 0


@pytest.mark.parametrize(
    "fields",
    [{"length": 0}, {"length": 2 * PAGE + 1}, {"length": 2**64 - 1}, {"address": 0}, {"address": 2**64 - 1}],
)
def test_region_that_cannot_be(program: Callable[[], Program], fields: dict[str, int]) -> None:
    mine = program()
    pages = mine.allocate(2 * PAGE)
    assert mine.register(pages, **fields).error == errno.EINVAL
    assert mine.register(pages + PAGE, PAGE + 1).error == errno.EINVAL
    assert mine.register(pages + 8, 2 * PAGE - 8).error == 0


def test_allocations_side_by_side_hold_one_region(program: Callable[[], Program]) -> None:
    mine = program()
    first = mine.allocate(PAGE)
    second = mine.allocate(1, first + PAGE)
    assert second == first + PAGE
    key = mine.register(first + 100, PAGE).r_key
    assert mine.ask(ApplicationVerb.FREE, offset=second).error == errno.EINVAL
    assert mine.ask(ApplicationVerb.DEREGISTER, r_key=key).error == 0
    assert mine.ask(ApplicationVerb.FREE, offset=second).error == 0
    assert mine.ask(ApplicationVerb.FREE, offset=second).error == errno.EINVAL
    assert mine.register(first + 100, PAGE).error == errno.EINVAL


def test_list_of_pages_must_be_the_application_s(program: Callable[[], Program]) -> None:
    mine, other = program(), program()
    pages = mine.allocate(PAGE)
    for page_list, length in ((pages + 2, 1), (pages + PAGE - 4, PAGE + 1), (pages + PAGE, 1)):
        refused = mine.register(0, length, page_list=page_list)
        assert refused.error == errno.EINVAL
    assert other.register(0, page_list=pages).error == errno.EINVAL
    key = mine.register(0, PAGE, page_list=pages + PAGE - 4).r_key
    assert mine.ask(ApplicationVerb.FREE, offset=pages).error == errno.EINVAL
    assert mine.ask(ApplicationVerb.DEREGISTER, r_key=key).error == 0
    assert mine.ask(ApplicationVerb.FREE, offset=pages).error == 0


def test_end_of_a_program_gives_back_its_keys_and_pages(program: Callable[[], Program]) -> None:
    length = program().hello.memory_bytes // 4 * 3
    for _ in range(3):
        mine = program()
        reply = mine.ask(ApplicationVerb.ALLOCATE, length=length, offset=ApplicationLimit.ANYWHERE)
        assert reply.error == 0, bytes(reply.text).rstrip(b"\0")
        assert mine.register(reply.offset, length).error == 0
        mine.close()


@pytest.mark.parametrize(
    "verb", [ApplicationVerb.CREATE_CHANNEL, ApplicationVerb.WATCH_PORT, ApplicationVerb.WATCH_EVS]
)
def test_sockets_that_a_program_has_closed_do_not_count(
    program: Callable[[], Program], verb: ApplicationVerb
) -> None:
    mine = program()
    for _ in range(SOCKETS_MAX + 1):
        assert mine.ask(verb).error == 0
        socket.close(mine.descriptors.pop())
    assert [mine.ask(verb).error for _ in range(SOCKETS_MAX + 1)] == [0] * SOCKETS_MAX + [errno.EMFILE]


@pytest.mark.parametrize("transport", ApplicationTransport)
def test_qp_that_is_pointed_at_no_host(program: Callable[[], Program], transport: int) -> None:
    mine = program()
    qpn = mine.ask(ApplicationVerb.CREATE_QP, transport=transport).qpn
    for peer_host in (0xFFFFFFFF, 1 << 20):
        refused = mine.ask(
            ApplicationVerb.MODIFY_QP, qpn=qpn, state=QpState.RTR, peer_host=peer_host, peer_qpn=1024
        )
        assert refused.error == errno.EINVAL
