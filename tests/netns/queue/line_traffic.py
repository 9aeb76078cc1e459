"""Frames sent into one end of a shaped line and received at the other, by raw sockets."""

import random
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shaped_line import SRV6_BLOCK, frame_to
from waiting import DEADLINE_S

from mrc_agents.abi import Dscp

BLOCK_AT = 38  # offset of the IPv6 destination in a frame
LABEL_AT = 54
PACKET_OUTGOING = 4
BURST_MAX = 240
"""Frames that may be sent at once: a veth takes 256 for an end that has not looked at them yet, and on a busy
machine that may be all there are. More are lost in the kernel, which no test here is about."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the test: where it goes, its class, a label and the rest of its payload."""

    usid: int
    is_control: bool
    label: int
    filler: bytes

    def encode(self) -> bytes:
        dscp = Dscp.CONTROL if self.is_control else Dscp.TRIMMABLE
        return frame_to(self.usid, self.label.to_bytes(4, "big") + self.filler, dscp=dscp)


def random_frames(count: int, usid: int, *, seed: int, control_ratio: float = 0.3) -> list[Frame]:
    """*count* frames of random lengths and bytes, labelled in order."""
    generator = random.Random(seed)
    lengths = [6, 60, 96, 700, 1460, 2132, 2956]  # the last fills an MTU of 3000
    return [
        Frame(usid, generator.random() < control_ratio, label, generator.randbytes(generator.choice(lengths)))
        for label in range(count)
    ]


def equal_frames(count: int, usid: int, payload_bytes: int) -> list[Frame]:
    """*count* data frames of one length."""
    return [Frame(usid, is_control=False, label=label, filler=bytes(payload_bytes)) for label in range(count)]


class Window:
    """Frames of one direction on the line: BURST_MAX at most."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(BURST_MAX)

    def enter(self) -> None:
        """Waits until there is room for one more."""
        if not self._free.acquire(timeout=DEADLINE_S):
            raise TimeoutError("nothing leaves the line")

    def leave(self) -> None:
        """One has arrived."""
        self._free.release()


def send(egress: socket.socket, frames: Sequence[Frame], window: Window | None = None) -> None:
    """Sends all *frames* at once, or as *window* has room for them."""
    if window is None and len(frames) > BURST_MAX:
        raise ValueError(f"{len(frames)} frames at once")
    for frame in frames:
        if window is not None:
            window.enter()
        egress.send(frame.encode())


def receive(
    ingress: socket.socket, count: int, *, deadline_seconds: float = DEADLINE_S, window: Window | None = None
) -> list[bytes]:
    """The next *count* frames of the line, fewer when the deadline passes."""
    end = time.monotonic() + deadline_seconds
    received: list[bytes] = []
    while len(received) < count and (rest := end - time.monotonic()) > 0:
        ingress.settimeout(rest)
        try:
            frame, address = ingress.recvfrom(4096)
        except TimeoutError:
            break
        is_ours = frame[BLOCK_AT : BLOCK_AT + 4] == SRV6_BLOCK.to_bytes(4, "big")
        if is_ours and address[2] != PACKET_OUTGOING:
            received.append(frame)
            if window is not None:
                window.leave()
    return received


def labels(frames: Iterable[bytes]) -> list[int]:
    """The labels of received frames."""
    return [int.from_bytes(frame[LABEL_AT : LABEL_AT + 4], "big") for frame in frames]


def assert_same_frames(sent: Sequence[Frame], received: Sequence[bytes]) -> None:
    """Every frame arrived once, with its exact length and payload, and each class in order."""
    assert sorted(labels(received)) == [frame.label for frame in sent]
    for frame in received:
        (label,) = labels([frame])
        expected = sent[label].encode()
        assert len(frame) == len(expected)
        assert frame[LABEL_AT:] == expected[LABEL_AT:]
    for is_control in (True, False):
        wanted = [frame.label for frame in sent if frame.is_control == is_control]
        assert [label for label in labels(received) if sent[label].is_control == is_control] == wanted
