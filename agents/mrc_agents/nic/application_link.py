"""The socket of a NIC agent for applications, and what it answers there.

It has an abstract name, so every process in the host's network namespace can connect, whoever its user is,
and nobody outside can. What comes in is checked: an application may only reach its own QPs and regions.

Source: mrc_agents/include/mrc/application_abi.h.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from ctypes import sizeof
from dataclasses import replace
from itertools import count
from typing import Any, Final

from mrc_agents.abi import (
    ApplicationLimit,
    ApplicationReply,
    ApplicationRequest,
    ApplicationVerb,
    ControlMessage,
    Limit,
    Notify,
    PageList,
    QpAttrMask,
    QpState,
    WorkRing,
    WorkSide,
)
from mrc_agents.errors import UsageError
from mrc_agents.nic.application_reply import refuse, reported_in
from mrc_agents.nic.channel_rings import ChannelRings
from mrc_agents.nic.control import Controller
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.memory import RegionPlace
from mrc_agents.nic.page_memory import whole_pages
from mrc_agents.nic.reactions import ClientResources, Reactions
from mrc_agents.nic.watch_sockets import WatchSockets, has_net_admin, is_left, send, socket_pair
from mrc_agents.nic.work_queue import QpLimits, qp_index
from mrc_agents.protocol.retry_times import give_up_us, mrc_give_up_us, rnr_timer_us

_log = logging.getLogger(__name__)
SOCKET_NAME: Final = b"\0mrc-testbed-nic"
CONNECTIONS_MAX: Final = 64
_SIDES: Final = {"completion": WorkSide.SENDS, "receive": WorkSide.RECEIVES}
_STATES: Final = (QpState.INIT, QpState.RTR, QpState.RTS, QpState.ERROR)
_LIBMRC_ATTRIBUTES: Final = (  # name for the NIC, that of the request, and the state that it goes with
    (QpAttrMask.MPR_DEST, "mpr_dest", "mpr_dest", QpState.RTR),
    (QpAttrMask.MAX_WIMM_DEST, "max_wimm_dest", "max_wimm_dest", QpState.RTR),
    (QpAttrMask.CAP, "dynamic_mpr", "is_mpr_dynamic", QpState.RTR),
    (QpAttrMask.MPR, "mpr", "mpr", QpState.RTS),
    (QpAttrMask.MAX_WIMM, "max_wimm", "max_wimm", QpState.RTS),
)


class _Application:
    """One connection: what it owns, and the sockets that wake it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.is_controller = False  # whoever sent the last request has CAP_NET_ADMIN
        self.owned = ClientResources()
        self.channels: dict[socket.socket, int] = {}  # with their numbers
        self.watches = WatchSockets()  # of the port
        self.ev_watches = WatchSockets()
        self.domains: dict[int, int] = {}  # number for the NIC, by that of the application

    def check_controller(self) -> None:
        """Raises PermissionError unless the last request came with a proof of CAP_NET_ADMIN."""
        if not self.is_controller:
            raise PermissionError(errno.EPERM, "control of the NIC needs CAP_NET_ADMIN")

    def wake(self, number: int) -> None:
        """A byte to a completion channel, or to all (0); one that is full has enough of them."""
        for each in [each for each, its in self.channels.items() if number in {0, its}]:
            send(each, b"1")

    def close(self) -> None:
        self.watches.close()
        self.ev_watches.close()
        for each in (*self.channels, self.connection):
            each.close()


