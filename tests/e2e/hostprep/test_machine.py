"""`setup host` and `setup image` on this machine, which `make test` has prepared."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mrc_testbed.hostprep import playbook
from mrc_testbed.hostprep.image import ImageState, build_image, image_name, observe_image
from mrc_testbed.hostprep.playbook import prepare_host, prepare_observability

BUILD_PACKAGES = ("clang", "libbpf-dev", "libibverbs-dev", "linux-libc-dev")
NO_IMAGE = "localhost:1/none:none"
"""Image of a registry that never answers."""


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.slow("two runs of a playbook")
@pytest.mark.ci
@pytest.mark.root
def test_preparing_a_prepared_machine_changes_nothing() -> None:
    assert prepare_host(with_test_tools=True).changes == ()
    assert prepare_host(with_test_tools=True, check=True).changes == ()


@pytest.mark.slow("runs a playbook")
@pytest.mark.ci
@pytest.mark.root
@pytest.mark.parametrize(("is_clone", "compilers"), [(False, ()), (True, BUILD_PACKAGES)])
def test_only_a_clone_needs_compilers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_clone: bool, compilers: tuple[str, ...]
) -> None:
    nothing_is_installed = tmp_path / "dpkg-query"
    nothing_is_installed.write_text("#!/bin/sh\n")
    nothing_is_installed.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(playbook, "IS_CLONE", is_clone)
    steps: list[str] = []
    prepare_host(check=True, progress=steps.append)
    wanted = ("iproute2", "libbpf1", "libibverbs1", *compilers)
    assert f"Install packages: {' '.join(wanted)}" in steps


@pytest.mark.slow("a playbook twice; the other playbook is run too")
@pytest.mark.ci
@pytest.mark.root
def test_preparing_observability_changes_nothing_twice_and_needs_no_registry() -> None:
    prepare_observability(NO_IMAGE)
    assert prepare_observability(NO_IMAGE).changes == ()
    assert shutil.which("prometheus")


@pytest.mark.docker
def test_image_is_built_once_and_runs_the_agent_without_privileges() -> None:
    build_image()
    assert observe_image() is ImageState.CURRENT
    again = build_image()
    assert (again.changes, again.log) == ((), None)
    load_libbpf = "import mrc_agents.bpf.libbpf as b; b.library(); print('ready')"
    answer = docker(
        "run", "--rm", "--network=none", "--cap-drop=ALL", image_name(), "python3", "-c", load_libbpf
    )
    assert answer == "ready\n"


@pytest.mark.slow("builds the image again")
@pytest.mark.ci
@pytest.mark.docker
def test_an_image_from_other_sources_is_stale_and_check_says_that_it_would_be_built() -> None:
    build_image()
    container = docker("create", image_name()).strip()
    docker("commit", "--change", "LABEL mrc-testbed.content=other", container, image_name())
    docker("rm", container)
    assert observe_image() is ImageState.STALE
    assert f"Build {image_name()}" in build_image(check=True).changes
    assert observe_image() is ImageState.STALE
    build_image()
    assert observe_image() is ImageState.CURRENT
