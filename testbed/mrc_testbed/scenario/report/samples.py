"""A run's series as tidy data: one row per value, with its node, plane, metric and unit. Pure."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

Row = dict[str, str | int | float | None]

COLUMNS: Final = ("time_ns", "interval_ns", "node", "plane", "metric", "value", "unit")

_UNITS: Final = {"ns": "ns", "bps": "bit/s", "bytes": "B", "ratio": "1"}
_COLUMN: Final = re.compile(
    r"(?P<metric>.+?)(?:_(?P<node>h\d+))?(?:_plane(?P<plane>\d+))?(?:_(?P<suffix>ns|bps|bytes|ratio))?"
)


def samples(series: Iterable[dict[str, str]]) -> Iterator[Row]:
    """Each value of series.csv that is not empty; `time_ns` is the end of its interval.

    Raises:
        ValueError: a value is no number.
    """
    known: dict[str, Row] = {}
    for values in series:
        time_ns, interval_ns = int(values.pop("time_ns")), int(values.pop("interval_ns"))
        for column, text in values.items():
            if text:
                if column not in known:
                    known[column] = _place(column)
                yield {"time_ns": time_ns, "interval_ns": interval_ns, **known[column], "value": float(text)}


def build_samples(series: str) -> str:
    """samples.csv of the text of series.csv."""
    stream = io.StringIO()
    write_rows(stream, COLUMNS, samples(csv.DictReader(series.splitlines())))
    return stream.getvalue()


def write_rows(stream: TextIO, columns: Iterable[str], rows: Iterable[Row]) -> None:
    """Write rows as CSV with a header; a value that a row lacks is empty."""
    writer = csv.DictWriter(stream, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _place(column: str) -> Row:
    """Node, plane, metric and unit of a column of series.csv, such as `tx_plane0_bytes`."""
    if column.startswith("goodput_of_"):
        workload = column.removeprefix("goodput_of_").removesuffix("_bps")
        return {"node": None, "plane": None, "metric": f"goodput({workload})", "unit": "bit/s"}
    found = _COLUMN.fullmatch(column)
    parts = {} if found is None else found.groupdict()
    plane, suffix = parts.get("plane"), parts.get("suffix")
    return {
        "node": parts.get("node"),
        "plane": None if plane is None else int(plane),
        "metric": parts.get("metric") or column,
        "unit": "1" if suffix is None else _UNITS[suffix],
    }
