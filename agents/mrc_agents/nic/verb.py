"""The decorator that makes a method a verb: clients may call it by name."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def verb(method: Method) -> Method:
    """Decorator: agent, client and reference page have *method*, as its signature and docstring say."""
    method.is_verb = True  # type: ignore[attr-defined]
    return method


def verbs_of(holder: type) -> list[str]:
    """Verbs that *holder* itself declares, in their order."""
    return [name for name, each in vars(holder).items() if getattr(each, "is_verb", False)]


def all_verbs(holder: object, *, that_wait: bool) -> dict[str, Callable[..., Any]]:
    """By name, the verbs of an object, inherited ones too.

    Args:
        that_wait: coroutines, or else those that answer at once.
    """
    names = [name for base in type(holder).__mro__ for name in verbs_of(base)]
    found = {name: getattr(holder, name) for name in names}
    return {name: each for name, each in found.items() if inspect.iscoroutinefunction(each) == that_wait}
