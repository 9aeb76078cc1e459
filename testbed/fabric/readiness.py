"""Proof that a lab carries packets: every host writes to another one through every plane, and the bytes are
compared.
"""

from dataclasses import dataclass
from typing import Final

from agents.nic.client import AgentClient, connect_pair
from testbed.errors import FabricError, TestbedError
from testbed.fabric.paths import LabPaths
from testbed.fabric.runtime import Report
from testbed.topology.clos import Clos
from testbed.topology.element import Node
from testbed.topology.path import find_ev

_TIMEOUT_NS: Final = 10_000_000_000
_TRIALS: Final = 8
"""On a busy machine a packet may be declared lost that is only late, but hardly so many times in a row."""


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

    Raises:
        FabricError: a packet was lost, or arrived changed; hosts and plane are named.
    """
    for trial in _trials(clos):
        for left in reversed(range(_TRIALS)):
            try:
                _perform(paths, trial)
                break
            except TestbedError as error:
                if left:
                    continue
                way = f"{trial.sender.name} does not reach {trial.receiver.name}"
                raise FabricError(f"{way}: {error.message}", hint=error.hint) from error
        report(1)


def _trials(clos: Clos) -> list[_Trial]:
    spec = clos.spec
    step = spec.hosts_per_t0 if spec.t0 > 1 else 1
    trials = []
    for sender in clos.hosts():
        receiver = clos.host((sender.index + step) % clos.numbering.host_count)
        uplink = sender.index % clos.numbering.uplink_count if spec.t0 > 1 else 0
        evs = tuple(
            find_ev(clos, sender.index, receiver.index, plane, uplink) for plane in range(spec.planes)
        )
        trials.append(_Trial(sender, receiver, evs, spec.nic.path_mtu))
    return trials


def _perform(paths: LabPaths, trial: _Trial) -> None:
    """What a trial makes is gone with its connections, however it ends."""
    with (
        AgentClient(paths.agent_socket(trial.sender.name)) as sender,
        AgentClient(paths.agent_socket(trial.receiver.name)) as receiver,
    ):
        _write(trial, sender, receiver)


def _write(trial: _Trial, sender: AgentClient, receiver: AgentClient) -> None:
    source = sender.register_memory(trial.length_bytes)
    target = receiver.register_memory(trial.length_bytes)
    attributes = {"backup_per_plane": 0, "min_active": 1, "pmtu_bytes": trial.packet_bytes}
    near = sender.create_qp(trial.receiver.index, list(trial.evs), **attributes)
    far = receiver.create_qp(trial.sender.index, list(trial.evs), **attributes)
    connect_pair(sender, near, receiver, far)
    sender.fill(source["offset"], trial.length_bytes, trial.seed)
    sender.post_write(
        near,
        length=trial.length_bytes,
        local_offset=source["offset"],
        remote_offset=0,
        r_key=target["r_key"],
    )
    completions = sender.wait(near, _TIMEOUT_NS)
    _check_planes(sender.ev_list(near))
    if [completion["status"] for completion in completions] != ["success"]:
        raise FabricError(f"the write ended with {completions or 'nothing in time'}")
    wrong_bytes = receiver.verify(target["offset"], trial.length_bytes, trial.seed)
    if wrong_bytes:
        raise FabricError(f"{wrong_bytes} of {trial.length_bytes} bytes arrived changed")
    sender.destroy_qp(near)
    receiver.destroy_qp(far)
    sender.deregister_memory(source["r_key"])
    receiver.deregister_memory(target["r_key"])


def _check_planes(evs: list[dict[str, int]]) -> None:
    silent = [ev["plane"] for ev in evs if not ev["tx_packets"] or ev["lost_packets"]]
    if silent:
        raise FabricError(f"plane {', '.join(map(str, silent))} does not carry packets")
