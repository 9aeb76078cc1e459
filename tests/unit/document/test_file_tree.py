"""Files below a folder of the user's."""

from pathlib import Path

import pytest

from mrc_testbed.document.text_file import write_files
from mrc_testbed.errors import UsageError


def test_files_of_somebody_else_are_not_replaced_unless_that_is_wanted(tmp_path: Path) -> None:
    files = {"a.yml": b"ours\n", "below/b.yml": b"ours\n"}
    assert write_files(tmp_path / "new", files, replace=False) == [tmp_path / "new" / name for name in files]
    write_files(tmp_path / "new", files, replace=False)
    (tmp_path / "new/a.yml").write_text("edited\n")
    with pytest.raises(UsageError, match=r"has other files of these names: a\.yml") as raised:
        write_files(tmp_path / "new", files, replace=False)
    assert "--force" in str(raised.value.hint)
    assert (tmp_path / "new/a.yml").read_text() == "edited\n"
    write_files(tmp_path / "new", files, replace=True)
    assert (tmp_path / "new/a.yml").read_text() == "ours\n"
    with pytest.raises(UsageError, match="cannot be written"):
        write_files(tmp_path / "new/a.yml", files, replace=True)
