"""Frames that go round between the ends of a shaped line: what the queue engine does without a transport."""

import ctypes
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import Structure, c_uint64
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from tempfile import TemporaryDirectory
from typing import Self

from agents.bpf.libbpf import run_live
from agents.bpf.maps import MappedArray
from agents.wire_abi import Histogram as HistogramValue
from benchmarks.transfer import pause
from testbed.metrics.histogram import Histogram
from tests.netns.queue.shaped_line import SRV6_BLOCK, TO_FAR, TO_NEAR, LinkShape, ShapedLine

DATA_BYTES = 2190
ANSWER_BYTES = 154
_LIVE_BATCH = 64
_SOURCE = Path(__file__).parent / "bpf" / "pinger.bpf.c"
_ROOT = Path(__file__).parents[1]


class _Counters(Structure):
    """struct ping_counters."""

    answers: int
    wrong_length: int
    is_stopped: int

    _fields_ = (("answers", c_uint64), ("wrong_length", c_uint64), ("is_stopped", c_uint64))


@dataclass(frozen=True, slots=True)
class Interval:
    """What one interval of a measurement showed.

    Attributes:
        answers_per_s: round trips.
        clock_error, model_error: distance of round-trip times from theory, by a stop-watch and in model time.
        lateness: how long after they were due frames left.
        drainer_cpu_ratio: share of a core that the drainer used.
    """

    answers_per_s: float
    clock_error: Histogram
    model_error: Histogram
    lateness: Histogram
    drainer_cpu_ratio: float


def serialisation_ns(length_bytes: int, rate_bps: int) -> int:
    """As the queue engine counts it: down to whole nanoseconds."""
    return length_bytes * 8 * 10**9 // rate_bps


def round_trip_ns(links: list[LinkShape], window: int) -> int:
    """Round-trip time in an exact network of *links*, with *window* data frames going round."""
    shaped = [link for link in links if link.rate_bps]
    times = [
        (
            serialisation_ns(DATA_BYTES, link.rate_bps),
            serialisation_ns(ANSWER_BYTES, link.rate_bps),
            link.delay_ns,
        )
        for link in shaped
    ]
    idle_ns = sum(data + answer + 2 * delay for data, answer, delay in times)
    return max(idle_ns, window * max(data for data, _, _ in times))


@contextmanager
def private_bpffs() -> Iterator[Path]:
    """A BPF file system of the benchmark's own."""
    with TemporaryDirectory(prefix="mrc-bench-") as folder:
        subprocess.run(["mount", "-t", "bpf", "bpf", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def compile_pinger() -> Path:
    """The program of both ends, compiled."""
    target = _ROOT / "build" / "pinger.bpf.o"
    target.parent.mkdir(exist_ok=True)
    options = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
    include = [f"-I{_ROOT / 'agents' / 'include'}", "-idirafter", f"/usr/include/{machine()}-linux-gnu"]
    subprocess.run(["clang", *options, *include, "-c", _SOURCE, "-o", target], check=True)
    return target


class Pinger:
    """A line with *window* data frames going round, from entering the context to leaving it."""

    def __init__(self, links: list[LinkShape], window: int, bpffs: Path, program: Path) -> None:
        self._window = window
        carriers = [SRV6_BLOCK << 32 | usid << 16 for usid in (TO_FAR, TO_NEAR)]
        ports = (0, 2 * len(links) - 1, DATA_BYTES, ANSWER_BYTES)
        rodata = struct.pack("=4I3Q", *ports, *carriers, round_trip_ns(links, window) if window else 0)
        self.line = ShapedLine(
            "mrc-bench", links, bpffs, pool_frames=8192, end_object=(program, rodata, "ping")
        )
        self.counters = MappedArray(self.line.end.map_fd("ping_counters"), _Counters)[0]
        self._round_trips = MappedArray(self.line.end.map_fd("round_trip"), HistogramValue)

    def __enter__(self) -> Self:
        try:
            self.line.start_drainer()
            with self.line.at_port(0):
                for first in range(0, self._window, _LIVE_BATCH):
                    count = min(_LIVE_BATCH, self._window - first)
                    run_live(self.line.end.program_fd("ping"), bytes(3072), count)
        except BaseException:
            self.line.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()

    def measure(self, seconds: float) -> Interval:
        """Watches for a while."""
        assert self.line.drainer is not None
        histograms = (*self._round_trips, self.line.lateness[0])
        for histogram in histograms:
            ctypes.memset(ctypes.addressof(histogram), 0, ctypes.sizeof(histogram))
        answers, cpu_s, start_ns = (
            self.counters.answers,
            _cpu_seconds(self.line.drainer.pid),
            time.monotonic_ns(),
        )
        pause(seconds)
        elapsed_s = (time.monotonic_ns() - start_ns) / 1e9
        answers, cpu_s = self.counters.answers - answers, _cpu_seconds(self.line.drainer.pid) - cpu_s
        clock, model, late = (Histogram.from_map_values(bytes(histogram)) for histogram in histograms)
        return Interval(answers / elapsed_s, clock, model, late, cpu_s / elapsed_s)


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
