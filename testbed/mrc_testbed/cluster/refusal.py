"""The head unpickles nothing: a cluster sends it bytes and text, whoever has reached the scheduler.

distributed unpickles what an answer, an exception, an event or a message asks it to, whatever its
`deserializers` are. A pickle acts through the names that it looks up. Python reports each before the look-up,
as audit event pickle.find_class, and an exception of the hook ends it.
"""

import sys
from functools import cache
from traceback import walk_stack
from typing import Any, Final

from mrc_testbed.errors import TestbedError

_HARMLESS: Final = {("builtins", "bytes"), ("builtins", "str")}
REFUSED: Final[list["RefusedError"]] = []
"""Errors of messages to the client: after one, distributed may listen to no other."""


class RefusedError(TestbedError, TypeError):
    """An object came where a cluster sends data.

    It is a TypeError because distributed passes over a traceback that raises one.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the cluster sent an object, {name!r}, which is not unpickled here",
            hint="somebody else reaches its scheduler, or its versions of dask differ: docs/guide/cluster.md",
        )


@cache
def refuse_objects() -> None:
    """Let distributed unpickle nothing but bytes and text, until this process ends."""
    sys.addaudithook(_look)


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "pickle.find_class" or arguments in _HARMLESS:
        return
    frames = [frame for frame, _ in walk_stack(sys._getframe(1))]  # noqa: SLF001 - who unpickles
    modules = [str(frame.f_globals.get("__name__")) for frame in frames]
    is_own = modules[0] == "dask.tokenize"  # what it has pickled itself
    if is_own or not any(name.partition(".")[0] == "distributed" for name in modules):
        return
    refused = RefusedError(".".join(arguments))
    if "clean_exception" not in {frame.f_code.co_name for frame in frames}:  # which gives it to a future
        REFUSED.append(refused)
    raise refused
