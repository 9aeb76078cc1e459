"""Collectives in the memory of real NICs: every sum compared, on whatever the fabric does meanwhile."""

import re

from typed_command import Command


def test_bench_all_reduce_has_a_row_for_each_size(command: Command) -> None:
    shown = command("bench", "all-reduce", "-b", "4KiB", "-e", "64KiB", "-f", "4", "-i", "2", "-w", "1")
    lines = shown.splitlines()
    head = next(place for place, line in enumerate(lines) if line.lstrip().startswith("size"))
    columns = "size count type redop time algbw busbw #wrong p50 p99 p99.9 max"
    assert lines[head].split() == columns.split()
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[head + 1 : head + 4]]
    assert [(row[0], row[1], row[7]) for row in rows] == [
        ("4 KiB", "1024", "0"),
        ("16 KiB", "4096", "0"),
        ("64 KiB", "16384", "0"),
    ]
    assert all(row[5].endswith("bit/s") for row in rows)
    assert "verified, no mismatch" in shown


def test_bench_training_reports_whole_steps(command: Command) -> None:
    found = command.json("bench", "training", "--compute", "30ms", "--size", "16KiB", "-d", "2s")
    [size] = found["sizes"]
    assert size["step_ns"]["p50"] >= 30_000_000 + size["operation_ns"]["p50"] * 0.5
    assert size["step_ns"]["count"] >= 1
