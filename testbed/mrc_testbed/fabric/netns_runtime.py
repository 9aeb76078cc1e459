"""Runtime `netns`: a node is a network namespace and nothing else."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.namespace import create_namespace, delete_namespace
from mrc_testbed.fabric.ownership import find_namespaces, owned_name, parse_owned_name
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.process import ProcessIdentity, marked_environment, observe_process, start_detached
from mrc_testbed.fabric.runtime import Report
from mrc_testbed.fabric.state import ContainerRecord, RuntimeName

_START_TIMEOUT_SECONDS: Final = 60


class NetnsRuntime:
    """Nodes of one lab as bare network namespaces; needs no daemon."""

    name = RuntimeName.NETNS

    def __init__(self, paths: LabPaths) -> None:
        self._paths = paths

    def create_nodes(
        self, switches: Sequence[str], hosts: Sequence[str], report: Report
    ) -> Mapping[str, ContainerRecord]:
        """Makes one namespace per node."""
        for node in (*switches, *hosts):
            create_namespace(owned_name(self._paths.lab, node))
            report(1)
        return {}

    def delete_nodes(self, nodes: Sequence[str]) -> None:
        """Removes the namespaces; their interfaces go with the last process inside."""
        delete_namespaces(self._paths.lab, nodes)

    def find_nodes(self) -> tuple[str, ...]:
        """Nodes that have a namespace."""
        return nodes_with_namespace(self._paths.lab)

    def running_nodes(self) -> frozenset[str]:
        """All that exist: a namespace cannot stop."""
        return frozenset(self.find_nodes())

    def start_agents(self, configs: Mapping[str, Path]) -> Mapping[str, ProcessIdentity]:
        """Forks several agents off one interpreter; a single one is an interpreter of its own."""
        if len(configs) == 1:
            ((host, config),) = configs.items()
            command = _agent_command([config])
            return {host: start_detached(self._paths.lab, command, self._paths.agent_log(host))}
        agents = {}
        for host, pid in _start_agents(self._paths.lab, configs).items():
            identity = observe_process(pid)
            if identity is None:
                raise FabricError(
                    f"the agent of {host} ended at once", hint=f"see {self._paths.agent_log(host)}"
                )
            agents[host] = identity
        return agents


def _agent_command(configs: Iterable[Path]) -> list[str]:
    command = [sys.executable, "-m", "mrc_agents.nic"]
    for config in configs:
        command += ["--config", str(config)]
    return command


def _start_agents(lab: str, configs: Mapping[str, Path]) -> dict[str, int]:
    """Pids of the agents by host; they listen."""
    try:
        starter = subprocess.run(
            _agent_command(configs.values()),
            env=marked_environment(lab),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_TIMEOUT_SECONDS,
            start_new_session=True,  # Ctrl-C is for us, who take the agents down
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FabricError(f"the NIC agents do not listen after {_START_TIMEOUT_SECONDS} s") from error
    if starter.returncode:
        raise FabricError(f"the NIC agents do not start: {starter.stderr.strip()}")
    pids: dict[str, int] = json.loads(starter.stdout)
    return pids


def delete_namespaces(lab: str, nodes: Sequence[str]) -> None:
    failures = []
    for node in nodes:
        try:
            delete_namespace(owned_name(lab, node))
        except FabricError as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup("namespaces could not be removed", failures)


def nodes_with_namespace(lab: str) -> tuple[str, ...]:
    """Nodes of *lab* that have a named network namespace, sorted."""
    names = (parse_owned_name(name) for name in find_namespaces(lab))
    return tuple(sorted(own.node for own in names if own))
