"""Names of namespaces and containers tell lab and node apart, whatever hyphens the lab's name has."""

import pytest

from mrc_testbed.fabric.ownership import OwnedName, owned_name, parse_owned_name


@pytest.mark.parametrize("lab", ["default", "a", "my-lab", "h1", "x-h1", "p0-t0-1", "a-p0", "2"])
@pytest.mark.parametrize("node", ["h0", "h17", "p0-t0-0", "p3-t1-12"])
def test_a_name_is_read_back(lab: str, node: str) -> None:
    assert parse_owned_name(owned_name(lab, node)) == OwnedName(lab, node)


@pytest.mark.parametrize(
    "name",
    ["", "mrc-", "mrc-h0", "mrc-p0-t0-0", "mrc-lab", "mrc-lab-", "mrc-lab-p0-t3-0", "lab-h0", "xmrc-lab-h0"],
)
def test_a_foreign_name_is_nobodys(name: str) -> None:
    assert parse_owned_name(name) is None
