"""Proof that a lab carries packets: every host writes to another one through every plane, and the bytes are
compared.
"""

import random
from dataclasses import dataclass
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.connecting import connect_qps
from mrc_agents.nic.context import Context, QueuePair, open_nic
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.runtime import Report
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.path import find_ev

_TIMEOUT_NS: Final = 10_000_000_000
_TRIAL_SPAN_NS: Final = 5_000_000_000
"""A trial that fails is repeated for this long. On a busy machine a NIC may take a late packet for lost, and
a peer learns some round trips later that a port is back.
"""


@dataclass(frozen=True, slots=True)
class _Trial:
    """One write: from a host to one at the next T0 (or its neighbour, if there is but one T0), an EV per
    plane.
    """

    sender: Node
    receiver: Node
    evs: tuple[int, ...]
    packet_bytes: int

    @property
    def seed(self) -> int:
        return 1 + self.sender.index

    @property
    def length_bytes(self) -> int:
        return len(self.evs) * self.packet_bytes


def prove_planes(paths: LabPaths, clos: Clos, report: Report) -> None:
    """Lets every host send one full packet through every plane.

    Hosts choose different uplinks, so that a lab with enough of them tries every T1 as well.
    """
    for trial in _trials(clos):
        end_ns = monotonic_ns() + _TRIAL_SPAN_NS
        while True:
            try:
                _perform(paths, trial)
                break
            except FabricError as error:
                if monotonic_ns() < end_ns:
                    continue
                way = f"{trial.sender.name} does not reach {trial.receiver.name}"
                raise FabricError(f"{way}: {error.message}", hint=error.hint) from error
        report(1)


def _trials(clos: Clos) -> list[_Trial]:
    spec = clos.spec
    trials = []
    for sender in clos.hosts():
        receiver = clos.host((sender.index + clos.numbering.far_shift) % clos.numbering.host_count)
        ways = clos.numbering.way_count(clos.distance(sender.index, receiver.index))
        uplink = sender.index % ways
        evs = tuple(
            find_ev(clos, sender.index, receiver.index, plane, uplink) for plane in range(spec.planes)
        )
        trials.append(_Trial(sender, receiver, evs, spec.nic.path_mtu))
    return trials


def _perform(paths: LabPaths, trial: _Trial) -> None:
    """Run a trial; its connections are closed with the context, however it ends."""
    sender, receiver = trial.sender.name, trial.receiver.name
    with (
        open_nic(paths.agent_socket(sender), paths.node_pins(sender)) as near,
        open_nic(paths.agent_socket(receiver), paths.node_pins(receiver)) as far,
    ):
        _write(trial, near, far)


def _write(trial: _Trial, sender: Context, receiver: Context) -> None:
    source = sender.register_memory(trial.length_bytes)
    target = receiver.register_memory(trial.length_bytes)

    def create(nic: Context, peer: int, _: random.Random, psns: dict[str, int]) -> QueuePair:
        return nic.create_qp(
            peer,
            trial.evs,
            backup_per_plane=0,
            min_active=1,
            pmtu_bytes=trial.packet_bytes,
            shares_paths=0,  # or a packet that was late would keep the next trials off its path
            **psns,
        )

    near, far = connect_qps(sender, receiver, trial.seed, create)
    source.fill(0, trial.length_bytes, trial.seed)
    near.post_write(source, target.remote)
    completions = sender.verbs.wait(near.qpn, _TIMEOUT_NS)
    silent = [ev["plane"] for ev in near.evs() if not ev["tx_packets"] or ev["lost_packets"]]
    if silent:
        raise FabricError(f"plane {', '.join(map(str, silent))} does not carry packets")
    if [completion["status"] for completion in completions] != ["success"]:
        raise FabricError(f"the write ended with {completions or 'nothing in time'}")
    wrong_bytes = target.count_wrong(0, trial.length_bytes, trial.seed)
    if wrong_bytes:
        raise FabricError(f"{wrong_bytes} of {trial.length_bytes} bytes arrived changed")
    for made in (near, far, source, target):
        made.close()
