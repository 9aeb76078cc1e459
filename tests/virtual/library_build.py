"""The library of virtual time by other compilers and flags."""

import subprocess
from pathlib import Path

from runs import ROOT


def build(folder: Path, compiler: str, flags: str) -> Path:
    library = folder / "libmrc_virtual.so"
    variables = (f"VIRTUAL={library}", f"CC={compiler}", f"VIRTUAL_CFLAGS={flags}")
    done = subprocess.run(
        ["make", "-C", str(ROOT), *variables, str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return library
