"""A NIC is controlled by privileged programs alone."""

import os
import socket

from mrc_agents.nic.watch_sockets import SO_PREFER_BUSY_POLL, has_net_admin


def test_only_a_socket_with_the_option_is_a_proof() -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    with ours, theirs:
        assert not has_net_admin([os.dup(ours.fileno()), read, write])
        try:
            theirs.setsockopt(socket.SOL_SOCKET, SO_PREFER_BUSY_POLL, 1)
        except PermissionError:
            assert os.geteuid() != 0
        else:
            assert has_net_admin([os.dup(ours.fileno()), os.dup(theirs.fileno())])
        assert not has_net_admin([])
