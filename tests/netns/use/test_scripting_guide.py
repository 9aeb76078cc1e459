"""The guide to scripting a NIC: every example runs as printed, and NIC objects do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import DEADLINE_S

from mrc_agents.nic.context import QpError
from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.fabric.live import Lab

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "scripting-a-nic.md"
PRINTED = ["immediate 7", " ns", "create_qp: mpr: 9; 1 to 8 is accepted"]
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("number", "printed"), list(enumerate(PRINTED)))
def test_example_of_the_guide(live: Lab, number: int, printed: str) -> None:
    assert '"default"' in EXAMPLES[number]
    script = EXAMPLES[number].replace('"default"', repr(live.name))
    command = [sys.executable, "-c", script]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert finished.returncode == 0, finished.stderr
    assert printed in finished.stdout


def test_no_example_is_left_out() -> None:
    assert len(EXAMPLES) == len(PRINTED)


def test_a_region_is_the_nics_memory(live: Lab) -> None:
    with live.nic("h0") as nic:
        region = nic.register_memory(8192)
        nic.verbs.fill(region.offset, 8192, seed=5)
        assert bytes(region.view) != bytes(8192)
        assert nic.verbs.verify(region.offset, 8192, seed=5) == 0
        region.view[100] ^= 0xFF
        assert nic.verbs.verify(region.offset, 8192, seed=5) == 1
        region.close()


def test_work_that_does_not_fit_its_regions(live: Lab) -> None:
    with live.nic("h0") as near, live.nic("h2") as far:
        source, target = near.register_memory(4096), far.register_memory(1000)
        qp = near.create_qp(far.host_index)
        with pytest.raises(UsageError, match="remote_at: 0; 4096 bytes do not fit a region of 1000"):
            qp.post_write(source, target.remote)
        with pytest.raises(UsageError, match="local_at: 4000; 100 bytes do not fit a region of 4096"):
            qp.post_write(source, target.remote, local_at=4000, length=100)


def test_ends_that_disagree_do_not_connect(live: Lab) -> None:
    with live.nic("h0") as near, live.nic("h2") as far:
        mine = near.create_qp(far.host_index, dynamic_mpr=1)
        theirs = far.create_qp(near.host_index)
        with pytest.raises(UsageError, match="dynamic_mpr: 1 here, 0 at the peer"):
            mine.connect(theirs.exchange())
        astray = far.create_qp(1, dynamic_mpr=1)
        astray_peer = dict(astray.exchange(), host=3)
        with pytest.raises(UsageError, match=r"host: 3; QP \d+ was created for 2"):
            mine.connect(astray_peer)


def test_each_end_uses_at_most_what_the_other_takes(live: Lab) -> None:
    with live.nic("h0") as near, live.nic("h2") as far:
        mine = near.create_qp(far.host_index, first_psn=77)
        theirs = far.create_qp(near.host_index, mpr_dest=2, max_wimm_dest=5)
        theirs.connect(mine.exchange())
        mine.connect(theirs.exchange())
        asked = mine.query()
        assert (asked["mpr"], asked["max_wimm"], asked["state"]) == (2, 5, "RTS")
        assert theirs.query()["peer_first_psn"] == 77


def test_failed_work_is_a_completion_that_check_raises(live: Lab) -> None:
    with live.nic("h0") as near, live.nic("h2") as far:
        source, target = near.register_memory(64), far.register_memory(64)
        mine, theirs = near.create_qp(far.host_index), far.create_qp(near.host_index)
        theirs.connect(mine.exchange())
        mine.connect(theirs.exchange())
        key = target.remote
        target.close()
        mine.post_write(source, key)
        done, failed = sorted(near.completions.wait(2), key=lambda entry: isinstance(entry, QpError))
        assert failed == QpError(mine, f"QP {mine.qpn} of h0 failed: remote_access")
        assert done.status == "remote_access"
        with pytest.raises(UsageError, match="ended with remote_access"):
            done.check()
        with pytest.raises(AgentError, match="reported 0 of 1 entries in time"):
            near.completions.wait(timeout_ns=100_000_000)
