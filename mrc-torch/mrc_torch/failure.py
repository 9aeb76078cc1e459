"""Exceptions of the backend: each names the backend, and ranks by their hosts."""

import os
import re
from typing import Final

import torch.distributed as dist

from mrc_torch.rank import HOSTS_VARIABLE

NAME: Final = "mrc"


def failed(what: str, why: str) -> Exception:
    """The exception for what went wrong; ranks in it get the names of their hosts."""
    hosts = os.environ.get(HOSTS_VARIABLE, "").split(",")

    def named(found: re.Match[str]) -> str:
        rank = int(found[1])
        return f"rank {rank} ({hosts[rank]})" if rank < len(hosts) and hosts[rank] else found[0]

    text = re.sub(r"\brank (\d+)\b(?! \()", named, f"{what}: {why}")
    error: Exception = dist.DistBackendError(f"{NAME}: {text}")
    return error


def refused(what: str) -> Exception:
    return NotImplementedError(f"{NAME}: {what}")
