"""Frames that go round between the ends of a shaped line: what the queue engine does without a transport."""

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import Structure, c_uint32, c_uint64
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from tempfile import TemporaryDirectory
from typing import Self

from shaped_line import SRV6_BLOCK, TO_FAR, TO_NEAR, LinkShape, ShapedLine

from benchmarks.cpu_time import busy_s
from benchmarks.transfer import pause
from mrc_agents.abi import DrainerMode, FabricConfig, MapHistogram
from mrc_agents.bpf.libbpf import run_live
from mrc_agents.bpf.maps import MappedArray
from mrc_testbed.metrics.histogram import Histogram, merge

DATA_BYTES = 2190
RESPONSE_BYTES = 154
_LIVE_BATCH = 64
_LINE_AT = 14 + 40 + 16
_SOURCE = Path(__file__).parent / "bpf" / "pinger.bpf.c"
_ROOT = Path(__file__).parents[1]


class _Counters(Structure):
    """struct ping_counters."""

    responses: int
    wrong_length: int
    is_stopped: int

    _fields_ = (("responses", c_uint64), ("wrong_length", c_uint64), ("is_stopped", c_uint64))


class _Settings(Structure):
    """struct ping_settings."""

    ports_per_line: int
    data_bytes: int
    response_bytes: int
    to_far: int
    to_near: int
    theory_ns: int

    _fields_ = (
        ("ports_per_line", c_uint32),
        ("data_bytes", c_uint32),
        ("response_bytes", c_uint32),
        ("pad0", c_uint32),
        ("to_far", c_uint64),
        ("to_near", c_uint64),
        ("theory_ns", c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """The result of one interval of a measurement."""

    answers_per_s: float  # round trips
    # clock_error, model_error: distance of round-trip times from theory, by a stop-watch and in model time
    clock_error: Histogram
    model_error: Histogram
    lateness: Histogram  # how long after they were due frames left
    drainer_cpu_ratio: float  # share of a core that the drainers used
    busy_cores: float  # cores that were busy with anything


def serialisation_ns(length_bytes: int, rate_bps: int) -> int:
    """As the queue engine counts it: down to whole nanoseconds."""
    return length_bytes * 8 * 10**9 // rate_bps


def round_trip_ns(links: list[LinkShape], window: int) -> int:
    """Round-trip time in an exact network of *links*, with *window* data frames going round."""
    shaped = [link for link in links if link.rate_bps]
    times = [
        (
            serialisation_ns(DATA_BYTES, link.rate_bps),
            serialisation_ns(RESPONSE_BYTES, link.rate_bps),
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
    target = _ROOT / "build" / "pinger.bpf.o"
    target.parent.mkdir(exist_ok=True)
    options = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
    include = [f"-I{_ROOT / 'agents/mrc_agents' / each}" for each in ("include", "")]
    include += ["-idirafter", f"/usr/include/{machine()}-linux-gnu"]
    subprocess.run(["clang", *options, *include, "-c", _SOURCE, "-o", target], check=True)
    return target


class Pinger:
    """Lines with *window* data frames going round on each, from entering the context to leaving it."""

    def __init__(
        self,
        links: list[LinkShape],
        window: int,
        bpffs: Path,
        program: Path,
        *,
        copies: int = 1,
        busy_copies: int | None = None,
        drainer_count: int = 1,
        mode: DrainerMode = DrainerMode.AUTO,
        is_direct: bool = False,
    ) -> None:
        self._window = window
        self._busy_copies = copies if busy_copies is None else busy_copies
        rodata = bytes(FabricConfig(srv6_block=SRV6_BLOCK, is_shaped=1))
        self.line = ShapedLine(
            f"mrc-bench-{os.getpid()}",
            links,
            bpffs,
            pool_frames=16384,
            drainer_count=drainer_count,
            is_direct=is_direct,
            copies=copies,
            end_object=(program, rodata, "ping"),
        )
        for drainer in self.line.drainer_state:
            drainer.mode = mode
        settings = MappedArray(self.line.end.map_fd("ping_settings"), _Settings)[0]
        settings.ports_per_line = 2 * len(links)
        settings.data_bytes, settings.response_bytes = DATA_BYTES, RESPONSE_BYTES
        settings.to_far, settings.to_near = (SRV6_BLOCK << 32 | usid << 16 for usid in (TO_FAR, TO_NEAR))
        settings.theory_ns = round_trip_ns(links, window) if window else 0
        self.counters = MappedArray(self.line.end.map_fd("ping_counters"), _Counters)[0]
        self._round_trips = MappedArray(self.line.end.map_fd("round_trip"), MapHistogram)

    def __enter__(self) -> Self:
        try:
            self.line.start_drainer()
            with self.line.at_port(0):
                for copy in range(self._busy_copies):
                    for first in range(0, self._window, _LIVE_BATCH):
                        count = min(_LIVE_BATCH, self._window - first)
                        run_live(self.line.end.program_fd("ping"), _first_frame(copy), count)
        except BaseException:
            self.line.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()

    def measure(self, seconds: float) -> Interval:
        histograms = (*self._round_trips, *self.line.lateness)
        for histogram in histograms:
            ctypes.memset(ctypes.addressof(histogram), 0, ctypes.sizeof(histogram))
        answers, cpu_s, machine_s, start_ns = (
            self.counters.responses,
            self._cpu_seconds(),
            busy_s(),
            time.monotonic_ns(),
        )
        pause(seconds)
        elapsed_s = (time.monotonic_ns() - start_ns) / 1e9
        answers, cpu_s = self.counters.responses - answers, self._cpu_seconds() - cpu_s
        machine_s = busy_s() - machine_s
        clock, model, *late = (Histogram.from_map_values(bytes(histogram)) for histogram in histograms)
        return Interval(
            answers / elapsed_s, clock, model, merge(late), cpu_s / elapsed_s, machine_s / elapsed_s
        )

    def _cpu_seconds(self) -> float:
        return sum(_cpu_seconds(drainer.pid) for drainer in self.line.drainers)


def _first_frame(copy: int) -> bytes:
    """The live frame that starts a line: struct ping of the program."""
    return bytes(_LINE_AT) + copy.to_bytes(8, "little") + bytes(3072 - _LINE_AT - 8)


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
