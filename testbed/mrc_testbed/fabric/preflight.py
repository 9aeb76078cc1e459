"""The requirements of a lab, checked before anything is changed; `doctor` prints the same checks.

A check that fails says what to do. Limits that depend on the size of a lab are checked against that lab.
"""

import ctypes
import os
import re
import resource
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mrc_agents.abi import QueueLimit
from mrc_agents.bpf.libbpf import attach_xdp, library, run_once
from mrc_agents.bpf.virtual import VirtualRuntime
from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.device import available_bytes
from mrc_agents.objects import OBJECTS_DIR, how_to_build
from mrc_testbed.errors import FabricError, PreflightError, TestbedError
from mrc_testbed.fabric.agent_process import DRAINER
from mrc_testbed.fabric.data_plane import fabric_rodata, forward_program, load_forward, load_object
from mrc_testbed.fabric.namespace import unnamed_namespace
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, create_veth, mac_bytes
from mrc_testbed.fabric.paths import DEFAULT_LAB, LabPaths, lab_paths, state_root
from mrc_testbed.fabric.runtime_choice import choose_runtime
from mrc_testbed.fabric.state import RuntimeName
from mrc_testbed.installation import as_root
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex, mac
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import check_live, resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import format_size_bytes

PROGRAM_OBJECTS: Final = ("forward.bpf.o", "emit.bpf.o", "nic.bpf.o", "rc.bpf.o", "load.bpf.o")
"""Programs that labs and faults of this machine load, the switch first."""

_SPECS: Final = (TopologySpec(), TopologySpec(port_rate=100_000_000))

KERNEL_MIN: Final = (6, 1)

_CAPABILITIES: Final = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
_ALL_USERS: Final = ["0", "0", "4294967295"]
"""Content of /proc/self/uid_map outside of all user namespaces but the first."""

