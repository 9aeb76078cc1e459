"""A rank of PyTorch's own distributed tests, those that its wheel carries: suite_ranks.py FOLDER [TEST...].

All ranks do the same tests, one after the other, each in a process group of its own. Rank 0 prints a line for
each: its name, a verdict (passed, skipped, refused, failed) and why, of the rank with the worst.
"""

import contextlib
import io
import json
import os
import sys
import time
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ["BACKEND"] = "gloo"

import torch.distributed as dist
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.distributed import distributed_test

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TIME_OUT = timedelta(seconds=30)
VERDICTS = ("passed", "skipped", "refused", "failed")


class Tests(distributed_test.DistributedTest._DistTestBase, TestCase):
    """PyTorch's tests, in this process."""

    rank = RANK
    world_size = str(SIZE)

    def runTest(self) -> None:
        """Do nothing: each test is called by its name."""


def names() -> list[str]:
    return sorted(name for name in dir(Tests) if name.startswith("test_"))


def verdict(name: str, folder: Path) -> tuple[str, str]:
    """Do a test; also why it did not pass."""
    own = folder / name
    (own / "barrier").mkdir(parents=True, exist_ok=True)
    (own / "test_dir").mkdir(exist_ok=True)
    os.environ["TEMP_DIR"] = str(own)
    distributed_test.Barrier.barrier_id = 0
    test = Tests()
    test.file_name = str(own / "store")
    try:
        dist.init_process_group("gloo", f"file://{own}/store", world_size=SIZE, rank=RANK, timeout=TIME_OUT)
        dist.barrier()
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            test.setUp()
            getattr(test, name)()
            test.tearDown()
        dist.barrier()
    except (unittest.SkipTest, SystemExit) as reason:
        return "skipped", str(reason)
    except NotImplementedError as reason:
        return "refused", str(reason)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return "passed", ""


def agree(name: str, own: tuple[str, str], folder: Path) -> tuple[str, str]:
    """The worst verdict of all ranks, by files: the group may have failed."""
    (folder / name / f"verdict-{RANK}.new").write_text(json.dumps(own))
    (folder / name / f"verdict-{RANK}.new").rename(folder / name / f"verdict-{RANK}")
    found: list[Any] = []
    for rank in range(SIZE):
        path = folder / name / f"verdict-{rank}"
        while not path.exists():
            time.sleep(0.005)
        found.append(tuple(json.loads(path.read_text())))
    return max(found, key=lambda each: VERDICTS.index(each[0]))


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or names():
        kind, reason = agree(name, verdict(name, folder), folder)
        if RANK == 0:
            print(kind, name, " ".join(reason.split())[:300], flush=True)


if __name__ == "__main__":
    main()
