"""rtnetlink's link messages: which port has carrier, whatever else comes along."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.abi import Limit
from mrc_agents.nic.daemon import parse_link_messages

NEWLINK, DELLINK, NEWADDR, DONE = 16, 17, 20, 3
RUNNING, LOWER_UP, UP = 0x40, 0x10000, 0x1
HEADER_BYTES, IFINFO_BYTES = 16, 16


def link_message(kind: int, ifindex: int, flags: int, attributes: bytes = b"") -> bytes:
    """One message, padded to a multiple of four bytes."""
    body = struct.pack("=BxHiII", 0, 1, ifindex, flags, 0) + attributes
    message = struct.pack("=IHHII", HEADER_BYTES + len(body), kind, 0, 0, 0) + body
    return message + bytes(-len(message) % 4)


def of_port(port_id: int) -> int:
    return Limit.IFINDEX_BASE + port_id


def test_carrier_needs_running_and_lower_up() -> None:
    flags_and_carrier = [
        (UP | RUNNING | LOWER_UP, True),
        (UP | RUNNING, False),
        (UP | LOWER_UP, False),
        (UP, False),
        (0, False),
    ]
    for flags, has_carrier in flags_and_carrier:
        assert list(parse_link_messages(link_message(NEWLINK, of_port(5), flags))) == [(5, has_carrier)]


def test_deleted_link_has_no_carrier() -> None:
    message = link_message(DELLINK, of_port(0), RUNNING | LOWER_UP)
    assert list(parse_link_messages(message)) == [(0, False)]


def test_other_links_and_other_messages_are_passed_over() -> None:
    messages = [
        link_message(NEWLINK, 1, RUNNING | LOWER_UP),
        link_message(NEWADDR, of_port(1), RUNNING | LOWER_UP),
        link_message(NEWLINK, of_port(2), RUNNING | LOWER_UP, attributes=b"ab"),
        link_message(DONE, 0, 0),
        link_message(NEWLINK, of_port(3), 0),
    ]
    assert list(parse_link_messages(b"".join(messages))) == [(2, True), (3, False)]


def test_message_too_short_for_its_kind_is_passed_over() -> None:
    short = struct.pack("=IHHII", HEADER_BYTES, NEWLINK, 0, 0, 0)
    assert list(parse_link_messages(short)) == []
    whole = link_message(NEWLINK, of_port(1), RUNNING | LOWER_UP)
    for length in range(len(whole)):
        assert list(parse_link_messages(whole[:length])) == []


MESSAGES = st.builds(
    link_message,
    st.sampled_from([NEWLINK, DELLINK, NEWADDR, DONE]),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=40),
)


@given(st.lists(MESSAGES, max_size=5), st.data())
def test_damaged_datagrams_never_break_the_parser(messages: list[bytes], data: st.DataObject) -> None:
    datagram = bytearray(b"".join(messages))
    for _ in range(data.draw(st.integers(0, 4))):
        if datagram:
            datagram[data.draw(st.integers(0, len(datagram) - 1))] = data.draw(st.integers(0, 255))
    for port_id, has_carrier in parse_link_messages(bytes(datagram)):
        assert port_id >= 0
        assert isinstance(has_carrier, bool)


@given(st.binary(max_size=200))
def test_random_bytes_never_break_the_parser(datagram: bytes) -> None:
    assert len(list(parse_link_messages(datagram))) <= len(datagram) // HEADER_BYTES
