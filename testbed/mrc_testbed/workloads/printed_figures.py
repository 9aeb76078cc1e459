"""Figures that benchmarks print: the tables of perftest (ib_write_bw, ib_write_lat) and of nccl-tests. Pure.

A table begins with a line that names its columns; each line below with as many numbers is a row of it:

     #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
     65536      1000             11.37              11.36                0.000182

    #       size         count      type   redop    root     time   algbw   busbw #wrong     time ...
         1048576        262144     float     sum      -1    123.4    8.50   14.87      0    121.0 ...

perftest means 2^20 bytes by MB, nccl-tests 10^9 bytes by GB.
"""

import re
from dataclasses import dataclass
from typing import Final

_MIB_BITS: Final = 8 << 20
_GBIT: Final = 10**9
_GB_BITS: Final = 8 * 10**9

_PERFTEST_COLUMN: Final = re.compile(
    r"#bytes|#iterations|BW peak\[[^]]+\]|BW average\[[^]]+\]|MsgRate\[[^]]+\]|t_\w+\[usec\]"
    r"|99(?:\.9)?% percentile\[usec\]|tps average"
)
_NCCL_COLUMNS: Final = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"]
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class PrintedFigure:
    """A row of a benchmark's table."""

    rank: int  # which printed it
    size_bytes: int  # of a message, or data of a rank
    bandwidth_bps: float | None = None  # mean of it; of a collective, data of a rank over its time
    bus_bps: float | None = None  # of a collective: the rate of the busiest NIC
    latency_ns: float | None = None  # of a message, typical; or the time of a collective
    wrong: int | None = None  # elements of a collective that were not what they must be


class PrintedFigures:
    """Finds figures in what ranks write."""

    def __init__(self) -> None:
        self.found: list[PrintedFigure] = []  # in the order of their lines
        self._columns: dict[int, list[str]] = {}

    def take(self, rank: int, line: bytes) -> None:
        """Note a line of a rank's output."""
        text = line.decode(errors="replace")
        columns = _columns(text)
        if columns is not None:
            self._columns[rank] = columns
        elif rank in self._columns and (figure := _row(rank, self._columns[rank], text.split())):
            self.found.append(figure)


def _columns(text: str) -> list[str] | None:
    """The columns that a line names; None: it names none."""
    found = _PERFTEST_COLUMN.findall(text)
    if found[:1] == ["#bytes"]:
        return [str(each) for each in found]
    words = text.lstrip("# \t").split()
    return _NCCL_COLUMNS if words[: len(_NCCL_COLUMNS)] == _NCCL_COLUMNS else None


def _row(rank: int, columns: list[str], words: list[str]) -> PrintedFigure | None:
    if columns is _NCCL_COLUMNS:
        return _nccl_row(rank, words)
    if len(words) != len(columns) or not all(map(_NUMBER.fullmatch, words)):
        return None
    values = dict(zip(columns, map(float, words), strict=True))
    size_bytes = int(values["#bytes"])
    for column, unit in (("BW average[MB/sec]", _MIB_BITS), ("BW average[Gb/sec]", _GBIT)):
        if column in values:
            return PrintedFigure(rank, size_bytes, bandwidth_bps=values[column] * unit)
    for column in ("t_typical[usec]", "t_avg[usec]"):
        if column in values:
            return PrintedFigure(rank, size_bytes, latency_ns=values[column] * 1000)
    return None


def _nccl_row(rank: int, words: list[str]) -> PrintedFigure | None:
    """The part out of place of a row of nccl-tests."""
    if len(words) < len(_NCCL_COLUMNS):
        return None
    size, _, _, _, _, time_us, algorithm, bus, wrong = words[: len(_NCCL_COLUMNS)]
    if not all(map(_NUMBER.fullmatch, (size, time_us, algorithm, bus))):
        return None
    return PrintedFigure(
        rank,
        int(size),
        bandwidth_bps=float(algorithm) * _GB_BITS,
        bus_bps=float(bus) * _GB_BITS,
        latency_ns=float(time_us) * 1000,
        wrong=int(wrong) if wrong.isdecimal() else None,
    )
