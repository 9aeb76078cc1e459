"""A network of switch ports under flow control, run by the real program: a frame that leaves by a port comes
in at the far end of its link at once, and leaves again by the next port of its route.

Port p (1 <= p <= senders) sends into a link whose far end is port senders + p. The model lies in the past,
and the bench plays the drainer, in order of time.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from ctypes import byref, memmove, sizeof

from reference.lossless import Account, Frame, PortShape
from switch_bench import Departure, SwitchBench, frame_for, label_of

from mrc_agents.abi import (
    FaultAction,
    FaultRule,
    LosslessLink,
    LosslessSettings,
    PortCounter,
    PortKind,
    QueueLimit,
    TrafficClass,
)
from mrc_agents.bpf.maps import MappedArray
from mrc_testbed.fabric.port_fault import ALL_CLASSES, CERTAIN_Q32, clear_rule, set_rule

USID_AT = 42
_WHEEL_PORT_DELAY_NS = 20_000_000
_IDLE_TURNS_MAX = 3  # of the wheel port: so long nothing else moved
_IDLE_RUNS_MAX = 100


class LosslessBench(SwitchBench):
    """A bench of *senders* ports that send; to be entered as a context by one thread."""

    def __init__(self, senders: int) -> None:
        super().__init__(2 * senders + 2)
        self._senders = senders
        # always has a frame on its wire: an empty wheel forgets its position
        self._wheel_port = 2 * senders + 1

    def open(self, undo: ExitStack) -> None:
        super().open(undo)
        self.flow_control = MappedArray(self.map_fd("lossless_settings"), LosslessSettings)
        self.links = MappedArray(self.map_fd("lossless_links"), LosslessLink)
        self.shape(self._wheel_port, rate_bps=10**9, delay_ns=_WHEEL_PORT_DELAY_NS)
        for port in self.port_table:
            port.kind = PortKind.T0_UP

    def take_link_down(self, port_id: int) -> None:
        """Lets nothing through that leaves by *port_id*."""
        down = FaultRule(action=FaultAction.DOWN, chance_q32=CERTAIN_Q32, classes=ALL_CLASSES)
        set_rule(self, port_id, 0, down)

    def take_link_up(self, port_id: int) -> None:
        """Ends what `take_link_down` began."""
        clear_rule(self, port_id, 0)

    def far_end(self, port_id: int) -> int:
        """The port at the other end of the link that *port_id* sends into."""
        return self._senders + port_id

    def shape_all(self, shapes: Mapping[int, PortShape]) -> None:
        """Sets up all ports of a network that is quiet; updates under way and counts are forgotten."""
        for port_id, shape in shapes.items():
            far_id = self.far_end(port_id)
            self.shape(port_id, rate_bps=shape.rate_bps, delay_ns=shape.delay_ns)
            table = self.port_table
            table[port_id].peer_port, table[far_id].peer_port = far_id, port_id
            table[far_id].delay_ns = shape.far_delay_ns
            table[far_id].kind = PortKind.NIC if shape.ends_at_nic else PortKind.T0_UP
            settings = self.flow_control[port_id]
            settings.flow_control = shape.kind
            settings.xoff_bytes, settings.xon_bytes = shape.xoff_bytes, shape.xon_bytes
            settings.buffer_bytes = shape.buffer_bytes
            self._forget(self.links[port_id])

    def _forget(self, link: LosslessLink) -> None:
        kept = LosslessLink(
            start_due_ns=link.start_due_ns,
            start_next=link.start_next,
            is_start_scheduled=link.is_start_scheduled,  # it may still be in the wheel
        )
        memmove(byref(link), byref(kept), sizeof(LosslessLink))

    def account(self, port_id: int) -> Account:
        """The account of the link that *port_id* sends into."""
        link = self.links[port_id]
        return Account(
            pause_frames=link.pause_frames,
            resume_frames=link.resume_frames,
            paused_ns=link.paused_ns,
            blocks=link.blocks,
            blocked_ns=link.blocked_ns,
            buffered_peak_bytes=link.buffered_peak_bytes,
        )

    def carry(
        self,
        start_ns: int,
        arrivals: Iterable[tuple[int, Frame]],
        *,
        meanwhile: Callable[[int], object] = lambda _: None,
    ) -> list[tuple[int, int]]:
        """Deliveries (time_ns, label), by time, until nothing is left, or what is left cannot leave.

        Args:
            start_ns: what times are counted from; it lies in the past, and the network is quiet then.
            arrivals: by time; the first port of their routes has no flow control.
            meanwhile: called with the time of each frame that leaves a port, before it comes in again.
        """
        routes = self._inject(start_ns, arrivals)
        deliveries: list[tuple[int, int]] = []
        idle_turns = 0
        while idle_turns < _IDLE_TURNS_MAX:
            departure = self.drain_one()
            if departure is None:
                continue
            meanwhile(departure.arrival_ns - start_ns)
            if departure.port_id == self._wheel_port:
                idle_turns += 1
                if self.pool.read(0).used:
                    self._keep(departure.arrival_ns)
                    continue
                break
            idle_turns = 0
            label = label_of(departure.frame)
            if routes[label]:
                self._pass_on(departure, routes[label].pop(0))
            else:
                deliveries.append((departure.arrival_ns - start_ns, label))
        return sorted(deliveries)

    def drain_unseen(self, start_ns: int, arrivals: Iterable[tuple[int, Frame]], *, port_id: int) -> int:
        """Count the frames that leave by *port_id* while none that leaves there comes in anywhere."""
        routes = self._inject(start_ns, arrivals)
        count = idle_runs = 0
        while idle_runs < _IDLE_RUNS_MAX:
            departure = self.drain_one()
            idle_runs += 1
            if departure is None:
                continue
            idle_runs = 0
            if departure.port_id == port_id:
                count += 1
            else:
                self._pass_on(departure, routes[label_of(departure.frame)].pop(0))
        return count

    def _inject(self, start_ns: int, arrivals: Iterable[tuple[int, Frame]]) -> dict[int, list[int]]:
        """Lets all frames come in, the wheel's position before them. By label, the rest of each route."""
        assert self.pool.read(0).used == 0
        self.drainer.scan = start_ns >> QueueLimit.BUCKET_SHIFT
        self._keep(start_ns)
        routes: dict[int, list[int]] = {}
        for time_ns, frame in arrivals:
            routes[frame.label] = list(frame.route[1:])
            kind = TrafficClass(frame.traffic_class)
            octets = frame_for(frame.route[0], frame.length_bytes, traffic_class=kind, label=frame.label)
            self.receive(octets, start_ns + time_ns)
        return routes

    def _pass_on(self, departure: Departure, next_port: int) -> None:
        octets = departure.frame
        self.receive(
            octets[: USID_AT + 1] + bytes([next_port]) + octets[USID_AT + 2 :],
            departure.arrival_ns,
            ingress=self.far_end(departure.port_id),
            credit_bytes=departure.credit_bytes,
        )

    def _keep(self, time_ns: int) -> None:
        self.receive(frame_for(self._wheel_port, 100, traffic_class=TrafficClass.DATA), time_ns)

    def drops(self, port_id: int) -> int:
        """Data frames that found no room at *port_id*, ever."""
        return self.counter(port_id, PortCounter.DROP_QUEUE_FULL)
