"""Requests name themselves when the kernel refuses them, and interfaces are born as asked for."""

from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from mrc_agents.bpf.libbpf import attach_xdp
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.data_plane import load_object
from mrc_testbed.fabric.namespace import unnamed_namespace
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, add_address, create_veth, mac_bytes, set_link_up
from mrc_testbed.fabric.paths import lab_paths


@pytest.fixture
def namespace_fd() -> Iterator[int]:
    """The test runs in a network namespace of its own."""
    with unnamed_namespace() as descriptor:
        yield descriptor


def _pair(namespace_fd: int) -> tuple[VethEnd, VethEnd]:
    near = VethEnd(namespace_fd, "near", 1000, mac_bytes("02:4d:52:00:00:00"))
    far = VethEnd(namespace_fd, "far", 1001, mac_bytes("02:4d:52:00:00:01"))
    return near, far


def test_the_first_refusal_is_named_with_the_kernels_reason(namespace_fd: int) -> None:
    near, far = _pair(namespace_fd)
    with RouteSocket() as route:
        route.perform([create_veth("a~b", near, far, 3000)])
        with pytest.raises(FabricError, match=r"^create link a~b: File exists .*\(errno 17\)$"):
            route.perform([set_link_up("near", 1000, is_up=True), create_veth("a~b", near, far, 3000)])


def test_requests_after_a_refused_one_are_carried_out(namespace_fd: int) -> None:
    near, far = _pair(namespace_fd)
    with RouteSocket() as route:
        with pytest.raises(FabricError, match=r"^set ghost up: No such device"):
            route.perform([set_link_up("ghost", 999, is_up=True), create_veth("a~b", near, far, 3000)])
        with pytest.raises(FabricError, match=r"^create link a~b: File exists"):
            route.perform([create_veth("a~b", near, far, 3000)])


def test_more_requests_than_one_message_holds_are_all_carried_out(namespace_fd: int) -> None:
    near, far = _pair(namespace_fd)
    with RouteSocket() as route:
        route.perform([create_veth("a~b", near, far, 3000)])
        addresses = [IPv6Address(f"fd00::{number:x}") for number in range(1, 1001)]
        route.perform([add_address("near", 1000, address, 64) for address in addresses])
    table = Path("/proc/thread-self/net/if_inet6").read_text()
    assert sum(line.split()[-1] == "near" for line in table.splitlines()) == 1000


def test_an_mtu_too_large_for_native_xdp_is_refused_with_the_reason(namespace_fd: int, lab_name: str) -> None:
    near, far = _pair(namespace_fd)
    with RouteSocket() as route:
        route.perform([create_veth("a~b", near, far, 3600)])
    with (
        load_object(lab_paths(lab_name), "forward.bpf.o") as loaded,
        pytest.raises(FabricError, match="cannot attach XDP to interface 1000"),
    ):
        attach_xdp(1000, loaded.program_fd("forward"))
