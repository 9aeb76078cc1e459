"""Classes whose methods torch.compile calls and does not trace into, as it does with those in C++."""

from types import FunctionType
from typing import Final, TypeVar

from torch._C._dynamo.eval_frame import (  # type: ignore[import-not-found]
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)

Class = TypeVar("Class", bound=type)

_SKIP_ALL: Final = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
"""A strategy for a frame, and for those that it calls."""


def untraced(cls: Class) -> Class:
    """Keep torch.compile out of all methods of a class.

    torch.compiler.disable does so too, but its import takes a second, and most scripts do not compile.
    """
    for method in vars(cls).values():
        if isinstance(method, FunctionType):
            method._torchdynamo_disable = True  # type: ignore[attr-defined] # noqa: SLF001 - inlines nothing
            set_code_exec_strategy(method.__code__, _SKIP_ALL)
    return cls
