"""Names that programs on a host resolve."""

from mrc_testbed.fabric.management import hosts_text
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

CLOS = resolve_topology(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2))
OWN = """\
127.0.0.1 localhost
# 127.0.1.1 box
127.0.1.1 box.example.org box  # ours
::1 localhost box
127.0.0.2 boxer
"""


def addresses(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            found.setdefault(name, []).append(address)
    return found


def test_the_machine_s_name_is_the_host_s():
    found = addresses(hosts_text(OWN, "box", CLOS, "h2"))
    assert found["box"] == found["box.example.org"] == found["h2"] == ["10.77.0.3"]
    assert found["localhost"] == ["127.0.0.1", "::1"]
    assert found["boxer"] == ["127.0.0.2"]
    assert found["h0"] == ["10.77.0.1"]


def test_a_machine_whose_file_does_not_have_it():
    assert addresses(hosts_text("", "box", CLOS, "h1"))["box"] == ["10.77.0.2"]


def test_text_for_another_host_is_replaced():
    """A program on a host, whose name is the host's, may enter another one."""
    assert hosts_text(hosts_text(OWN, "box", CLOS, "h0"), "h0", CLOS, "h2") == hosts_text(
        OWN, "box", CLOS, "h2"
    )
