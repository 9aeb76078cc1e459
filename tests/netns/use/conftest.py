"""A lab that the tests of this folder share, and nothing left of it afterwards."""

import os
from collections.abc import Callable, Iterator

import pytest
from launching import Launch
from own_lab import lab_up
from shared_lab import SPEC, await_ports_down, unhealthy_ports
from typed_command import Command
from waiting import poll_until

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults


@pytest.fixture(scope="package")
def shared_lab() -> Iterator[str]:
    """Name of a lab of spec SPEC that is up, under a state folder of its own."""
    with lab_up(SPEC, f"u{os.getpid()}") as name:
        yield name


@pytest.fixture(scope="module")
def lab_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of a lab that is up: one of the module's own LAB_SPEC, else the shared one, which it must leave
    healthy.
    """
    if hasattr(request.module, "LAB_SPEC"):
        with lab_up(request.module.LAB_SPEC, f"o{os.getpid()}") as name:
            yield name
    else:
        shared = request.getfixturevalue("shared_lab")
        yield shared
        assert lab.status(shared).problems == ()


@pytest.fixture
def live(lab_name: str) -> Iterator[Lab]:
    """The lab; a test must leave it without faults, QPs and registered memory."""
    with lab.attach(lab_name) as attached:
        yield attached
        assert unhealthy_ports(attached) == []
        await_ports_down(attached, set())
        for host in attached.clos.hosts():
            agent = attached.agent(host.name)
            assert agent.list_qps() == []
            region = agent.register_memory(attached.spec.nic.memory)
            agent.deregister_memory(region["r_key"])


@pytest.fixture
def faults(lab_name: str, live: Lab) -> Iterator[Callable[[], LabFaults]]:
    """Opens the lab's faults as a command does; whatever a test left injected is taken back."""
    opened: list[LabFaults] = []

    def open_faults() -> LabFaults:
        opened.append(LabFaults(lab_name))
        return opened[-1]

    yield open_faults
    open_faults().clear_all()
    for each in opened:
        each.close()


@pytest.fixture
def command(lab_name: str, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(lab_name, capsys)


@pytest.fixture
def launch(live: Lab, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Launch]:
    yield Launch(live.name, capfdbinary)
    agents = [live.agent(host.name) for host in live.clos.hosts()]
    poll_until(lambda: not any(agent.list_qps() for agent in agents), what="the end of the ranks' QPs")
