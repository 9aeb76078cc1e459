"""The programs under sanitizers, in processes of their own: what one finds ends the process.

Loads of packed headers are unaligned on purpose; BPF and the machines that run this allow them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from library_build import build
from runs import ROOT

SCRIPT = """
import pathlib, sys
import mrc_agents.bpf.virtual
mrc_agents.bpf.virtual.LIBRARY = pathlib.Path(sys.argv[1])
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.universe import run_document
for seed in range(1, 6):
    print(run_document(draw_universe(seed)).failures)
"""


@pytest.mark.slow("compiles with sanitizers, and runs ten times slower")
@pytest.mark.ci
def test_random_universes_are_clean(tmp_path: Path) -> None:
    flags = "-O0 -g -fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=all"
    library = build(tmp_path, "cc", flags)
    runtime = subprocess.check_output(["cc", "-print-file-name=libasan.so"], text=True).strip()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(library)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "()\n" * 5
