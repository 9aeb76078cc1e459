"""Follows labs by name through their lives: which are up, and the maps of the one that is up now.

A lab that is taken down and brought up again has new maps under the old name. Its state file shows it: it is
another file then. Looking costs one stat per lab.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.fault_log import HIDDEN_FILE
from mrc_testbed.fabric.known_labs import no_such_lab
from mrc_testbed.fabric.paths import LabPaths, lab_folders, lab_paths
from mrc_testbed.fabric.state import Phase, read_state
from mrc_testbed.metrics.collector import LabCollector
from mrc_testbed.metrics.reader import QP_SEARCH_READINGS, LabReader
from mrc_testbed.topology.resolve import resolve_topology

_LOG: Final = logging.getLogger(__name__)

StateMark = tuple[int, int, int]
"""Device, inode and modification time of a state file."""


def open_reader(name: str, *, qp_search_readings: int = QP_SEARCH_READINGS) -> LabReader:
    """The maps of the lab *name*, which must be up; the caller closes the reader.

    Args:
        qp_search_readings: readings from one search for new QPs to the next.
    """
    paths = lab_paths(name)
    reader = _open(paths, qp_search_readings)
    if reader is None and not paths.folder.exists():
        raise no_such_lab(name)
    if reader is None:
        raise FabricError(f"lab {name!r} is not up", hint=f"bring it up: mrc-testbed up -n {name}")
    return reader


class LabWatch:
    """The labs of a set of names.

    Args:
        names: labs to follow, whether they are up yet or not; none: all labs of the machine.
        fault_kinds: see LabCollector.
    """

    def __init__(self, names: Sequence[str], fault_kinds: Iterable[str] = ()) -> None:
        self._fault_kinds = tuple(fault_kinds)
        self._names = tuple(names)
        self._paths = {name: lab_paths(name) for name in names}
        self._open: dict[str, tuple[StateMark, LabCollector]] = {}
        self._refused: dict[str, StateMark] = {}

    def names(self) -> tuple[str, ...]:
        return self._names or lab_folders()

    def collector(self, name: str) -> LabCollector | None:
        """Collector of the lab's present maps; None while it is not up or cannot be read."""
        paths = self._paths.get(name) or lab_paths(name)
        mark = state_mark(paths)
        if name in self._open:
            known, collector = self._open[name]
            if known == mark:
                return collector
            self.forget(name)
        if mark is None or self._refused.get(name) == mark:
            return None
        return self._try_open(name, paths, mark)

    def forget(self, name: str) -> None:
        """Closes the lab's maps; the next `collector` reopens them."""
        if name in self._open:
            self._open.pop(name)[1].close()

    def close(self) -> None:
        for name in list(self._open):
            self.forget(name)

    def _try_open(self, name: str, paths: LabPaths, mark: StateMark) -> LabCollector | None:
        try:
            reader = _open(paths)
        except FabricError as error:
            # reported once per state of the lab, not at each scrape
            _LOG.warning("lab %s cannot be read: %s", name, error)
            self._refused[name] = mark
            return None
        if reader is None:
            return None
        collector = LabCollector(reader, paths, self._fault_kinds)
        self._open[name] = (mark, collector)
        return collector


def _open(paths: LabPaths, qp_search_readings: int = QP_SEARCH_READINGS) -> LabReader | None:
    """The maps of a lab; None while it is not up."""
    state = read_state(paths)
    if state is None or state.phase is not Phase.UP:
        return None
    return LabReader(
        paths.lab,
        resolve_topology(state.spec),
        paths.fabric_pins,
        paths.pins / "nodes",
        qp_search_readings=qp_search_readings,
        hidden=paths.faults / HIDDEN_FILE,
    )


def state_mark(paths: LabPaths) -> StateMark | None:
    """The mark that distinguishes the lab's present state file from earlier ones; None without one."""
    try:
        status = paths.state_file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns
