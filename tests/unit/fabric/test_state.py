"""lab.json is what was written or nothing, and locks exclude."""

import fcntl
from pathlib import Path

import pytest
from pydantic import ValidationError

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.paths import LabPaths, lab_folders, lab_paths
from mrc_testbed.fabric.state import (
    ContainerRecord,
    LabState,
    Phase,
    ProcessRecord,
    RuntimeName,
    read_state,
    write_state,
)
from mrc_testbed.topology.spec import NicSpec, TopologySpec

STATE = LabState(
    name="lab",
    runtime=RuntimeName.DOCKER,
    phase=Phase.UP,
    version="0.1.0",
    spec=TopologySpec(planes=2, port_rate=12_500_000, link_delay=5_000, nic=NicSpec(backup_share=0.3)),
    containers={"h0": ContainerRecord(container_id="abc", pid=7)},
    processes=(ProcessRecord(node="h0", pid=8, start_ticks=9),),
)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path))
    found = lab_paths("lab")
    found.folder.mkdir()
    return found


def test_state_is_read_back_as_it_was_written(paths: LabPaths) -> None:
    write_state(paths, STATE)
    assert read_state(paths) == STATE
    assert [entry.name for entry in paths.folder.iterdir()] == ["lab.json"]


def test_a_lab_without_state_has_none(paths: LabPaths) -> None:
    assert read_state(paths) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", '{"format_version": 2}', STATE.model_dump_json().replace('"up"', '"gone"')],
)
def test_a_damaged_state_says_how_to_get_rid_of_it(paths: LabPaths, text: str) -> None:
    paths.state_file.write_text(text)
    with pytest.raises(
        FabricError, match=r"^the state of lab 'lab' in .*lab\.json cannot be read: "
    ) as caught:
        read_state(paths)
    assert caught.value.hint == "remove the lab: mrc-testbed down -n lab"


def test_bytes_that_are_no_text_are_a_damaged_state(paths: LabPaths) -> None:
    paths.state_file.write_bytes(b"\xff\xfe")
    with pytest.raises(FabricError, match="cannot be read"):
        read_state(paths)


def test_state_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError):
        STATE.phase = Phase.REMOVING


def test_only_folders_of_labs_are_listed(paths: LabPaths) -> None:
    for name in ("bpffs", "other-lab", "No-Lab", ".hidden"):
        (paths.root / name).mkdir()
    (paths.root / "a-file").touch()
    assert lab_folders() == ("lab", "other-lab")


def test_a_held_lock_names_its_holder(paths: LabPaths) -> None:
    refusal = r"^lab 'lab' is being changed by up \(pid [0-9]+\)$"
    with (
        exclusive(paths.lock_file, "up"),
        pytest.raises(FabricError, match=refusal),
        exclusive(paths.lock_file, "down"),
    ):
        pytest.fail("the lock was given twice")
    with exclusive(paths.lock_file, "down"):
        assert paths.lock_file.read_text().startswith("down (pid ")


def test_a_lock_whose_file_was_deleted_by_its_holder_is_taken_again(paths: LabPaths) -> None:
    with paths.lock_file.open("w") as former:
        fcntl.flock(former, fcntl.LOCK_EX)
        paths.lock_file.unlink()
        with exclusive(paths.lock_file, "up"):
            assert paths.lock_file.read_text().startswith("up (pid ")
