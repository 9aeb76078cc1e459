"""TCP of the host's own kernel: given a way to the fabric, and left to the kernel when it comes."""

import struct
from collections.abc import Iterator
from ipaddress import IPv6Address

import pytest
from nic_bench import NIC_OBJECT, NicBench, Verdict
from reference.network_header import parse_mac

from mrc_testbed.agents.bpf.libbpf import BpfObject, run_once
from mrc_testbed.fabric.data_plane import fabric_rodata
from mrc_testbed.topology.addressing import inner_address
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ecmp_hash import FlowKey, flow_hash, hash_share
from mrc_testbed.topology.path import path_carrier, path_usids
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.usid import pack_carrier

pytestmark = pytest.mark.root

HOST, NEIGHBOUR, DISTANT = 3, 2, 4
PLANE = 2
TCP, UDP, IPV6_IN_IPV6 = 6, 17, 41
ETHERNET_BYTES, IPV6_BYTES = 14, 40
NOT_ECT, ECT, CE = 0, 2, 3
FLOW_LABEL = 0x5A5A5


def fabric(forwarding: str) -> Clos:
    return Clos(
        TopologySpec.model_validate(
            {
                "forwarding": forwarding,
                "planes": 4,
                "t0": 3,
                "t1": 2,
                "hosts_per_t0": 2,
                "uplinks_per_pair": 2,
            }
        )
    )


@pytest.fixture(scope="module", params=["srv6", "ecmp"])
def bench(request: pytest.FixtureRequest) -> Iterator[tuple[NicBench, int]]:
    """A NIC, and the program of what its host's kernel sends."""
    with NicBench(fabric(request.param), HOST) as nic:
        for port in nic.ports:
            nic.port_table[port.peer_id].node_id = nic.clos.t0_of(HOST, port.plane).id
        shared = {name: nic.map_fd(name) for name in nic._object.map_names()}
        with BpfObject(
            NIC_OBJECT.with_name("stack.bpf.o"), rodata=fabric_rodata(nic.clos), reuse=shared
        ) as stack:
            yield nic, stack.program_fd("stack")


def ipv6(source: IPv6Address, target: IPv6Address, next_header: int, payload: bytes, ecn: int) -> bytes:
    first = 6 << 28 | ecn << 20 | FLOW_LABEL
    head = struct.pack("!IHBB", first, len(payload), next_header, 64)
    return head + source.packed + target.packed + payload


def segment(
    source: int, target: int, port: int, *, plane: int = PLANE, next_header: int = TCP, ecn: int = NOT_ECT
) -> bytes:
    """An IPv6 packet between two hosts' inner addresses."""
    ports = struct.pack("!HH", port, 4791) + bytes(range(100))
    return ipv6(inner_address(source, plane), inner_address(target, plane), next_header, ports, ecn)


def framed(packet: bytes) -> bytes:
    return bytes.fromhex("024d5401000202 4d54000002".replace(" ", "")) + b"\x86\xdd" + packet


@pytest.mark.parametrize("target", [NEIGHBOUR, DISTANT])
def test_what_the_kernel_sends_takes_the_way_that_a_hash_gives(
    bench: tuple[NicBench, int], target: int
) -> None:
    nic, program = bench
    clos = nic.clos
    uplinks = set()
    for port in range(40000, 40016):
        packet = segment(HOST, target, port)
        verdict, frame = run_once(program, framed(packet))
        assert verdict == Verdict.REDIRECT
        near = nic.ports[PLANE]
        assert frame[:6] == parse_mac(clos.mac(near.peer_id)).to_bytes(6, "big")
        assert frame[6:12] == parse_mac(near.mac).to_bytes(6, "big")
        if clos.spec.forwarding == "ecmp":
            assert frame[ETHERNET_BYTES:] == packet
            continue
        flow = FlowKey(inner_address(HOST, PLANE), inner_address(target, PLANE), FLOW_LABEL, port, 4791)
        t0 = clos.t0_of(HOST, PLANE)
        uplink = hash_share(flow_hash(clos.spec.hash_seed, t0.id, flow), clos.numbering.uplink_count)
        uplinks.add(uplink)
        carrier = path_carrier(clos, HOST, target, PLANE, 0 if target == NEIGHBOUR else uplink)
        outer = ipv6(inner_address(HOST, PLANE), carrier, IPV6_IN_IPV6, packet, NOT_ECT)
        assert frame[ETHERNET_BYTES:] == outer
    assert len(uplinks) > 1 or clos.spec.forwarding == "ecmp"


@pytest.mark.parametrize(
    "packet",
    [
        segment(HOST, DISTANT, 40000, next_header=UDP),
        segment(NEIGHBOUR, DISTANT, 40000),
        segment(HOST, DISTANT, 40000, plane=7),
        segment(HOST, 600, 40000),
        ipv6(inner_address(HOST, 0), inner_address(DISTANT, 1), TCP, bytes(40), NOT_ECT),
        ipv6(IPv6Address("fe80::1"), IPv6Address("ff02::2"), TCP, bytes(40), NOT_ECT),
        b"",
    ],
    ids=["UDP", "another host's", "no such plane", "no such host", "between planes", "link-local", "short"],
)
def test_anything_else_stays_in_the_host(bench: tuple[NicBench, int], packet: bytes) -> None:
    _, program = bench
    assert run_once(program, framed(packet))[0] == Verdict.DROP


@pytest.mark.parametrize(
    ("inner_ecn", "outer_ecn", "left"), [(NOT_ECT, CE, NOT_ECT), (ECT, ECT, ECT), (ECT, CE, CE)]
)
def test_what_comes_for_the_kernel_reaches_it_without_the_outer_header(
    bench: tuple[NicBench, int], inner_ecn: int, outer_ecn: int, left: int
) -> None:
    nic, _ = bench
    clos = nic.clos
    if clos.spec.forwarding == "ecmp":
        packet = segment(DISTANT, HOST, 40000, ecn=outer_ecn)
        outcome = nic.receive(framed(packet), PLANE)
        assert (outcome.verdict, outcome.frame[ETHERNET_BYTES:]) == (Verdict.PASS, packet)
        return
    # at the last hop the carrier has nothing left but the block and the host's own downlink
    carrier = pack_carrier(path_usids(clos, DISTANT, HOST, PLANE, 0)[-1:])
    packet = segment(DISTANT, HOST, 40000, ecn=inner_ecn)
    outcome = nic.receive(
        framed(ipv6(inner_address(DISTANT, PLANE), carrier, IPV6_IN_IPV6, packet, outer_ecn)), PLANE
    )
    assert outcome.verdict is Verdict.PASS
    assert outcome.frame[ETHERNET_BYTES:] == segment(DISTANT, HOST, 40000, ecn=left)