class ApplicationLink:
    """The agent's end of all applications' connections.

    Args:
        arm: called after anything that may change when the agent is next due.
    """

    def __init__(
        self, reactions: Reactions, device: NicDevice, controller: Controller, arm: Callable[[], None]
    ) -> None:
        self._reactions = reactions
        self._controller = controller
        self._controlling: set[asyncio.Task[None]] = set()
        self._device = device
        self._arm = arm
        self._rings = ChannelRings(device.open_channels())
        self._applications: dict[int, _Application] = {}
        self._domains = count(1)  # 0 is that of the agent's other clients
        self._was_port_up = self._is_port_up()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)

    def start(self) -> None:
        try:
            self._listener.bind(SOCKET_NAME)
        except OSError as error:
            _log.warning("no applications are served: %s", error.strerror)
            return
        self._listener.listen()
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._on_connection)

    def close(self) -> None:
        """Ends all connections; the kernel ends their QPs, as it does when an agent is killed."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for application in self._applications.values():
            loop.remove_reader(application.connection.fileno())
            application.close()
        self._applications.clear()
        self._rings.close()

    def on_event(self, fields: dict[str, Any]) -> None:
        """An event of the NIC, as subscribers get it: wakes the application whose QP it is of."""
        qpn = fields.get("qpn")
        kind = fields["event"]
        if kind == "port_state":
            self._on_port_state()
        packet = self._controller.event(fields) if kind == "ev_state" else None
        for application in self._applications.values() if packet else ():
            application.ev_watches.send(packet or b"")
        if qpn is None or kind not in {"completion", "receive", "qp_state"}:
            return
        for application in self._applications.values():
            if qpn in application.owned.qpns:
                if kind == "qp_state":
                    self._reactions.verbs.publish_failure(qpn, fields["status"])
                self._reactions.verbs.forget_reports(qpn)
                side = _SIDES.get(kind)
                ring = self._device.work[qp_index(qpn)]
                application.wake(0 if side is None else ring.channels[side])

    def _is_port_up(self) -> bool:
        """The one port that programs know has carrier as long as any plane has."""
        return self._device.control.port_up_mask != 0

    def _on_port_state(self) -> None:
        is_up = self._is_port_up()
        if is_up == self._was_port_up:
            return
        self._was_port_up = is_up
        for application in self._applications.values():
            application.watches.send(bytes([is_up]))

    # -- connections --------------------------------------------------------------------------------

    def _on_connection(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return  # it has gone
        connection.setblocking(False)
        application = _Application(connection)
        reply = ApplicationReply(
            version=ApplicationLimit.VERSION,
            host_index=self._device.config.host_index,
            qp_count=self._device.qp_count,
            pmtu_bytes=Limit.PMTU_MAX,
            ring_bytes=sizeof(WorkRing),
            inner_prefix=self._device.config.inner_prefix,
            memory_bytes=self._device.memory.length_bytes,
        )
        if len(self._applications) >= CONNECTIONS_MAX:
            refuse(reply, errno.EMFILE, f"{CONNECTIONS_MAX} applications use this NIC already")
            self._send(application, reply, [])
            application.close()
            return
        if self._send(application, reply, self._device.application_descriptors()):
            self._applications[connection.fileno()] = application
            asyncio.get_running_loop().add_reader(connection.fileno(), self._on_request, application)
        else:
            application.close()

    def _send(
        self, application: _Application, reply: ApplicationReply, descriptors: list[int], behind: bytes = b""
    ) -> bool:
        try:
            socket.send_fds(application.connection, [bytes(reply) + behind], descriptors)
        except OSError as error:  # it is gone, or does not read
            _log.info("an application does not take its reply: %s", error.strerror)
            return False
        return True

    def _on_request(self, application: _Application) -> None:
        try:
            room = sizeof(ApplicationRequest) + sizeof(ControlMessage) + 1
            packet, given, _, _ = socket.recv_fds(application.connection, room, 1)
            application.is_controller = has_net_admin(given)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        descriptors: list[int] = []
        request = ApplicationRequest.from_buffer_copy(packet.ljust(sizeof(ApplicationRequest), b"\0"))
        is_control = request.verb == ApplicationVerb.CONTROL
        if len(packet) == sizeof(ApplicationRequest) + is_control * sizeof(ControlMessage):
            if is_control:
                self._begin_control(
                    application, ControlMessage.from_buffer_copy(packet, sizeof(ApplicationRequest))
                )
                return
            reply = ApplicationReply()
            with reported_in(reply):
                self._execute(application, request, reply, descriptors)
            is_sent = self._send(application, reply, descriptors)
        else:
            is_sent = False
        for each in descriptors:
            os.close(each)
        if not is_sent:
            self._end(application)
        self._arm()

    def _begin_control(self, application: _Application, control: ControlMessage) -> None:
        """Carries out a message; while it waits for answers, others are served."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(application.connection.fileno())
        task = loop.create_task(self._control(application, control))
        self._controlling.add(task)
        task.add_done_callback(self._controlling.discard)

    async def _control(self, application: _Application, control: ControlMessage) -> None:
        reply = ApplicationReply()
        with reported_in(reply):
            application.check_controller()
            await self._controller.carry_out(control)
        if self._send(application, reply, [], bytes(control)):
            descriptor = application.connection.fileno()
            asyncio.get_running_loop().add_reader(descriptor, self._on_request, application)
        elif application.connection.fileno() in self._applications:
            self._end(application)
        self._arm()

    def _end(self, application: _Application) -> None:
        asyncio.get_running_loop().remove_reader(application.connection.fileno())
        del self._applications[application.connection.fileno()]
        self._reactions.release(application.owned)
        for number in application.channels.values():
            self._rings.give_back(number)
        self._reactions.verbs.give_back_memory()
        application.close()

    # -- requests -----------------------------------------------------------------------------------

    def _execute(
        self,
        application: _Application,
        request: ApplicationRequest,
        reply: ApplicationReply,
        descriptors: list[int],
    ) -> None:
        match request.verb:
            case ApplicationVerb.ALLOCATE:
                is_placed = request.offset != ApplicationLimit.ANYWHERE
                wanted = request.offset if is_placed and request.offset % Limit.PAGE_BYTES == 0 else None
                reply.offset = self._reactions.verbs.allocate(request.length, wanted)
                application.owned.allocations.add(reply.offset, whole_pages(request.length))
            case ApplicationVerb.FREE:
                length = application.owned.allocations.remove(request.offset)
                self._reactions.verbs.free(request.offset, length)
            case ApplicationVerb.REGISTER:
                self._register(application, request, reply)
            case ApplicationVerb.DEREGISTER:
                if request.r_key not in application.owned.r_keys:
                    raise UsageError(f"r_key: no region {request.r_key:#x} of this application")
                self._call("deregister_memory", {"r_key": request.r_key}, application.owned)
            case ApplicationVerb.CREATE_QP:
                self._create_qp(application, request, reply)
            case ApplicationVerb.MODIFY_QP:
                self._modify_qp(application.owned, request, reply)
            case ApplicationVerb.DESTROY_QP:
                self._check_qpn(application.owned, request.qpn)
                self._call("destroy_qp", {"qpn": request.qpn}, application.owned)
            case ApplicationVerb.QUERY_PORT:
                reply.is_up = self._is_port_up()
            case _:
                descriptors.append(self._descriptor(application, request, reply))

    def _descriptor(
        self, application: _Application, request: ApplicationRequest, reply: ApplicationReply
    ) -> int:
        """The descriptor that the reply comes with, for the application to close."""
        match request.verb:
            case ApplicationVerb.CREATE_CHANNEL:
                channels = application.channels
                for left in [each for each in channels if is_left(each)]:
                    self._rings.give_back(channels.pop(left))
                    left.close()
                ours, theirs = socket_pair(len(channels))
                channels[ours] = reply.channel = self._rings.take()
                reply.has_ring = self._rings.has_ring(reply.channel)
                return theirs.detach()
            case ApplicationVerb.CHANNEL_RING:
                if request.offset not in application.channels.values():
                    raise UsageError(f"offset: {request.offset}; no such channel of this application")
                return self._rings.descriptor(request.offset)
            case ApplicationVerb.WATCH_PORT:
                reply.is_up = self._is_port_up()
                return application.watches.open()
            case ApplicationVerb.WATCH_EVS:
                application.check_controller()
                return application.ev_watches.open()
            case ApplicationVerb.CHUNK:
                chunk = self._device.memory_descriptor(request.offset)
                if chunk is None:
                    raise UsageError(f"offset: {request.offset}; the NIC's memory has no such chunk")
                return os.dup(chunk)
        raise UsageError(f"verb: {request.verb}; no such verb")

    def _call(self, verb: str, arguments: dict[str, Any], owned: ClientResources) -> Any:
        return self._reactions.call(verb, arguments, owned)

    @staticmethod
    def _check_qpn(owned: ClientResources, qpn: int) -> None:
        if qpn not in owned.qpns:
            raise UsageError(f"qpn: no QP {qpn} of this application")

    def _domain(self, application: _Application, pd: int) -> int:
        """The NIC's number of an application's protection domain."""
        if pd not in application.domains:
            application.domains[pd] = next(self._domains)
        return application.domains[pd]

    def _register(
        self, application: _Application, request: ApplicationRequest, reply: ApplicationReply
    ) -> None:
        allocations = application.owned.allocations
        is_listed = request.page_list != PageList.NO_PAGE_LIST
        place = RegionPlace(page_list=request.page_list) if is_listed else RegionPlace(request.offset)
        under = allocations.under(*place.needs(request.address, request.length))
        region = self._reactions.verbs.register_over(
            request.address,
            request.length,
            place,
            is_remote_writable=bool(request.is_writable),
            pd=self._domain(application, request.pd),
        )
        application.owned.r_keys.add(region.r_key)
        allocations.hold(region.r_key, under)
        reply.r_key = region.r_key

    def _create_qp(
        self, application: _Application, request: ApplicationRequest, reply: ApplicationReply
    ) -> None:
        verbs = self._reactions.verbs
        verb, arguments = verbs.creation(request.transport)
        try:
            reply.qpn = self._call(verb, arguments, application.owned)
        except UsageError as error:
            refuse(reply, errno.ENOMEM, error.message)
            return
        verbs.join_domain(reply.qpn, self._domain(application, request.pd))
        self._device.work[qp_index(reply.qpn)].notify[:] = [Notify.NEVER] * WorkSide.COUNT

    def _modify_qp(
        self, owned: ClientResources, request: ApplicationRequest, reply: ApplicationReply
    ) -> None:
        self._check_qpn(owned, request.qpn)
        if request.state and request.state not in _STATES:
            raise UsageError(f"state: {request.state}; {', '.join(state.name for state in _STATES)}")
        self._reactions.verbs.limit_qp(request.qpn, _limits(request))
        reply.qpn = request.qpn
        if not request.state:
            return
        state = QpState(request.state)
        arguments: dict[str, Any] = {"qpn": request.qpn, "state": state.name}
        given = request.given
        if state == QpState.INIT:
            ev_profile = request.ev_profile if given & QpAttrMask.EV_PROFILE_ID else None
            cc_profile = request.cc_profile if given & QpAttrMask.CC_PROFILE_ID else None
            self._reactions.verbs.profile_qp(request.qpn, ev_profile, cc_profile)
            return
        if state == QpState.RTR:
            arguments |= {
                "peer_host": request.peer_host,
                "peer_qpn": request.peer_qpn,
                "peer_first_psn": request.psn,
            }
        elif state == QpState.RTS:
            arguments["first_psn"] = request.psn
        arguments |= {
            name: getattr(request, field)
            for bit, name, field, of in _LIBMRC_ATTRIBUTES
            if given & bit and of == state
        }
        self._call("modify_qp", arguments, owned)
        reply.window_packets, reply.pmtu_bytes = self._reactions.verbs.sending_of(request.qpn)


def _limits(request: ApplicationRequest) -> QpLimits:
    """Those that a program has set; defaults for the rest."""
    limits = QpLimits(is_writable=bool(request.is_writable))
    not_given = ApplicationLimit.NOT_GIVEN
    if not_given not in {request.timeout, request.retry_count}:
        limits = replace(limits, give_up_us=give_up_us(request.timeout, request.retry_count))
    retries = QpAttrMask.TIMEOUT | QpAttrMask.RETRY_CNT
    if request.given & retries == retries:
        longest_us = mrc_give_up_us(request.mrc_timeout, request.linear_count, request.exponential_count)
        limits = replace(limits, give_up_us=longest_us)
    if request.rnr_retry != not_given:
        limits = replace(limits, rnr_limit=min(int(request.rnr_retry), int(Limit.RNR_FOREVER)))
    if request.min_rnr_timer != not_given:
        limits = replace(limits, rnr_timer_us=rnr_timer_us(request.min_rnr_timer))
    return limits
