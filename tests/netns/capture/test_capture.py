"""A capture holds every frame that the counters counted, each of them decoded."""

import io
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from captured_ports import captured_ports

from mrc_agents.abi import PortCounter
from mrc_testbed.capture.packet_recording import CaptureCount, PacketRecording, tshark_arguments
from mrc_testbed.capture.tap import Selection, Tap, select_ports
from mrc_testbed.cli.app import run
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.fabric.fault_log import FaultLog
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.faults.ledger import Ledger

SNAP_BYTES = 160
QUIET_S = 0.3  # what is still under way is the kernel's: no process holds it up
LINK = "p0-t0-0:2~p0-t1-0:0"
FIELDS = (
    "mrc.opcode",
    "frame.interface_name",
    "frame.time_epoch",
    "frame.comment",
    "frame.packet_flags_direction",
    "_ws.malformed",
    "mrc.malformed",
)


DATA_FRAMES = 40  # half of a path's share of write_bw(), more than probes of a path come to


def write_bw(live: Lab, messages: int = 20) -> None:
    assert run(["-q", "-n", live.name, "bench", "write-bw", "h0", "h2", "-i", str(messages)]) == 0


def decode(octets: bytes, folder: Path) -> list[Mapping[str, str]]:
    """FIELDS of each packet, as tshark reads it."""
    file = folder / "capture.pcapng"
    file.write_bytes(octets)
    options = [option for name in FIELDS for option in ("-e", name)]
    text = subprocess.run(
        ["tshark", *tshark_arguments(), "-n", "-r", file, "-T", "fields", *options],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Lua Error" not in text
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in text.splitlines()]


def assert_all_decoded(packets: list[Mapping[str, str]]) -> None:
    assert [packet for packet in packets if not packet["mrc.opcode"]] == []
    assert [packet for packet in packets if packet["_ws.malformed"] or packet["mrc.malformed"]] == []
    times = [packet["frame.time_epoch"] for packet in packets]
    assert times == sorted(times)


@contextmanager
def recorded(live: Lab, selection: Selection, into: io.BytesIO) -> Iterator[CaptureCount]:
    """Records while the block runs; the ring holds all of it."""
    with Tap(live, selection, SNAP_BYTES) as tap:
        faults = FaultLog(Ledger(live.paths.faults).events_path)
        recording = PacketRecording(tap, selection, into, SNAP_BYTES, faults)
        yield recording.count
        until_quiet(live)
        recording.finish()


def until_quiet(live: Lab) -> None:
    """Returns once no frame moves any more: answers are still under way when a message is done."""
    everything = tuple(PortCounter(value) for value in range(PortCounter.COUNT))
    before: Counter[str] = Counter()
    while before != (now := counted(live, *everything)):
        before = now
        Event().wait(QUIET_S)


def counted(live: Lab, *counters: PortCounter) -> Counter[str]:
    found: Counter[str] = Counter()
    for port in live.clos.ports():
        values = live.port_counters.sum(port.id)
        found[port.name] = sum(values[counter] for counter in counters)
    return found


def link_frames(live: Lab) -> int:
    """Frames that LINK's lower end has sent."""
    return counted(live, PortCounter.TX_PACKETS)["p0-t0-0:2"]


def write_until_used(live: Lab) -> None:
    """Returns when data take LINK: a NIC avoids it for a while after a fault, and probes it meanwhile."""
    used = 0
    while used < DATA_FRAMES:
        before = link_frames(live)
        write_bw(live)
        used = link_frames(live) - before


def test_capture_of_all_ports_agrees_with_their_counters(live: Lab, tmp_path: Path) -> None:
    file = io.BytesIO()
    before = counted(live, PortCounter.TX_PACKETS)
    with recorded(live, select_ports(live.clos, []), file) as count:
        write_bw(live)
    sent = counted(live, PortCounter.TX_PACKETS) - before
    packets = decode(file.getvalue(), tmp_path)
    assert_all_decoded(packets)
    assert Counter(packet["frame.interface_name"] for packet in packets) == sent
    assert sent["h0:0"] + sent["h0:1"] >= 20 * 32
    assert (count.frames, count.missed) == (sent.total(), 0)


def test_port_shows_what_it_sends_and_what_it_receives(live: Lab, tmp_path: Path) -> None:
    file = io.BytesIO()
    before = counted(live, PortCounter.TX_PACKETS)
    with recorded(live, select_ports(live.clos, ["h0"], plane=1), file):
        write_bw(live)
    sent = counted(live, PortCounter.TX_PACKETS) - before
    packets = decode(file.getvalue(), tmp_path)
    assert_all_decoded(packets)
    assert {packet["frame.interface_name"] for packet in packets} == {"h0:1"}
    directions = Counter(int(packet["frame.packet_flags_direction"], 0) for packet in packets)
    assert directions == {2: sent["h0:1"], 1: sent["p1-t0-0:0"]}


