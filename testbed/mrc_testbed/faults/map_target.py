"""The maps of a lab that faults change, live or in virtual time; a store acts with the next frame."""

from collections.abc import Sequence
from contextlib import ExitStack
from ctypes import c_uint32
from dataclasses import asdict

from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import map_update
from mrc_agents.nic.connection import Connection
from mrc_agents.nic.denylist import DeniedPath
from mrc_testbed.errors import FaultError
from mrc_testbed.fabric.data_plane import FabricMaps
from mrc_testbed.fabric.nic_data_plane import set_icrc
from mrc_testbed.fabric.paths import MapPins
from mrc_testbed.fabric.port_fault import clear_rule, set_rule
from mrc_testbed.faults.fault import PortAccount
from mrc_testbed.faults.rule import FrameRule, as_abi
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.forwarding import FIB_NONE, FIB_STRIDE, fib_entries
from mrc_testbed.topology.port_selection import port_rates_bps


def write_routes(paths: MapPins, clos: Clos, switch: Node, *, is_present: bool) -> None:
    """Write the table that the topology wants of a switch, or an empty one; it acts on the next frame."""
    with ExitStack() as opened:
        fib = open_map_in(opened, paths.fabric_pins, "fib")
        for entry in fib_entries(clos, switch):
            value = entry.value if is_present else FIB_NONE
            map_update(fib, c_uint32(switch.id * FIB_STRIDE + entry.key), c_uint32(value))


def deny_paths(agent: Connection, denied: Sequence[DeniedPath], allowed: Sequence[DeniedPath]) -> None:
    """Has a host deny paths, and allow others but for those that it is to deny."""
    for path in denied:
        agent.call("deny_path", **asdict(path))
    known = agent.denied_paths()
    for path in allowed:
        if path not in denied and asdict(path) in known:
            agent.call("allow_path", **asdict(path))


class MapTarget:
    def __init__(self, pins: MapPins, clos: Clos) -> None:
        self._pins = pins
        self.clos = clos
        self._maps = FabricMaps(pins)

    def set_rule(self, port_id: int, index: int, rule: FrameRule, seed: int, schedule: Schedule) -> None:
        """Lets a rule act on the frames that leave a port, with a new account."""
        set_rule(self._maps, port_id, index, as_abi(rule, seed, schedule))

    def clear_rule(self, port_id: int, index: int) -> PortAccount:
        """The account of a rule that acts no more."""
        account = clear_rule(self._maps, port_id, index)
        return PortAccount(
            port_id,
            met=account.matched_frames,
            count=account.hit_frames,
            data_count=account.hit_data_frames,
            first_ns=account.first_hit_ns,
            last_ns=account.last_hit_ns,
        )

    def set_rate(self, port_id: int, ratio: float) -> None:
        """Lets a port transmit at that share of its rate; at least 1 bit/s, for 0 would mean unshaped."""
        rate_bps = port_rates_bps(self.clos)[port_id]
        if not rate_bps:
            raise FaultError("the lab is unshaped: its ports have no rate to lower")
        self._maps.port_table[port_id].rate_bps = max(1, round(rate_bps * ratio))

    def set_held(self, port_id: int, *, is_held: bool) -> None:
        """Lets the far end of a port's link hold the port's data back; it is noticed within 0.1 ms."""
        self._maps.lossless_settings[port_id].is_forced = is_held

    def set_routes(self, switch: str, *, is_present: bool) -> None:
        """Set the forwarding table of a switch, or remove it."""
        write_routes(self._pins, self.clos, self.clos.node(switch), is_present=is_present)

    def set_icrc(self, *, is_checked: bool) -> None:
        """Has all NICs check the iCRC of packets, or do as the topology says."""
        set_icrc(self._pins, self.clos, is_on=is_checked)

    def close(self) -> None:
        """Close the maps; faults stay as they are."""
        self._maps.close()
