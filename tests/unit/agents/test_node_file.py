"""Files in a folder that a node can write: whatever it puts there, only its own is read or connected to."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from mrc_agents.nic.client import AgentClient
from mrc_agents.node_file import read_tail, remove_all_but, socket_address
from mrc_testbed.errors import AgentError

CONTENT: Final = "root:*:20228:0"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "shadow"
    file.write_text(CONTENT)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "node"
    path.mkdir()
    return path


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket outside the node's folder, at `other.sock`."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "other.sock"))
        listening.listen()
        listening.settimeout(0)
        yield listening


MISCHIEF: Final[dict[str, tuple[Callable[[Path, Path], None], str]]] = {
    "symbolic link": (lambda path, target: path.symlink_to(target), "is a symbolic link"),
    "hard link": (lambda path, target: path.hardlink_to(target), "has 2 names"),
    "folder": (lambda path, _: path.mkdir(), "is a folder"),
    "FIFO": (lambda path, _: os.mkfifo(path), "is a FIFO"),
}


@pytest.mark.parametrize("kind", MISCHIEF)
def test_only_a_regular_file_with_one_name_is_read(kind: str, folder: Path, secret: Path) -> None:
    make, message = MISCHIEF[kind]
    make(folder / "agent.log", secret)
    with pytest.raises(AgentError, match=message):
        read_tail(folder / "agent.log", 1000)


def test_folder_that_is_a_link_is_not_entered(tmp_path: Path, folder: Path, secret: Path) -> None:
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        read_tail(folder / secret.name, 1000)


@pytest.mark.root
def test_file_of_another_user_is_not_read(folder: Path) -> None:
    log = folder / "agent.log"
    log.write_text("planted")
    os.chown(log, 65534, -1)
    with pytest.raises(AgentError, match=f"belongs to the user 65534, not to {os.geteuid()}"):
        read_tail(log, 1000)


def test_file_that_grows_without_end_is_read_in_part(folder: Path) -> None:
    log = folder / "agent.log"
    with log.open("wb") as stream:
        stream.truncate(1 << 40)
        stream.seek(1 << 40)
        stream.write(b"the end")
    assert read_tail(log, 10) == b"\0\0\0the end"


def test_file_that_is_not_there_is_said_to_be_missing(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_tail(folder / "agent.log", 10)


@pytest.mark.parametrize("kind", ["symbolic link", "folder", "FIFO"])
def test_only_a_socket_is_connected_to(
    kind: str, folder: Path, tmp_path: Path, listener: socket.socket
) -> None:
    make, message = MISCHIEF[kind]
    make(folder / "agent.sock", tmp_path / "other.sock")
    with pytest.raises(AgentError, match=message):
        AgentClient(folder / "agent.sock")
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_regular_file_is_no_socket(folder: Path) -> None:
    (folder / "agent.sock").write_text("")
    with pytest.raises(AgentError, match="is a regular file, not a socket"):
        AgentClient(folder / "agent.sock")


def test_address_is_of_the_socket_that_was_checked(
    folder: Path, tmp_path: Path, listener: socket.socket
) -> None:
    """Another socket that takes its name in the meantime is not connected to."""
    path = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as own, socket.socket(socket.AF_UNIX) as client:
        own.bind(str(path))
        own.listen()
        with socket_address(path) as address:
            path.unlink()
            path.symlink_to(tmp_path / "other.sock")
            client.connect(address)
        own.accept()[0].close()
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_folder_is_emptied_without_leaving_it(folder: Path, secret: Path, tmp_path: Path) -> None:
    log = folder / "agent.log"
    log.write_text("kept")
    (folder / "agent.sock").symlink_to(secret)
    (folder / "away").symlink_to(tmp_path)
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "out").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo")
    remove_all_but(folder, log.name)
    assert list(folder.iterdir()) == [log]
    assert (log.read_text(), secret.read_text()) == ("kept", CONTENT)


@pytest.mark.parametrize("kind", MISCHIEF)
def test_entry_to_keep_goes_when_it_is_no_file_of_its_own(kind: str, folder: Path, secret: Path) -> None:
    make, _ = MISCHIEF[kind]
    make(folder / "agent.log", secret)
    remove_all_but(folder, "agent.log")
    assert list(folder.iterdir()) == []
    assert secret.read_text() == CONTENT
