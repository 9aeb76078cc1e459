"""A soak of the queue engine: rounds of frames through a line whose settings change all the time.

A round sends frames of random lengths and bytes from both ends, through overflowing buffers and trims; links
change their mode, drainers theirs, and now and then a drainer is killed. When all have left, every frame not
counted as dropped has arrived once, as it was sent or cut to its headers, and every descriptor is free.
"""

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

from line_traffic import Frame, labels, random_frames, receive, send
from shaped_line import TO_FAR, TO_NEAR, ShapedLine
from waiting import DEADLINE_S

from mrc_agents.abi import DrainerMode, Dscp, PortCounter, QueueDescriptors, QueuePort
from mrc_agents.bpf.maps import ArrayMap, MappedArray

DROPS = (PortCounter.DROP_QUEUE_FULL, PortCounter.DROP_CONTROL_FULL, PortCounter.DROP_POOL_EMPTY)
FRAMES_PER_ROUND = 240
LULL_S = 0.02
DSCP_AT = 14
PAYLOAD_AT = 54
TRIMMED_BYTES = {94, 98, 102}  # to RETH, with a timestamp, an immediate or both: their bits are random here
DIRECT_CHANCE = 0.5
KILL_CHANCE = 0.1


@dataclass(slots=True)
class Soaked:
    """The outcome of a soak; frames over both directions."""

    rounds: int = 0
    sent: int = 0
    received: int = 0
    dropped: int = 0
    trimmed: int = 0
    wrong: int = 0
    kills: int = 0


def free_ids(line: ShapedLine) -> list[int]:
    """Ids on the pool's free list, newest first; one that runs in a circle is cut after twice its length."""
    descriptors = MappedArray(line.switch.map_fd("queue_descriptors"), QueueDescriptors)[0]
    pool = line.pool.read(0)
    ids: list[int] = []
    next_id = pool.free
    while next_id and len(ids) <= 2 * pool.fresh:
        ids.append(next_id)
        next_id = descriptors.entry[next_id - 1].next
    return ids


def assert_nothing_is_lost(line: ShapedLine) -> None:
    """Every descriptor is free, exactly once, and every port is empty."""
    pool = line.pool.read(0)
    assert pool.used == 0
    assert sorted(free_ids(line)) == list(range(1, pool.fresh + 1))
    ports = ArrayMap(line.switch.map_fd("queue_ports"), QueuePort, locked=True)
    for port_id in range(line.port_count):
        port = ports.read(port_id)
        assert (list(port.head), port.wire_head, port.is_scheduled) == ([0, 0], 0, 0)
        assert list(line.state[port_id].depth_bytes) == [0, 0]


def soak_round(line: ShapedLine, ends: tuple[socket.socket, socket.socket], seed: int, total: Soaked) -> None:
    """One round.

    Raises:
        AssertionError: a frame came twice, or was neither received nor counted as dropped.
    """
    chance = Random(seed)
    near, far = ends
    directions = [
        (random_frames(FRAMES_PER_ROUND, TO_FAR, seed=2 * seed), near, far),
        (random_frames(FRAMES_PER_ROUND, TO_NEAR, seed=2 * seed + 1), far, near),
    ]
    dropped = drops(line)
    trimmed = counted(line, PortCounter.TRIMS)
    change_settings(line, chance)
    with ThreadPoolExecutor(2) as threads:
        storms = [threads.submit(send, egress, frames) for frames, egress, _ in directions]
        change_settings(line, chance)
        if chance.random() < KILL_CHANCE:
            line.stop_drainer(signal.SIGKILL)
            line.start_drainer()
            total.kills += 1
        for storm in storms:
            storm.result()
    received: tuple[list[bytes], list[bytes]] = ([], [])
    end = time.monotonic() + DEADLINE_S
    while sum(map(len, received)) + drops(line) - dropped < 2 * FRAMES_PER_ROUND and time.monotonic() < end:
        for (frames, _, ingress), arrived in zip(directions, received, strict=True):
            arrived.extend(receive(ingress, len(frames), deadline_seconds=LULL_S))
    for (frames, _, _), arrived in zip(directions, received, strict=True):
        assert len(set(labels(arrived))) == len(arrived)
        pairs = zip(labels(arrived), arrived, strict=True)
        total.wrong += sum(not is_true_to(frames[label], octets) for label, octets in pairs)
    dropped = drops(line) - dropped
    assert sum(map(len, received)) + dropped == 2 * FRAMES_PER_ROUND
    assert_nothing_is_lost(line)
    total.rounds += 1
    total.sent += 2 * FRAMES_PER_ROUND
    total.received += sum(map(len, received))
    total.dropped += dropped
    total.trimmed += counted(line, PortCounter.TRIMS) - trimmed


def change_settings(line: ShapedLine, chance: Random) -> None:
    """Other trims, drainer modes and link modes."""
    trim_bytes = chance.choice([0, 8_000])
    for settings in line.settings:
        settings.trim_bytes = trim_bytes
    for port in line.port_table:
        port.is_direct = chance.random() < DIRECT_CHANCE
    for drainer in line.drainer_state:
        drainer.mode = chance.choice([DrainerMode.AUTO, DrainerMode.ECO, DrainerMode.PRECISE])


def is_true_to(frame: Frame, received: bytes) -> bool:
    """Return True if *received* is *frame* as sent, or as trimmed; addresses and hop limit aside."""
    sent = frame.encode()
    if received[PAYLOAD_AT:] != sent[PAYLOAD_AT : len(received)]:
        return False
    dscp = int.from_bytes(received[DSCP_AT : DSCP_AT + 2], "big") >> 6 & 0x3F
    if dscp == Dscp.TRIMMED:
        return len(received) in TRIMMED_BYTES and len(received) < len(sent) and not frame.is_control
    return len(received) == len(sent) and dscp == (Dscp.CONTROL if frame.is_control else Dscp.TRIMMABLE)


def counted(line: ShapedLine, which: PortCounter) -> int:
    """A counter, over all ports."""
    return sum(line.counter(port_id, which) for port_id in range(line.port_count))


def drops(line: ShapedLine) -> int:
    """Frames that found no room, over all ports."""
    return sum(counted(line, drop) for drop in DROPS)
