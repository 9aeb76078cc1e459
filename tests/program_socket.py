"""A program's connection to the NIC agent of its host, without the verbs library."""

import socket
from ctypes import sizeof
from typing import Final

from mrc_agents.abi import (
    ApplicationLimit,
    ApplicationReply,
    ApplicationRequest,
    ApplicationVerb,
    ControlMessage,
    Limit,
    PageList,
)
from mrc_agents.nic.application_link import SOCKET_NAME
from mrc_agents.nic.watch_sockets import SO_PREFER_BUSY_POLL
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.runtime import node_namespace

ADDRESS: Final = 0x7F00_0000_1000
PAGE: Final = int(Limit.PAGE_BYTES)


class Program:
    """One connection of an application."""

    def __init__(self, live: Lab, host: str) -> None:
        with entered(node_namespace(live.name, host)):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.socket.connect(SOCKET_NAME)
        hello, self.descriptors, _, _ = socket.recv_fds(self.socket, sizeof(ApplicationReply), 8)
        self.hello = ApplicationReply.from_buffer_copy(hello)

    def _send(self, packet: bytes) -> None:
        """Sends a packet with the proof that a controller gives."""
        self.socket.setsockopt(socket.SOL_SOCKET, SO_PREFER_BUSY_POLL, 1)
        socket.send_fds(self.socket, [packet], [self.socket.fileno()])

    def ask(self, verb: int, **fields: int) -> ApplicationReply:
        self._send(bytes(ApplicationRequest(verb=verb, **fields)))
        packet, descriptors, _, _ = socket.recv_fds(self.socket, sizeof(ApplicationReply), 8)
        self.descriptors += descriptors
        return ApplicationReply.from_buffer_copy(packet)

    def control(self, control: ControlMessage) -> tuple[int, ControlMessage]:
        """Errno of a message's reply, and the message as it came back."""
        self._send(bytes(ApplicationRequest(verb=ApplicationVerb.CONTROL)) + bytes(control))
        packet = self.socket.recv(sizeof(ApplicationReply) + sizeof(ControlMessage))
        found = ControlMessage.from_buffer_copy(packet, sizeof(ApplicationReply))
        return ApplicationReply.from_buffer_copy(packet).error, found

    def allocate(self, length: int, offset: int = ApplicationLimit.ANYWHERE) -> int:
        reply = self.ask(ApplicationVerb.ALLOCATE, length=length, offset=offset)
        assert reply.error == 0
        return reply.offset

    def register(self, offset: int, length: int = PAGE, **fields: int) -> ApplicationReply:
        given = {"address": ADDRESS, "page_list": PageList.NO_PAGE_LIST} | fields
        return self.ask(ApplicationVerb.REGISTER, offset=offset, length=length, **given)

    def close(self) -> None:
        self.socket.close()
        for each in self.descriptors:
            socket.close(each)
        self.descriptors = []
