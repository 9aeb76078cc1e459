"""Objects that close when their context ends."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Self


class Closing(ABC):
    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Holder(Closing):
    """Base of what holds things that it has opened."""

    _opened: ExitStack

    def close(self) -> None:
        """Close them, the last one first."""
        self._opened.close()
