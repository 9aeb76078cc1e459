"""Labs that come and go, as a machine of CI sees them: nothing of them stays."""

import os
from pathlib import Path

import pytest
from bpf_objects import BpfObjects, living, objects_of
from own_lab import assert_nothing_left, own_state_dir
from waiting import poll_until

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import RuntimeName
from mrc_testbed.hostprep.image import build_image
from mrc_testbed.topology.spec import TopologySpec

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]

SHAPED = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1, port_rate=100_000_000)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("runtime", "cycles"),
    [(RuntimeName.NETNS, 40), pytest.param(RuntimeName.DOCKER, 8, marks=pytest.mark.docker)],
)
def test_labs_one_after_the_other_leave_nothing(
    runtime: RuntimeName, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime is RuntimeName.DOCKER:
        build_image()
    name = f"cycle{os.getpid()}"
    engine = os.environ.get("DOCKER_HOST")
    made: BpfObjects = frozenset()
    open_after: list[int] = []
    with own_state_dir() as state:
        if runtime is RuntimeName.DOCKER and engine is not None:
            monkeypatch.setenv("DOCKER_HOST", engine)
        for _ in range(cycles):
            assert lab.up(SHAPED, name=name, runtime=runtime).is_healthy
            made |= objects_of(lab_paths(name).pins)
            lab.down(name)
            assert_nothing_left(name)
            assert not [line for line in Path("/proc/self/mounts").read_text().splitlines() if name in line]
            assert sorted(path.name for path in state.iterdir()) == ["bpffs", "bpffs.lock"]
            open_after.append(descriptors())
        assert open_after[-1] == open_after[0]
    # The kernel frees programs and maps some time after their last reference has gone.
    poll_until(lambda: not living(made), what="the end of all programs and maps")
