"""Programs with verbs code of their own use the NIC of a host: UCX, and the tests of rdma-core."""

import os
import re
from typing import Final

import pytest
from rdma_program import finish, said_by_both, start

from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.rdma import RdmaTransport
from mrc_testbed.topology.spec import NicSpec, TopologySpec

pytestmark = [pytest.mark.root, pytest.mark.slow("UCX starts twelve times")]

LAB_SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2, nic=NicSpec(memory=128 << 20))
"""Room for what UCX registers before its first message."""
TRANSPORTS = [each.value for each in RdmaTransport]
UCX_PERFTEST: Final = ("env", "UCX_RC_RX_QUEUE_LEN=512", "ucx_perftest", "-p", "18515")
"""A shorter queue: UCX registers 8 KiB for each of its receives."""


@pytest.mark.ci
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "test",
    [
        ("-t", "tag_lat", "-n", "200"),
        ("-t", "tag_bw", "-n", "1000", "-s", "64"),
        ("-t", "tag_bw", "-n", "20", "-s", "1048576"),
    ],
)
def test_messages_of_ucx(live: Lab, test: tuple[str, ...], transport: str) -> None:
    said = said_by_both(live, *UCX_PERFTEST, *test, transport=transport)
    assert re.search(r"^Final: ", said, re.MULTILINE), said


SUITE: Final = """
import sys, unittest
sys.path.insert(0, sys.argv[1])
from args_parser import parser
from importlib.machinery import SourceFileLoader
tests = SourceFileLoader("tests", sys.argv[1] + "/__init__.py").load_module()
sys.argv[1:] = ["--dev", "mrc0"]
parser.parse_args()

class Outcomes(unittest.TextTestResult):
    def stopTest(self, test):
        super().stopTest(test)
        named = [each for each in (*self.failures, *self.errors) if each[0] is test]
        skipped = [reason for each, reason in self.skipped if each is test]
        outcome = "failed" if named else f"skipped {skipped[0]}" if skipped else "passed"
        print(test.id().removeprefix("tests."), outcome, flush=True)

suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
unittest.TextTestRunner(resultclass=Outcomes).run(suite)
"""
"""Runs the tests of a folder, and prints what became of each."""

RDMA_CORE_PASSES: Final = {
    "test_cq.CQAPITest.test_create_cq",
    "test_cq.CQAPITest.test_create_cq_bad_flow",
    "test_cq.CQAPITest.test_create_cq_with_comp_channel",
    "test_cq_events.CqEventsTestCase.test_cq_events_rc",
    "test_cqex.CQEXAPITest.test_create_cq_ex",
    "test_device.DeviceTest.test_dev_list",
    "test_device.DeviceTest.test_open_dev",
    "test_device.DeviceTest.test_phys_port_cnt_ex",
    "test_device.DeviceTest.test_query_device",
    "test_device.DeviceTest.test_query_device_ex",
    "test_device.DeviceTest.test_query_gid",
    "test_device.DeviceTest.test_query_gid_ex",
    "test_device.DeviceTest.test_query_gid_table",
    "test_device.DeviceTest.test_query_gid_table_bad_flow",
    "test_device.DeviceTest.test_query_pkey",
    "test_device.DeviceTest.test_query_port",
    "test_device.DeviceTest.test_query_port_bad_flow",
    "test_fork.ForkAPITest.test_is_fork_initialized",
    "test_mr.MRTest.test_reg_mr_bad_flags",
    "test_pd.PDTest.test_alloc_pd",
    "test_pd.PDTest.test_dealloc_pd",
    "test_pd.PDTest.test_destroy_pd_twice",
    "test_pd.PDTest.test_multiple_pd_creation",
    "test_qp.QPTest.test_create_rc_qp_no_attr",
    "test_qp.QPTest.test_create_rc_qp_with_attr",
    "test_qp.QPTest.test_create_uc_qp_no_attr",
    "test_qp.QPTest.test_create_uc_qp_with_attr",
    "test_relaxed_ordering.RoTestCase.test_ro_rc_traffic",
}
"""The tests of rdma-core 44 that have to pass. None fails. The others skip themselves, as the device has no
atomics, UD, XRC, raw packets, extended CQs and QPs, device memory, memory windows, on-demand paging, parent
domains and rdma_cm.
"""
RDMA_CORE_DRAWN: Final = {
    "test_qp.QPTest.test_create_rc_qp_ex_no_attr",
    "test_qp.QPTest.test_create_rc_qp_ex_with_attr",
    "test_qp.QPTest.test_create_uc_qp_ex_no_attr",
    "test_qp.QPTest.test_create_uc_qp_ex_with_attr",
    "test_qp.QPTest.test_query_rc_qp",
    "test_qp.QPTest.test_query_uc_qp",
}
"""These draw creation flags at random: they pass without any, and skip with some, which it refuses."""


@pytest.mark.skipif("RDMA_CORE_TESTS" not in os.environ, reason="RDMA_CORE_TESTS names no folder")
def test_tests_of_rdma_core(live: Lab) -> None:
    folder = os.environ["RDMA_CORE_TESTS"]
    status, said, complained = finish(start(live, "h0", "python3", "-c", SUITE, folder))
    outcomes = dict(line.split(" ", 1) for line in said.splitlines() if line.startswith("test_"))
    assert status == 0, complained
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    passed = {name for name, outcome in outcomes.items() if outcome == "passed"}
    assert (failed, passed - RDMA_CORE_DRAWN) == (set(), RDMA_CORE_PASSES), complained
