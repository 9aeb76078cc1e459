"""Registration with torch.distributed, also in place of a backend that a script names."""

import atexit
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed import device_mesh, distributed_c10d

from mrc_torch.failure import NAME
from mrc_torch.rank import HOSTS_VARIABLE, has_nic, is_rank, is_virtual

OLDEST: Final = (2, 13)
"""Version of PyTorch."""

AS_VARIABLE: Final = "MRC_TORCH_AS"
"""Name of the backend that scripts ask for and this one stands in for; `mrc-testbed launch --as` sets it."""

_WAITS: Final = (
    (dist.Store, "get"),
    (dist.Store, "wait"),
    (dist.Work, "wait"),
    (dist, "new_group"),
    (dist, "monitored_barrier"),
    (distributed_c10d, "new_group"),
    (device_mesh, "new_group"),
)
"""Functions that may wait for other ranks without an operation of the backend."""


def register() -> None:
    if hasattr(dist.Backend, NAME.upper()):
        return
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
    if HOSTS_VARIABLE not in os.environ:
        return
    from mrc_torch.steps import watch_if_wanted  # noqa: PLC0415 - torch is being imported

    watch_if_wanted()
    entries: list[str] = []
    other = os.environ.get(AS_VARIABLE)
    for module in (dist, distributed_c10d, device_mesh):
        for name in ("init_process_group", "new_group"):
            if hasattr(module, name):
                setattr(module, name, diverted(getattr(module, name), other, entries.append))
    if is_virtual():
        for of, name in _WAITS:
            if hasattr(of, name):
                setattr(of, name, _outside(getattr(of, name)))
    if is_rank() and os.environ.get("WORLD_SIZE", "1") != "1":
        atexit.register(_say_if_alone, entries)


def is_too_old(version: str) -> bool:
    """Return True if a version of PyTorch, like 2.13.0+cpu, is older than this package supports."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST


def _create(options: Any, _: Any = None) -> Any:
    if not has_nic():
        raise RuntimeError(f"{NAME}: this child of a rank has no NIC in virtual time")
    if is_too_old(torch.__version__):
        needed = ".".join(map(str, OLDEST))
        raise RuntimeError(f"{NAME}: PyTorch {needed} or newer is needed; this is {torch.__version__}")
    from mrc_torch.process_group import create  # noqa: PLC0415 - a class of torch's, which is loading

    return create(options)


def diverted(
    function: Callable[..., Any], other: str | None, note: Callable[[str], None]
) -> Callable[..., Any]:
    """*function*, with this backend where its argument `backend` names *other*.

    Where init_process_group is given none, this one is taken too; new_group takes that of the default group.

    Args:
        function: init_process_group or new_group.
        other: None: nothing is diverted.
        note: called with its name when it is.
    """
    signature = inspect.signature(function)
    is_default = function.__name__ == "init_process_group"

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        note(function.__name__)
        bound = signature.bind(*arguments, **named)
        wanted = bound.arguments.get("backend")
        names = [] if wanted is None else re.split("[:,]", str(wanted).lower())
        if other and has_nic() and (other in names or (wanted is None and is_default)):
            bound.arguments["backend"] = NAME
        return function(*bound.args, **bound.kwargs)

    return call


def _outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """*function*; virtual time passes for the other ranks until it returns."""
    from mrc_torch.virtual import engine  # noqa: PLC0415 - of ranks in virtual time

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with engine().outside() if is_rank() else nullcontext():
            return function(*arguments, **named)

    return call


def _say_if_alone(entries: list[str]) -> None:
    if not entries and is_rank():  # not of fork()
        rank = os.environ.get("RANK", "?")
        sys.stderr.write(f"mrc-torch: rank {rank} never called init_process_group: it ran alone\n")
