"""Compiled objects: BPF programs, queue drainer, libraries. `make bpf` compiles them; a wheel holds them."""

from pathlib import Path
from typing import Final

OBJECTS_DIR: Final = Path(__file__).parent / "_objects"
IS_CLONE: Final = (Path(__file__).resolve().parents[2] / "Makefile").is_file()
"""True in a clone of the repository, False in an installed wheel and in a node."""


def how_to_build(target: str) -> str:
    """Say how to get an object that does not load: by make's *target* in a clone, else by the wheel."""
    if IS_CLONE:
        return f"make {target}"
    return "install mrc-testbed again; on musl or an old glibc, use a clone"
