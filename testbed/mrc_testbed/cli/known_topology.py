"""Topology of a command: of a file, of the lab that is up, or the default one."""

from mrc_testbed.cli.options import Settings
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import read_state
from mrc_testbed.topology.resolve import load_topology
from mrc_testbed.topology.spec import TopologySpec


def known_topology(settings: Settings) -> TopologySpec:
    """Topology of -t, else of the lab that is up under that name, else the default one."""
    if settings.topology is None:
        spec = live_topology(settings)
        if spec is not None:
            return spec
        if settings.names_lab:
            raise UsageError(
                f"there is no lab {settings.name!r}", hint="mrc-testbed up, or give a file with -t"
            )
    return given_topology(settings)


def given_topology(settings: Settings) -> TopologySpec:
    """Topology of -t, else the default one."""
    return TopologySpec() if settings.topology is None else load_topology(settings.topology)


def live_topology(settings: Settings) -> TopologySpec | None:
    """Topology of the lab in *settings*; None without a lab. Needs no root."""
    state = read_state(lab_paths(settings.name))
    return None if state is None else state.spec
