"""The observations of a universe: completions, arrivals, QPs, the control plane's maps."""

from collections import defaultdict
from typing import Any

from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import VirtualLab

Qp = tuple[str, int]
"""Host and number."""

_CONTROL_MAPS = ("port_table", "port_fault", "lossless_settings", "fib")
"""Written by the control plane alone: with the last fault they are as before the first."""


class Witness:
    """A connection to every agent, beside those of the run; to those only that live all the time."""

    def __init__(self, lab: VirtualLab) -> None:
        self._lab = lab
        lab.is_watched = True
        self._first = {agent.host: agent.reactions for agent in lab.agents}
        self._connections = {host: VirtualConnection(lab, host) for host in self._first}
        for connection in self._connections.values():
            connection.subscribe("completion", "receive")
        # by QP, ids of completed work requests, in the order of their events
        self.completed: defaultdict[Qp, list[int]] = defaultdict(list)
        # by QP, numbers of WRITEs with immediate that have arrived
        self.arrived: defaultdict[Qp, list[int]] = defaultdict(list)
        # rows of `list_qps`, each with its `host`, and in `posted` the work requests that have not completed;
        # none when the run did not get to its end
        self.qps: list[dict[str, Any]] = []

    def look(self) -> None:
        """Takes what has happened, and notes QPs as they are now."""
        self.qps.clear()
        for agent in self._lab.agents:
            host, reactions = agent.host, self._first[agent.host]
            if reactions is None or agent.reactions is not reactions:
                continue  # it was killed, and all of its QPs with it
            for event in self._connections[host].drain_events():
                if event["event"] == "completion":
                    self.completed[host, event["qpn"]].append(event["work_id"])
                elif event["event"] == "receive":
                    self.arrived[host, event["qpn"]].append(event["number"])
            for row in self._connections[host].list_qps():
                posted = reactions.verbs.posted(row["qpn"])
                self.qps.append(row | {"host": host, "posted": posted})

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def in_flight(row: dict[str, Any]) -> dict[str, int | None]:
    """Packets and bytes that a QP has under way, where not zero, by their names in `list_qps`."""
    return {key: row[key] for key in ("inflight", "lost_waiting", "inflight_bytes") if row.get(key)}


def control_plane(lab: VirtualLab) -> dict[str, bytes]:
    """The state that faults change and have to restore, by name."""
    found = {name: bytes(lab.fabric_pins.map_fd(name).memory) for name in _CONTROL_MAPS}
    for host in lab.clos.hosts():
        found[f"nic_config of {host.name}"] = bytes(lab.node_pins(host.name).map_fd("nic_config").memory)
    return found
