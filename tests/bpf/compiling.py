"""C of tests, compiled as the programs of the NIC are, and the layouts that it declares."""

import ctypes
import json
import subprocess
from pathlib import Path
from platform import machine
from types import SimpleNamespace
from typing import Any, Final

from mrc_agents.abi_generate import generate

AGENTS: Final = Path(__file__).parents[2] / "agents/mrc_agents"
_WARNINGS: Final = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
_OPTIONS: Final = ("-O2", "-g", *_WARNINGS, *(f"-I{AGENTS / each}" for each in ("include", "", "_objects")))


def compile_program(source: Path, folder: Path) -> Path:
    """The BPF object of *source*, in *folder*."""
    headers = ("-idirafter", f"/usr/include/{machine()}-linux-gnu")
    return _compile(source, folder / f"{source.stem}.o", "-target", "bpf", "-mcpu=v3", *headers, "-c")


def compile_library(source: Path, folder: Path, *options: str) -> Path:
    """The shared library of *source*, for this machine, in *folder*."""
    return _compile(source, folder / f"{source.stem}.so", "-shared", "-fPIC", *options)


def _compile(source: Path, target: Path, *options: str) -> Path:
    subprocess.run(["clang", *_OPTIONS, *options, str(source), "-o", str(target)], check=True)
    return target


def btf_of(path: Path) -> dict[str, Any]:
    """The types in an object file, as bpftool prints them."""
    command = ["bpftool", "-j", "btf", "dump", "file", str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    types: dict[str, Any] = json.loads(answer.stdout)
    return types


def layouts(program: Path) -> SimpleNamespace:
    """The structures and enumerations that *program* declares, from its BTF."""
    # the generated module does not import the signed type, which no map has had so far
    names: dict[str, Any] = {"c_int64": ctypes.c_int64, "__name__": f"layouts_of_{program.stem}"}
    exec(generate(btf_of(program)), names)  # noqa: S102 - our own generator's output
    return SimpleNamespace(**names)
