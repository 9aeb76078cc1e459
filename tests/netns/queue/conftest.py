"""Shaped lines, and a BPF file system for their pins."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from shaped_line import LineFactory, LinkShape, ShapedLine


@pytest.fixture(scope="session")
def bpffs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A BPF file system of this session's own."""
    folder = tmp_path_factory.mktemp("bpffs")
    subprocess.run(["mount", "-t", "bpf", "bpf", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def make_line(bpffs: Path) -> Iterator[LineFactory]:
    """Makes shaped lines that are gone after the test."""
    numbers = count()
    lines: list[ShapedLine] = []

    def make(
        links: Sequence[LinkShape],
        *,
        pool_frames: int = 4096,
        drainer_count: int = 1,
        is_direct: bool = False,
    ) -> ShapedLine:
        name = f"mrcq-{os.getpid()}-{next(numbers)}"
        line = ShapedLine(
            name, links, bpffs, pool_frames=pool_frames, drainer_count=drainer_count, is_direct=is_direct
        )
        lines.append(line)
        return lines[-1]

    try:
        yield make
    finally:
        for line in lines:
            line.close()
