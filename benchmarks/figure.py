"""A measured figure and how figures are shown: a table for people, JSON for programs."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure."""

    benchmark: str  # module that took it
    name: str  # what was measured
    unit: str  # of the samples
    samples: tuple[float, ...]  # one per repetition, in order
    target: str = ""  # what it is meant to reach, as text; empty if it is only reported

    @property
    def median(self) -> float:
        return median(self.samples)


def machine() -> dict[str, str | float]:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown",
    )
    return {
        "cpu": model,
        "cores": os.cpu_count() or 0,
        "kernel": platform.release(),
        "load_1min_after": round(os.getloadavg()[0], 2),
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def format_number(value: float) -> str:
    """Four significant digits, thousands apart."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def show(figures: Sequence[Figure], console: Console) -> None:
    facts = machine()
    table = Table(title=", ".join(f"{key} {value}" for key, value in facts.items()), title_justify="left")
    for heading, justify in (("figure", "left"), ("median", "right"), ("min", "right"), ("max", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("unit")
    table.add_column("n", justify="right")
    table.add_column("target")
    for figure in figures:
        table.add_row(
            f"{figure.benchmark}: {figure.name}",
            format_number(figure.median),
            format_number(min(figure.samples)),
            format_number(max(figure.samples)),
            figure.unit,
            str(len(figure.samples)),
            figure.target,
        )
    console.print(table)


def write_json(figures: Sequence[Figure], path: Path) -> None:
    rows = [asdict(figure) | {"median": figure.median} for figure in figures]
    path.write_text(json.dumps({"schema_version": 1, "machine": machine(), "figures": rows}, indent=1) + "\n")


_HEAD = """# Performance

What this printed:

    {command}

Every figure is taken several times (n); quote the medians, and compare figures of one run only. What each one
is, and how it is taken, is at the head of its file in benchmarks/. The stock Mininet rows build the same
graph of nodes and links, and nothing that forwards or sends.

Machine: {machine}.

| figure | median | min | max | unit | n | target |
| --- | ---: | ---: | ---: | --- | ---: | --- |
"""


def write_markdown(figures: Sequence[Figure], command: str, path: Path) -> None:
    """Writes the table as a document; sections that follow it in a document that is there stay."""
    _, heading, rest = path.read_text().partition("\n## ") if path.exists() else ("", "", "")
    facts = ", ".join(f"{key} {value}" for key, value in machine().items())
    rows = [
        f"| {figure.benchmark}: {figure.name} | {format_number(figure.median)} "
        f"| {format_number(min(figure.samples))} | {format_number(max(figure.samples))} "
        f"| {figure.unit} | {len(figure.samples)} | {figure.target} |"
        for figure in figures
    ]
    path.write_text(_HEAD.format(command=command, machine=facts) + "\n".join(rows) + "\n" + heading + rest)
