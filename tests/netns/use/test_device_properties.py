"""Programs look at the device before they use it: its properties, as pyverbs sees them."""

import json
from typing import Any

from rdma_program import NOBODY, finish, start

from mrc_testbed.fabric.live import Lab

LOOK = """
import json, sys
from pyverbs.device import Context, get_device_list
from pyverbs.fork import fork_init, is_fork_initialized
from pyverbs.pyverbs_error import PyverbsRDMAError

def size_refused(entries):
    try:
        return len(context.query_gid_table(entries))
    except PyverbsRDMAError as error:
        return error.error_code

def of_network(guid):  # pyverbs turns that of the device alone
    return int.from_bytes(guid.to_bytes(8, sys.byteorder), "big")

(device,) = get_device_list()
context = Context(name=device.name.decode())
attributes, extended = context.query_device(), context.query_device_ex()
before = is_fork_initialized()
fork_init()
print(json.dumps({
    "guids": [device.guid, of_network(attributes.node_guid), of_network(attributes.sys_image_guid)],
    "vendor": attributes.vendor_id,
    "ports": [attributes.phys_port_cnt, extended.phys_port_cnt_ex],
    "gids": [size_refused(entries) for entries in (4, 3, 0)],
    "fork": [before, is_fork_initialized()],
}))
"""


def look(live: Lab, host: str) -> dict[str, Any]:
    status, said, complained = finish(start(live, host, *NOBODY, "python3", "-c", LOOK))
    assert status == 0, complained
    seen: dict[str, Any] = json.loads(said)
    return seen


def test_properties_of_a_device(live: Lab) -> None:
    seen = look(live, "h0")
    vendor = seen["vendor"]
    assert vendor >> 16 & 2  # locally administered: no manufacturer's
    assert seen["ports"] == [1, 1]
    assert (seen["gids"][0], [abs(each) for each in seen["gids"][1:]]) == (4, [22, 22])
    assert seen["fork"] == [0, 1]


def test_each_host_has_guids_of_its_own(live: Lab) -> None:
    guids = [set(look(live, host)["guids"]) for host in ("h0", "h3")]
    assert [len(each) for each in guids] == [1, 1]
    assert guids[0] != guids[1]
