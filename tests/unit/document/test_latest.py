"""`latest` is a convenience: a result counts without it."""

from mrc_testbed.document.one_step import latest_of, point_latest


def result(folder, name):
    path = folder / name
    path.mkdir()
    return path


def test_latest_names_the_last_result(tmp_path):
    for name in ("20260101T000000Z-aa", "20260102T000000Z-bb"):
        point_latest(result(tmp_path, name))
    assert latest_of(tmp_path).resolve().name == "20260102T000000Z-bb"


def test_a_folder_in_its_place_stays_and_is_not_the_last_result(tmp_path, caplog):
    """As an artifact that was downloaded leaves it: links have become copies."""
    (tmp_path / "latest" / "x").mkdir(parents=True)
    path = result(tmp_path, "20260102T000000Z-bb")
    point_latest(path)
    assert f"give its path, {path}" in caplog.text
    assert latest_of(tmp_path) == path
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name, "latest"]


def test_a_copy_alone_is_the_last_result(tmp_path):
    (tmp_path / "latest").mkdir()
    assert latest_of(tmp_path) == tmp_path / "latest"


def test_a_file_system_without_links_has_a_last_result(tmp_path, monkeypatch, caplog):
    def refuse(*_args, **_options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    path = result(tmp_path, "20260102T000000Z-bb")
    point_latest(path)
    assert "Operation not permitted" in caplog.text
    assert latest_of(tmp_path) == path