_CLOCK_OFF_NS: Final = 1_000_000
_SPARE_DESCRIPTORS: Final = 256
_AGENT_BYTES: Final = 60 << 20
_QP_BYTES: Final = 100 << 10
_LINK_BYTES: Final = 96 << 10
_CONTAINER_BYTES: Final = 8 << 20
_TASKS_PER_CONTAINER: Final = 16  # the container's shim is a program in Go with as many threads

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a lab needs."""

    what: str  # the requirement
    is_met: bool  # whether the machine meets it
    found: str  # what the machine has
    fix: str  # what to do if it is not met
    is_optional: bool = False  # labs can do without it


def machine_checks() -> tuple[Check, ...]:
    """The checks for every lab, the quick ones only."""
    checks = (
        _capabilities(),
        _kernel(),
        _ipv6(),
        _bpf_file_system(),
        _attempt("libbpf 1.0 or newer", library),
        _built([OBJECTS_DIR / name for name in PROGRAM_OBJECTS], "BPF objects"),
        _inotify(),
    )
    return (*checks, clock_check()) if all(check.is_met for check in checks) else checks


def clock_check() -> Check:
    """Check that BPF programs, whose times are compared with ours, read the clock that we read."""
    what = "BPF's clock is CLOCK_MONOTONIC"
    before_ns = monotonic_ns()
    try:
        kernel = kernel_ns()
    except FabricError as error:
        return Check(what, False, error.message, error.hint or f"run it as root: {as_root('...')}")
    off_ns = max(before_ns - kernel, kernel - monotonic_ns(), 0)
    found = "the same" if off_ns <= _CLOCK_OFF_NS else f"{off_ns / 1e6:,.0f} ms off: this is a time namespace"
    return Check(what, off_ns <= _CLOCK_OFF_NS, found, "run it outside of the time namespace")


def lab_checks(clos: Clos, *, has_containers: bool) -> tuple[Check, ...]:
    """Checks of what a lab of this size and kind needs beyond `machine_checks`."""
    check_live(clos.spec)
    per_node = _TASKS_PER_CONTAINER if has_containers else 0
    checks = [
        _open_files(clos),
        _number("network namespaces", "sys/user/max_net_namespaces", "user.max_net_namespaces", _nodes(clos)),
        _number(
            "process numbers",
            "sys/kernel/pid_max",
            "kernel.pid_max",
            clos.numbering.host_count * 2 + _nodes(clos) * per_node,
        ),
        _memory(clos, has_containers=has_containers),
    ]
    if clos.spec.is_shaped:
        checks += [_built([DRAINER], "queue drainer"), _cores(clos)]
    return tuple(checks)


def doctor_checks() -> tuple[Check, ...]:
    """All checks for the default lab, also the slow ones that load and attach the data plane for a moment."""
    needed = (*machine_checks(), *lab_checks(resolve_topology(TopologySpec()), has_containers=False))
    if all(check.is_met for check in needed):
        needed = (*needed, _attempt("native XDP on veth, BPF accepted by the verifier", check_data_plane))
    return (*needed, virtual_time_check(), _docker())


def require(checks: Iterable[Check]) -> None:
    """Raises PreflightError naming every check that is not met, with its fix."""
    unmet = [check for check in checks if not check.is_met]
    if not unmet:
        return
    lines = [f"{check.what}: {check.found}" for check in unmet]
    raise PreflightError("\n".join(lines), hint="; ".join(dict.fromkeys(check.fix for check in unmet)))


def _capabilities() -> Check:
    status = (_PROC / "self/status").read_text()
    if (_PROC / "self/uid_map").read_text().split() != _ALL_USERS:
        found = "capabilities hold only inside this user namespace"
        return Check("root privileges", False, found, "run it as root of the machine itself")
    effective = int(re.findall(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)[0], 16)
    missing = [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    found = f"lacking {', '.join(missing)}" if missing else "all there"
    return Check("root privileges", not missing, found, f"run it as root: {as_root('...')}")


def _kernel() -> Check:
    release = os.uname().release
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    wanted = ".".join(map(str, KERNEL_MIN))
    return Check(
        f"Linux {wanted} or newer", version >= KERNEL_MIN, release, f"boot a kernel of {wanted} or newer"
    )


def _ipv6() -> Check:
    is_there = (_PROC / "sys/net/ipv6").is_dir()
    return Check("IPv6", is_there, "enabled" if is_there else "disabled", "boot without ipv6.disable=1")


def _bpf_file_system() -> Check:
    is_there = "\tbpf\n" in (_PROC / "filesystems").read_text()
    found = "known to the kernel" if is_there else "unknown to the kernel"
    return Check("BPF file system", is_there, found, "boot a kernel with CONFIG_BPF_SYSCALL")


def _built(files: list[Path], what: str) -> Check:
    missing = [str(file) for file in files if not file.is_file()]
    found = f"missing: {', '.join(missing)}" if missing else "built"
    return Check(what, not missing, found, how_to_build("setup"))


def _inotify() -> Check:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC)
    if descriptor >= 0:
        os.close(descriptor)
        return Check("inotify", True, "available", "")
    found = os.strerror(ctypes.get_errno())
    return Check("inotify", False, found, "raise it: sysctl fs.inotify.max_user_instances=1024")


def _cores(clos: Clos) -> Check:
    wanted, found = clos.spec.queue.drainers, len(os.sched_getaffinity(0))
    return Check(
        "cores for queue drainers",
        found >= wanted,
        f"{found} there, {wanted} needed",
        f"ask for fewer: queue.drainers: {found}",
    )


def _open_files(clos: Clos) -> Check:
    """Raises the soft limit of this process itself: only the hard one needs the user."""
    wanted = _nodes(clos) + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return Check("open files", True, f"{wanted} possible", "")
    return Check(
        "open files", False, f"{hard} allowed, {wanted} needed", f"raise the limit: ulimit -Hn {wanted}"
    )


def _number(what: str, proc_file: str, sysctl: str, wanted: int) -> Check:
    found = int((_PROC / proc_file).read_text())
    return Check(
        what, found >= wanted, f"{found} allowed, {wanted} needed", f"raise it: sysctl {sysctl}={2 * wanted}"
    )


def _memory(clos: Clos, *, has_containers: bool) -> Check:
    nic = clos.spec.nic
    wanted_bytes = (
        clos.numbering.host_count * (nic.memory + nic.qps_max * _QP_BYTES + _AGENT_BYTES)
        + clos.numbering.link_count * _LINK_BYTES
        + clos.spec.is_shaped * QueueLimit.FRAMES_MAX * QueueLimit.FRAME_BYTES
        + _nodes(clos) * (_CONTAINER_BYTES if has_containers else 0)
    )
    available = available_bytes()
    found = f"{_mebibytes(available)} available, about {_mebibytes(wanted_bytes)} needed"
    return Check("memory", available >= wanted_bytes, found, "make the lab or nic.memory smaller")


def _mebibytes(size_bytes: int) -> str:
    return format_size_bytes((size_bytes >> 20) << 20)


def virtual_time_check() -> Check:
    return replace(_attempt("virtual time (--virtual, without root)", VirtualRuntime), is_optional=True)


def _docker() -> Check:
    what = "Docker Engine with the node image (for runtime docker only)"
    found = _attempt(what, lambda: choose_runtime(lab_paths(DEFAULT_LAB), RuntimeName.DOCKER))
    return replace(found, is_optional=True)


def _attempt(what: str, work: Callable[[], object]) -> Check:
    try:
        work()
    except TestbedError as error:
        return Check(what, False, error.message, error.hint or "")
    return Check(what, True, "works", "")


def _nodes(clos: Clos) -> int:
    return clos.numbering.node_count


def check_data_plane() -> None:
    """Loads every program, as labs without and with a port rate do, and attaches the switch to a veth pair;
    then forgets them.
    """
    root = state_root()
    root.mkdir(parents=True, exist_ok=True)
    paths = LabPaths(root, "doctor")
    for spec in _SPECS:
        clos = resolve_topology(spec)
        rodata = fabric_rodata(clos)
        for name in PROGRAM_OBJECTS[1:]:
            load_object(paths, name, rodata=rodata).close()
        with load_forward(paths, clos) as loaded:
            _attach(loaded.program_fd(forward_program(clos)))


def _attach(program_fd: int) -> None:
    with unnamed_namespace() as namespace_fd:
        near, far = (
            VethEnd(namespace_fd, f"trial{port_id}", ifindex(port_id), mac_bytes(mac(port_id)))
            for port_id in range(2)
        )
        with RouteSocket() as route:
            route.perform([create_veth("of the trial", near, far, INTERFACE_MTU_BYTES)])
        for end in (near, far):
            attach_xdp(end.ifindex, program_fd)


_PROGRAM_TYPE_XDP: Final = 6
_INSTRUCTION: Final = struct.Struct("=BBhi")
_KTIME_GET_NS: Final = 5
_PROGRAM: Final = (
    (0xBF, 0x16, 0, 0),  # r6 = r1: struct xdp_md
    (0x85, 0x00, 0, _KTIME_GET_NS),
    (0x61, 0x62, 0, 0),  # r2 = data
    (0x61, 0x63, 4, 0),  # r3 = data_end
    (0xBF, 0x24, 0, 0),  # r4 = r2
    (0x07, 0x04, 0, 8),  # r4 += 8
    (0x2D, 0x34, 1, 0),  # if r4 > r3 goto +1
    (0x7B, 0x02, 0, 0),  # *(u64 *)r2 = r0
    (0xB7, 0x00, 0, 2),  # r0 = XDP_PASS
    (0x95, 0x00, 0, 0),  # exit
)
"""Writes the time into the first eight bytes of its frame. Source: linux/bpf.h, struct bpf_insn."""


def kernel_ns() -> int:
    """The kernel's CLOCK_MONOTONIC as bpf_ktime_get_ns has it, in ns."""
    code = b"".join(_INSTRUCTION.pack(*instruction) for instruction in _PROGRAM)
    descriptor = library().bpf_prog_load(
        _PROGRAM_TYPE_XDP, b"kernel_clock", b"GPL", code, len(_PROGRAM), None
    )
    if descriptor < 0:
        raise FabricError(f"a BPF program that reads the clock is refused: {os.strerror(-descriptor)}")
    try:
        _, frame = run_once(descriptor, bytes(64))
    finally:
        os.close(descriptor)
    return int.from_bytes(frame[:8], "little")
