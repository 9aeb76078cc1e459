"""Completion of names: hosts, nodes, links and faults."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mrc_testbed.cli.options import ENVIRONMENT_PREFIX
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.paths import DEFAULT_LAB, lab_paths

if TYPE_CHECKING:
    from mrc_testbed.topology.clos import Clos


def hosts(incomplete: str) -> list[str]:
    """Hosts of the lab, or of the default topology when none is up."""
    return _beginning((host.name for host in _clos().hosts()), incomplete)


def nodes(incomplete: str) -> list[str]:
    return _beginning((node.name for node in _clos().nodes()), incomplete)


def links(incomplete: str) -> list[str]:
    return _beginning((link.name for link in _clos().links()), incomplete)


def faults(incomplete: str) -> list[str]:
    from mrc_testbed.faults.ledger import Ledger  # noqa: PLC0415 - takes a while to import

    try:
        return _beginning(Ledger(lab_paths(_lab()).faults).shown_entries(), incomplete)
    except TestbedError:
        return []  # a shell has no place for messages while a line is being typed


def _lab() -> str:
    return os.environ.get(f"{ENVIRONMENT_PREFIX}NAME") or DEFAULT_LAB


def _clos() -> "Clos":
    from mrc_testbed.fabric.state import read_state  # noqa: PLC0415 - takes a while, as the others
    from mrc_testbed.topology.resolve import resolve_topology  # noqa: PLC0415
    from mrc_testbed.topology.spec import TopologySpec  # noqa: PLC0415

    try:
        state = read_state(lab_paths(_lab()))
    except TestbedError:
        state = None  # likewise: `status` says what is wrong
    return resolve_topology(TopologySpec() if state is None else state.spec)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
