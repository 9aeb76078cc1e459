"""A rank of PyTorch's own distributed tests, those that its wheel carries: suite_ranks.py FOLDER [TEST...].

All ranks do the same tests, one after the other, each in a process group of its own, and print a line for
each: passed, skipped, refused or failed, the name of the test, and why.
"""

import contextlib
import io
import os
import re
import sys
import unittest
from datetime import timedelta
from pathlib import Path

os.environ["BACKEND"] = "gloo"  # which tests there are, and what they expect
os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"

import torch.distributed as dist
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.distributed import distributed_test

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TIME_OUT = timedelta(seconds=30)


class Tests(distributed_test.DistributedTest._DistTestBase, TestCase):
    """PyTorch's tests, in a process that somebody else has started."""

    folder = Path(sys.argv[1])
    rank = RANK
    world_size = str(SIZE)

    def setUp(self) -> None:
        super().setUp()  # seeds
        own = self.folder / self._testMethodName
        for each in ("barrier", "test_dir"):
            (own / each).mkdir(parents=True, exist_ok=True)
        os.environ["TEMP_DIR"] = str(own)
        distributed_test.Barrier.barrier_id = 0
        self.file_name = f"{own}/store"
        dist.init_process_group("gloo", f"file://{own}/init", TIME_OUT, SIZE, RANK)
        dist.barrier()

    def tearDown(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


def verdict(name: str) -> tuple[str, str]:
    """Do a test; also why it did not pass."""
    result = unittest.TestResult()
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        Tests(name).run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    for _, trace in [*result.errors, *result.failures]:
        kind, reason = re.findall(r"^([\w.]*(?:Error|Exit))\b(.*)", trace, re.MULTILINE)[-1]
        kinds = {"SystemExit": "skipped", "NotImplementedError": "refused"}
        return kinds.get(kind, "failed"), f"{kind}{reason}"
    return "passed", ""


def main() -> None:
    for name in sys.argv[2:] or sorted(each for each in dir(Tests) if each.startswith("test_")):
        kind, reason = verdict(name)
        print(kind, name, reason, flush=True)


if __name__ == "__main__":
    main()
