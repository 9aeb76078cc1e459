"""The lab of these tests, faults written straight into its port table, and a pair of NICs that write."""

from collections.abc import Callable
from contextlib import ExitStack
from math import gcd
from typing import Any, Final, Self

from port_faults import write_port_fault
from raw_verbs import connect_pair
from waiting import DEADLINE_NS

from mrc_agents.nic.client import AgentClient
from mrc_agents.nic.pattern import seed_at
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

SPEC: Final = TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2)
NEIGHBOURS: Final = ("h0", "h1")
DISTANT: Final = ("h0", "h3")

_BACKGROUND_SEED: Final = 1


def set_loss(live: Lab, port_id: int, ratio: float) -> None:
    """Lets frames that leave a port be lost at random."""
    write_port_fault(live, port_id, loss_q32=int(ratio * (1 << 32)), loss_seed=4791)


class WritePair:
    """A QP from one host to another over connections of its own, with memory registered at both ends.

    Iteration i of the work posted reads local slot i % local_slots and writes remote slot i % remote_slots;
    the numbers are coprime, so each batch over the target brings other bytes. The target begins and ends with
    bytes that nobody may touch.

    Args:
        live: the lab.
        hosts: names of source and target.
        length: bytes of a message.
        seed: of the bytes sent.
        attributes: of both QPs.
    """

    MARGIN_BYTES: Final = 1009

    def __init__(
        self, live: Lab, hosts: tuple[str, str], length: int = 64 << 10, *, seed: int = 7, **attributes: Any
    ) -> None:
        self.live = live
        self.length = length
        self.seed = seed
        self.local_slots, self.remote_slots = 5, 4
        assert gcd(self.local_slots, self.remote_slots) == 1
        self.iterations = 0
        self.events: list[dict[str, Any]] = []
        with ExitStack() as opened:
            self.source, self.target = (
                opened.enter_context(AgentClient(live.paths.agent_socket(host))) for host in hosts
            )
            near, far = (live.clos.node(host).index for host in hosts)
            self.evs = build_ev_set(live.clos, near, far)
            self.qpn = self.source.create_qp(far, list(self.evs), **attributes)
            self.peer_qpn = self.target.create_qp(
                near, list(build_ev_set(live.clos, far, near)), **attributes
            )
            connect_pair(self.source, self.qpn, self.target, self.peer_qpn)
            self.local = self.source.register_memory(self.local_slots * length)
            self.remote = self.target.register_memory(self.remote_slots * length + 2 * self.MARGIN_BYTES)
            self.source.fill(self.local["offset"], self.local["length"], seed)
            self.target.fill(self.remote["offset"], self.remote["length"], _BACKGROUND_SEED)
            self.source.subscribe()
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def post(self, iterations: int, **changes: int) -> int:
        """Posts so many messages; the work's id. Messages count from the first of this pair."""
        # A request counts its own iterations from 0: only whole batches over both slots keep ours in step.
        assert self.iterations % (self.local_slots * self.remote_slots) == 0
        self.iterations += iterations
        work = {
            "length": self.length,
            "local_offset": self.local["offset"],
            "local_slots": self.local_slots,
            "remote_offset": self.MARGIN_BYTES,
            "remote_slots": self.remote_slots,
            "r_key": self.remote["r_key"],
            "iterations": iterations,
            # A slot is written again only when the message before has arrived whole: packets overtake.
            "depth": self.remote_slots,
        }
        return self.source.post_write(self.qpn, **(work | changes))

    def await_event(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event since the last call that is wanted; those before it are kept in `events`."""
        while True:
            event = self.source.next_event(DEADLINE_NS)
            self.events.append(event)
            if is_wanted(event):
                return event

    def complete(self, work_id: int) -> dict[str, Any]:
        """The completion of a work request."""
        return self.await_event(lambda event: event["event"] == "completion" and event["work_id"] == work_id)

    def write(self, iterations: int) -> None:
        """Sends so many messages, a multiple of a batch over all slots, to the end."""
        done = self.complete(self.post(iterations))
        assert (done["status"], done["iterations"], done["length"]) == ("success", iterations, self.length)

    def wrong_bytes(self) -> int:
        """Bytes at the target that are not what the messages so far must have left there."""
        start = self.remote["offset"] + self.MARGIN_BYTES
        wrong = 0
        for slot in range(self.remote_slots):
            last = max(i for i in range(self.iterations) if i % self.remote_slots == slot)
            sent = seed_at(self.seed, last % self.local_slots * self.length)
            wrong += self.target.verify(start + slot * self.length, self.length, sent)
        return wrong + self.margin_errors()

    def margin_errors(self) -> int:
        """Bytes around the target that somebody has touched."""
        first = self.remote["offset"]
        last = first + self.remote["length"] - self.MARGIN_BYTES
        behind = seed_at(_BACKGROUND_SEED, last - first)
        return self.target.verify(first, self.MARGIN_BYTES, _BACKGROUND_SEED) + self.target.verify(
            last, self.MARGIN_BYTES, behind
        )

    @property
    def state(self) -> str:
        (row,) = [row for row in self.source.list_qps() if row["qpn"] == self.qpn]
        return str(row["state"])


BATCH: Final = 20
"""Iterations after which every local slot has been written to every remote slot once."""
