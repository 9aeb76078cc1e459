"""The demonstration in a small form: four ranks, a lost plane, and the page."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.root,
    pytest.mark.download("PyTorch"),
    pytest.mark.slow("imports PyTorch in four processes, again and again"),
]

ROOT = Path(__file__).parents[3]


def test_no_rank_is_lost_with_a_plane(tmp_path: Path, torch_python: str) -> None:
    small = ["--ranks", "4", "--steps", "12", "--ports", "shaped", "--faults", "lost-plane"]
    ours = ["--transports", "mrc", "--python", torch_python, "--output", str(tmp_path)]
    train = subprocess.run(
        [sys.executable, "-m", "benchmarks.train", *small, *ours],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert train.returncode == 0, train.stderr
    said = r"4 ranks trained over MRC through a lost plane: no rank was lost, and all [\d,]+ losses"
    assert re.search(said, train.stdout)
    assert "while it went through a lost plane" in train.stdout
    (folder,) = tmp_path.iterdir()
    jobs = [json.loads(line) for line in (folder / "jobs.jsonl").read_text().splitlines()]
    assert [len(job["steps"]) for job in jobs] == [4, 4]
    began_ns, ended_ns = jobs[1]["fault_ns"]
    assert jobs[1]["steps"]["0"][0]["ended_ns"] < began_ns < ended_ns < jobs[1]["steps"]["0"][-1]["began_ns"]
    page = (folder / "page.html").read_text()
    assert re.search(r"no rank lost</span>", page)
    assert page.count("<figure ") == 2
