"""Frames across real namespaces, the real switch program and the real drainer."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from line_traffic import Window, assert_same_frames, equal_frames, labels, random_frames, receive, send
from shaped_line import TO_FAR, TO_NEAR, LineFactory, LinkShape

from mrc_agents.abi import PortCounter

MBIT = 10**6
HEADER_BYTES = 58  # Ethernet, IPv6, label


@pytest.mark.parametrize("is_direct", [False, True])
def test_every_frame_arrives_once_with_exact_length_and_bytes(
    make_line: LineFactory, is_direct: bool
) -> None:
    line = make_line([LinkShape(200 * MBIT, delay_ns=5_000)] * 4, is_direct=is_direct)
    line.start_drainer()
    sent, window = random_frames(600, TO_FAR, seed=1), Window()
    with line.socket_at(0) as egress, line.socket_at(7) as ingress, ThreadPoolExecutor(1) as threads:
        sender = threads.submit(send, egress, sent, window)
        assert_same_frames(sent, receive(ingress, len(sent), window=window))
        sender.result()
    for port_id in (2, 4, 6):
        assert line.counter(port_id, PortCounter.TX_PACKETS) == len(sent)
    assert line.pool.read(0).used == 0


@pytest.mark.parametrize(("drainer_count", "is_direct"), [(1, False), (2, False), (2, True)])
def test_both_directions_share_the_pool_without_loss(
    make_line: LineFactory, drainer_count: int, is_direct: bool
) -> None:
    """With two drainers, every hop hands over from one to the other."""
    shape = LinkShape(400 * MBIT, delay_ns=20_000)
    line = make_line([shape] * 4, drainer_count=drainer_count, is_direct=is_direct)
    line.start_drainer()
    there, back = random_frames(800, TO_FAR, seed=2), random_frames(800, TO_NEAR, seed=3)
    windows = [Window(), Window()]
    with line.socket_at(0) as near, line.socket_at(7) as far, ThreadPoolExecutor(4) as threads:
        receivers = [
            threads.submit(receive, far, len(there), window=windows[0]),
            threads.submit(receive, near, len(back), window=windows[1]),
        ]
        senders = [threads.submit(send, near, there, windows[0]), threads.submit(send, far, back, windows[1])]
        for sender in senders:
            sender.result()
        assert_same_frames(there, receivers[0].result())
        assert_same_frames(back, receivers[1].result())
    assert line.pool.read(0).used == 0


def test_frames_do_not_arrive_faster_than_the_rate(make_line: LineFactory) -> None:
    line = make_line([LinkShape(0), LinkShape(20 * MBIT, delay_ns=3_000_000)])
    line.start_drainer()
    frames = equal_frames(100, TO_FAR, 2000)
    with line.socket_at(0) as egress, line.socket_at(3) as ingress:
        start_ns = time.monotonic_ns()
        send(egress, frames)
        assert len(receive(ingress, len(frames))) == len(frames)
        elapsed_ns = time.monotonic_ns() - start_ns
    assert elapsed_ns >= len(frames) * (2000 + HEADER_BYTES) * 8 * 10**9 // (20 * MBIT) + 3_000_000


def test_delay_beyond_the_wheel_is_honoured(make_line: LineFactory) -> None:
    line = make_line([LinkShape(0), LinkShape(100 * MBIT, delay_ns=30_000_000)])
    line.start_drainer()
    with line.socket_at(0) as egress, line.socket_at(3) as ingress:
        start_ns = time.monotonic_ns()
        send(egress, equal_frames(3, TO_FAR, 100))
        assert len(receive(ingress, 3)) == 3
        assert time.monotonic_ns() - start_ns >= 30_000_000


def test_killed_drainer_loses_nothing(make_line: LineFactory) -> None:
    line = make_line([LinkShape(4 * MBIT)] * 3)  # most still wait when the first have come
    line.start_drainer()
    sent = random_frames(240, TO_FAR, seed=4)
    with line.socket_at(0) as egress, line.socket_at(5) as ingress:
        send(egress, sent)
        received = receive(ingress, 20)
        assert line.stop_drainer(signal.SIGKILL) == -signal.SIGKILL
        assert line.pool.read(0).used > 0
        for turns in (40, 60):
            line.start_drainer()
            received += receive(ingress, turns)
            assert line.stop_drainer(signal.SIGKILL) == -signal.SIGKILL
        line.start_drainer()
        received += receive(ingress, len(sent) - len(received))
        assert_same_frames(sent, received)
    assert line.pool.read(0).used == 0


def test_frames_sent_without_a_drainer_wait_for_it(make_line: LineFactory) -> None:
    line = make_line([LinkShape(100 * MBIT)] * 2)
    sent = random_frames(50, TO_FAR, seed=5)
    with line.socket_at(0) as egress, line.socket_at(3) as ingress:
        send(egress, sent)
        assert receive(ingress, 1, deadline_seconds=0.05) == []
        line.start_drainer()
        assert_same_frames(sent, receive(ingress, len(sent)))


def test_links_change_their_mode_under_traffic(make_line: LineFactory) -> None:
    """A frame may overtake one that still crosses a veth; none is lost or changed."""
    line = make_line([LinkShape(40 * MBIT, delay_ns=20_000)] * 4)
    line.start_drainer()
    sent = random_frames(240, TO_FAR, seed=12)
    received: list[bytes] = []
    with line.socket_at(0) as egress, line.socket_at(7) as ingress:
        send(egress, sent)
        for turn in range(8):
            for port in line.port_table:
                port.is_direct = turn % 2 == 0
            received += receive(ingress, 30)
    assert sorted(labels(received)) == list(range(240))
    for frame in received:
        expected = sent[labels([frame])[0]].encode()
        assert len(frame) == len(expected)
        assert frame[HEADER_BYTES - 4 :] == expected[HEADER_BYTES - 4 :]
    assert line.pool.read(0).used == 0
