"""A file that cannot be written whole stays as it was."""

import resource
from pathlib import Path

import pytest

from mrc_testbed.document.one_step import write_in_one_step


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_in_one_step(path, "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # as a disk that is full
    try:
        with pytest.raises(OSError, match="File too large"):
            write_in_one_step(path, "new" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_in_one_step(path, "new")
    assert path.read_text() == "new"
