"""The seccomp profile of containers: it refuses all that Docker's default profile refuses, but for bpf(2)."""

import json
import re
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, Final

import docker_profile
import pytest

PROFILE: Final = json.loads(resources.files("mrc_testbed.fabric").joinpath("seccomp.json").read_text())
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
BPF_COMMANDS: Final = {1, 2, 7, 10, 15}
"""BPF_MAP_LOOKUP_ELEM, _MAP_UPDATE_ELEM, _OBJ_GET, _PROG_TEST_RUN, _OBJ_GET_INFO_BY_FD."""
HIGH_BIT: Final = 1 << 32
COMPARISONS: Final[Mapping[str, Callable[[int, Mapping[str, int]], bool]]] = {
    "SCMP_CMP_EQ": lambda value, rule: value == rule["value"],
    "SCMP_CMP_MASKED_EQ": lambda value, rule: value & rule["value"] == rule["valueTwo"],
}


def verdict(name: str, *arguments: int) -> str:
    """The profile's action for a system call: libseccomp takes the rule that matches, else the default."""
    for rule in PROFILE["syscalls"]:
        if name in rule["names"] and all(
            COMPARISONS[argument["op"]](arguments[argument["index"]], argument)
            for argument in rule.get("args", ())
        ):
            return str(rule["action"])
    return str(PROFILE["defaultAction"])


def is_allowed(name: str, *arguments: int) -> bool:
    return verdict(name, *arguments) == "SCMP_ACT_ALLOW"


def test_what_is_not_named_is_refused() -> None:
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"
    assert not is_allowed("a_system_call_of_a_later_kernel")


def test_no_system_call_is_allowed_that_docker_refuses() -> None:
    named: set[str] = set()
    conditional: set[str] = set()
    for rule in PROFILE["syscalls"]:
        if rule["action"] == "SCMP_ACT_ALLOW":
            (conditional if rule.get("args") else named).update(rule["names"])
    assert named - docker_profile.ALLOWED == set()
    assert conditional == {"socket", "clone", "bpf"}


@pytest.mark.parametrize("name", ["ptrace", "process_vm_readv", "name_to_handle_at", "io_setup"])
def test_more_is_refused_than_by_docker(name: str) -> None:
    assert not is_allowed(name, 0)


def test_sockets_are_of_four_families() -> None:
    families = {family for family in range(256) if is_allowed("socket", family)}
    assert families == {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}
    assert families & docker_profile.SOCKET_FAMILIES_REFUSED == set()


def test_processes_are_cloned_without_namespaces() -> None:
    assert is_allowed("clone", 0x1200011)
    for bit in range(64):
        if docker_profile.CLONE_FLAGS_REFUSED >> bit & 1:
            assert not is_allowed("clone", 0x1200011 | 1 << bit)


def test_clone3_makes_the_c_library_fall_back() -> None:
    (rule,) = (rule for rule in PROFILE["syscalls"] if "clone3" in rule["names"])
    assert (rule["action"], rule["errnoRet"]) == ("SCMP_ACT_ERRNO", docker_profile.ERRNO_OF_CLONE3)


def test_bpf_opens_reads_writes_and_runs_what_exists() -> None:
    assert {command for command in range(256) if is_allowed("bpf", command)} == BPF_COMMANDS
    assert not any(is_allowed("bpf", HIGH_BIT | command) for command in range(256))


def test_every_comparison_is_understood_here() -> None:
    used: list[dict[str, Any]] = [
        argument for rule in PROFILE["syscalls"] for argument in rule.get("args", ())
    ]
    assert {argument["op"] for argument in used} <= COMPARISONS.keys()
    names = [name for rule in PROFILE["syscalls"] for name in rule["names"]]
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)
    assert len({name for name in names if names.count(name) > 1} - {"socket", "bpf"}) == 0
