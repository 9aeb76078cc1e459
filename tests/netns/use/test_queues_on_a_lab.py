"""`inspect --queues` on a shaped lab: what it shows, what it changes, and that traffic goes on meanwhile."""

import pytest
from typed_command import Command

from mrc_testbed.topology.queue_spec import EcnSpec, QueueSpec, TrimSpec
from mrc_testbed.topology.spec import NicSpec, TopologySpec

LAB_SPEC = TopologySpec(
    planes=2,
    t0=2,
    t1=1,
    hosts_per_t0=2,
    port_rate=50_000_000,
    queue=QueueSpec(ecn=EcnSpec(max=20_000), trim=TrimSpec(threshold=20_000)),
    nic=NicSpec(qps_max=8),
)


@pytest.mark.slow("a transfer in each of the modes")
@pytest.mark.ci
def test_every_mode_of_drainer_and_link_carries_a_transfer_byte_for_byte(command: Command) -> None:
    for drainer, links in (("eco", "direct"), ("precise", "veth"), ("auto", "direct"), ("auto", "veth")):
        shown = command.json("inspect", "--queues", "--drainer", drainer, "--links", links)
        assert shown["drainer"] == drainer
        assert shown["direct_port_count"] == (shown["port_count"] if links == "direct" else 0)
        command(
            "bench", "write-bw", "h0", "h2", "--size", "64KiB", "-i", "40"
        )  # wrong bytes would be status 1


def test_one_link_is_changed_alone(command: Command) -> None:
    shown = command.json("inspect", "--queues", "--links", "direct", "--link", "p0-t0-0:*")
    assert shown["direct_port_count"] == 2 * 3
    assert command.json("inspect", "--queues", "--links", "veth")["direct_port_count"] == 0


def test_status_and_the_table_say_how_queues_are_served(command: Command) -> None:
    assert "auto drainer, veth links" in command("status")
    table = command("inspect", "--queues")
    assert "auto drainer, veth links" in table
    assert "trimmed" in table


def test_a_link_without_a_mode_is_refused(command: Command) -> None:
    command("inspect", "--queues", "--link", "h0:0", status=2)
    assert "--link needs --links" in command.stderr
