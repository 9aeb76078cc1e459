"""A live lab as an injector sees it: its port table, and the interfaces of its switches."""

import os

from agents.wire_abi import PortFault
from testbed.errors import FabricError, FaultError
from testbed.fabric.data_plane import FabricMaps
from testbed.fabric.link import raise_ports, set_port_up
from testbed.fabric.namespace import entered
from testbed.fabric.runtime import node_namespace
from testbed.fabric.state import lab_paths, read_state
from testbed.faults.effect import PortSetting
from testbed.faults.injector import PortDrops
from testbed.topology.clos import Clos


class LabTarget:
    """The lab *name*; every store into its port table takes effect with the next frame.

    Raises:
        FaultError: there is no such lab, or this process may not change it.
    """

    def __init__(self, name: str) -> None:
        paths = lab_paths(name)
        state = read_state(paths)
        if state is None:
            raise FaultError(f"there is no lab {name!r}", hint="mrc-testbed up brings it up")
        self._name = name
        self.clos = Clos(state.spec)
        try:
            self._maps = FabricMaps(paths)
        except FabricError as error:
            hint = "run it with sudo" if os.geteuid() else f"mrc-testbed status -n {name}"
            raise FaultError(f"the maps of lab {name!r} cannot be opened: {error}", hint=hint) from error

    def write_port(self, port_id: int, setting: PortSetting) -> None:
        """Stores the setting; the loss probability last, so that no frame is drawn with another's seed."""
        port = self._maps.port_table[port_id]
        port.fault_flags = PortFault.FAULT_DOWN if setting.is_down else 0
        if setting.loss_seed != port.loss_seed:
            port.loss_q32 = 0
            port.loss_seed = setting.loss_seed
        port.loss_q32 = setting.loss_q32

    def reset_drops(self, port_id: int) -> None:
        """Zeroes the port's account; call it only while no fault acts there, or the data plane writes too."""
        state = self._maps.port_state[port_id]
        state.loss_sequence = 0
        state.first_fault_drop_ns = 0
        state.last_fault_drop_ns = 0
        state.fault_data_drops = 0
        state.fault_drops = 0

    def read_drops(self, port_id: int) -> PortDrops:
        """The port's account."""
        state = self._maps.port_state[port_id]
        return PortDrops(
            port_id,
            count=state.fault_drops,
            data_count=state.fault_data_drops,
            first_ns=state.first_fault_drop_ns,
            last_ns=state.last_fault_drop_ns,
        )

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down; the far end's carrier follows before this returns."""
        port = self.clos.port(port_id)
        if not is_up:
            set_port_up(self._name, port, is_up=False)
            return
        with entered(node_namespace(self._name, port.node.name)):
            raise_ports([port])  # a port that goes down loses its address

    def close(self) -> None:
        """Gives the maps back; faults stay as they are."""
        self._maps.close()
