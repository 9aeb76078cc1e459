"""A NIC is controlled by privileged programs alone."""

import os
import socket
from contextlib import nullcontext
from pathlib import Path

import pytest

from mrc_agents.nic.capability import check_net_admin, has_net_admin


@pytest.mark.parametrize(
    ("effective", "namespace", "may"),
    [("0000000000001000", "ours", True), ("ffffffffffffefff", "ours", False), ("1000", "theirs", False)],
)
def test_capability_counts_in_the_agents_user_namespace(
    tmp_path: Path, effective: str, namespace: str, may: bool
) -> None:
    for process, its in (("self", "ours"), ("7", namespace)):
        (tmp_path / process / "ns").mkdir(parents=True)
        (tmp_path / its).touch()
        (tmp_path / process / "ns/user").symlink_to(tmp_path / its)
        (tmp_path / process / "status").write_text(f"CapPrm:\t{'f' * 16}\nCapEff:\t{effective}\n")
    assert has_net_admin(7, tmp_path) is may
    assert not has_net_admin(8, tmp_path)


def test_program_at_the_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        refused = nullcontext() if has_net_admin(os.getpid()) else pytest.raises(PermissionError)
        with refused:
            check_net_admin(ours)
