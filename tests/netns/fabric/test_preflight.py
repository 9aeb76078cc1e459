"""Missing requirements of the machine are reported before anything is changed, each with its remedy."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from lab_leftovers import SMALL
from refused_program import objects_with_a_refused_one

from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.fabric import data_plane, lab, preflight
from mrc_testbed.fabric.state import RuntimeName
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import NicSpec, TopologySpec

CHECK_MACHINE = """
from mrc_testbed.errors import PreflightError
from mrc_testbed.fabric import preflight
try:
    preflight.require(preflight.machine_checks())
except PreflightError as error:
    print(error.exit_code, error.message, error.hint, sep="|")
"""


def test_this_machine_can_run_the_default_lab() -> None:
    unmet = [check for check in preflight.doctor_checks() if not check.is_met]
    # The tests' environment names a Docker Engine that does not exist.
    assert [check.what for check in unmet] == ["Docker Engine with the node image (for runtime docker only)"]
    assert unmet[0].fix


def test_doctor_loads_every_program_and_keeps_what_the_verifier_said(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        data_plane, "OBJECTS_DIR", objects_with_a_refused_one(tmp_path, "nic/bpf/rc/rc.bpf.c")
    )
    trial = next(check for check in preflight.doctor_checks() if check.what.startswith("native XDP"))
    log = state_dir / "doctor-verifier.log"
    assert not trial.is_met
    assert trial.found.startswith("the kernel refused rc.bpf.o: ")
    assert trial.found.endswith(f"the verifier's log is {log}")
    assert "compile with the distribution's clang" in trial.fix
    assert "invalid access to packet" in log.read_text()
    log.unlink()


def test_without_root_the_first_thing_said_is_sudo() -> None:
    # Root without capabilities: another user could not read a clone below /root.
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", CHECK_MACHINE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == (
        "3|root privileges: lacking CAP_NET_ADMIN, CAP_SYS_ADMIN"
        f"|run it as root: sudo {Path(sys.executable).parent / 'mrc-testbed'} ...\n"
    )


def test_a_lab_that_does_not_fit_the_memory_is_refused_before_anything_is_made(
    lab_name: str, state_dir: Path
) -> None:
    spec = TopologySpec(planes=1, t0=8, t1=1, hosts_per_t0=128, nic=NicSpec(memory=4 << 30))
    with pytest.raises(PreflightError, match=r"memory: .*MiB available, about .*MiB needed"):
        lab.up(spec, name=lab_name, runtime="netns")
    assert not (state_dir / lab_name).exists()


def test_the_soft_limit_of_open_files_is_raised_by_us() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        checks = preflight.lab_checks(Clos(SMALL), has_containers=False)
        assert next(check for check in checks if check.what == "open files").is_met
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_missing_bpf_objects_name_the_command_that_builds_them(
    lab_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (data_plane, preflight):
        monkeypatch.setattr(module, "OBJECTS_DIR", tmp_path)
    with pytest.raises(PreflightError, match=f"BPF objects: missing: {tmp_path}/forward.bpf.o, ") as caught:
        lab.up(SMALL, name=lab_name, runtime="netns")
    assert caught.value.hint == "make setup"


def test_an_unknown_runtime_is_refused_with_the_nearest_name(lab_name: str) -> None:
    with pytest.raises(UsageError, match="unknown runtime 'dokcer'; did you mean 'docker'"):
        lab.up(SMALL, name=lab_name, runtime="dokcer")


def test_docker_asked_for_and_absent_is_refused(lab_name: str, state_dir: Path) -> None:
    with pytest.raises(PreflightError, match="no Docker Engine listens at unix://") as caught:
        lab.up(SMALL, name=lab_name, runtime="docker")
    assert caught.value.hint == "start it (systemctl start docker), or use --runtime netns"
    assert not (state_dir / lab_name).exists()


def test_without_docker_the_runtime_is_netns_and_up_says_why(lab_name: str) -> None:
    status = lab.up(SMALL, name=lab_name)
    assert (status.runtime, status.note) == (RuntimeName.NETNS, "runtime netns: there is no Docker Engine")
    lab.down(lab_name)


@pytest.mark.parametrize("name", ["", "Lab", "a_b", "-a", "a-", "a" * 33, "bpffs", "../x"])
def test_a_name_unfit_for_a_lab_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a lab"):
        lab.up(SMALL, name=name, runtime="netns")


def test_a_state_folder_too_deep_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", "/run/" + "deep/" * 30)
    with pytest.raises(UsageError, match=r"sockets' paths [0-9]+ bytes long, 107 are possible"):
        lab.up(SMALL, runtime="netns")