@pytest.mark.parametrize(
    ("kind", "fields", "counter", "comment"),
    [
        ("loss", {"ratio": "30%"}, PortCounter.DROP_LOSS, "lost here: a fault's random loss"),
        ("link-down", {}, PortCounter.DROP_LINK_DOWN, "lost here: a fault holds the link down"),
    ],
)
def test_frame_that_a_fault_takes_is_there_with_the_reason(
    live: Lab, tmp_path: Path, kind: str, fields: dict[str, str], counter: PortCounter, comment: str
) -> None:
    file = io.BytesIO()
    write_until_used(live)
    faults = LabFaults(live.name)
    faults.add(parse_fault(kind, LINK, {"id": "f1", "until": "cleared", **fields}, ()), 1)
    before = counted(live, counter)
    try:
        with recorded(live, select_ports(live.clos, ["p0-t0-0:2"]), file) as count:
            write_bw(live)
    finally:
        faults.clear_all()
        faults.close()
    dropped = (counted(live, counter) - before).total()
    packets = decode(file.getvalue(), tmp_path)
    assert_all_decoded(packets)
    comments = [packet["frame.comment"] for packet in packets]
    assert comments[0].startswith(f"fault f1 ({kind}) acts already")
    assert sum(comment in said for said in comments) == dropped
    assert count.lost_on_the_way == dropped > 0


def test_packets_say_when_a_fault_begins_and_ends(live: Lab, tmp_path: Path) -> None:
    file = io.BytesIO()
    faults = LabFaults(live.name)
    values = {"id": "gray1", "until": "cleared", "ratio": "30%"}
    try:
        with recorded(live, select_ports(live.clos, ["p0-t0-0:2"]), file):
            write_until_used(live)
            faults.add(parse_fault("loss", LINK, values, ()), 1)
            write_bw(live)
            faults.clear_all()
            write_until_used(live)
    finally:
        faults.clear_all()
        faults.close()
    packets = decode(file.getvalue(), tmp_path)
    assert_all_decoded(packets)
    comments = [packet["frame.comment"] for packet in packets]
    (begin,) = [place for place, said in enumerate(comments) if f"fault gray1 (loss) begins: {LINK}" in said]
    (end,) = [place for place, said in enumerate(comments) if f"fault gray1 (loss) ends: {LINK}" in said]
    lost = [place for place, said in enumerate(comments) if "lost here" in said]
    assert 0 < begin <= lost[0]
    assert lost[-1] <= end < len(comments)


def test_reading_ends_though_frames_keep_coming(live: Lab) -> None:
    with Tap(live, select_ports(live.clos, []), SNAP_BYTES) as tap:
        write_bw(live)
        assert len(tap._ring.drain(100)) == 100
        assert len(tap._ring.drain(100)) == 100
        tap.stop()
        left = tap._ring.drain()
        assert len(left) > 20 * 32
        assert tap._ring.drain() == []


def test_second_capture_of_a_lab_is_refused(live: Lab) -> None:
    selection = select_ports(live.clos, ["h0"])
    with Tap(live, selection), pytest.raises(FabricError, match=r"capture \(pid \d+\)"):
        Tap(live, selection)


def test_ring_that_is_full_is_reported(live: Lab) -> None:
    selection = select_ports(live.clos, [])
    until_quiet(live)
    before = counted(live, PortCounter.TX_PACKETS)
    with Tap(live, selection) as tap:
        while not tap.lost_frames:
            write_bw(live, 100)
        until_quiet(live)
        tap.stop()
        kept = list(tap.rest())
        sent = (counted(live, PortCounter.TX_PACKETS) - before).total()
        lost_there = sum(frame.was_lost for frame in kept)
        assert len(kept) - lost_there <= sent <= len(kept) + tap.lost_frames
        assert tap.lost_frames > 0


@pytest.mark.parametrize(
    ("places", "plane", "message"),
    [
        (["h9"], None, "h9"),
        (["h0:7"], None, "h0 has no port 7"),
        (["h0"], 2, "planes 0 to 1"),
        (["p1-t0-0"], 0, "no port in"),
    ],
)
def test_place_that_does_not_exist_is_refused(
    live: Lab, places: list[str], plane: int | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        select_ports(live.clos, places, plane)


def start_command(live: Lab, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mrc_testbed.cli", "--name", live.name, "capture", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


def test_command_ends_after_its_count(live: Lab, tmp_path: Path) -> None:
    with start_command(live, "h0", "-w", "-", "-c", "50") as process:
        assert process.stdout is not None
        begin = process.stdout.read(1)
        write_bw(live)
        rest, _ = process.communicate()
    assert process.returncode == 0
    packets = decode(begin + rest, tmp_path)
    assert len(packets) == 50
    assert_all_decoded(packets)


def test_command_that_is_interrupted_writes_what_it_has(live: Lab, tmp_path: Path) -> None:
    with start_command(live, "h0", "--plane", "0", "-w", "-") as process:
        assert process.stdout is not None
        begin = process.stdout.read(1)
        before = counted(live, PortCounter.TX_PACKETS)
        write_bw(live)
        until_quiet(live)
        sent = counted(live, PortCounter.TX_PACKETS) - before
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate()
    assert process.returncode == 0
    assert len(decode(begin + rest, tmp_path)) == sent["h0:0"] + sent["p0-t0-0:0"]


def test_next_capture_clears_up_after_one_that_was_killed(live: Lab) -> None:
    with start_command(live, "--all", "-w", "-") as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.kill()
    assert len(captured_ports(live)) == live.clos.numbering.port_count
    with Tap(live, select_ports(live.clos, ["h0"])):
        assert set(captured_ports(live)) == {"h0:0", "h0:1", "p0-t0-0:0", "p1-t0-0:0"}
    assert captured_ports(live) == []


def test_packets_can_be_watched_as_they_come(live: Lab) -> None:
    with start_command(live, "h0", "--tshark", "-c", "30") as process:
        while process.poll() is None:
            write_bw(live)
        assert process.stdout is not None
        lines = process.stdout.read().decode().splitlines()
    assert process.returncode == 0
    assert len(lines) == 30
    assert all(" MRC " in line and "EV " in line for line in lines)
