"""A part of a campaign's runs, for one of several machines that share the work."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from mrc_testbed.errors import UsageError

_TEXT: Final = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")
_Run = TypeVar("_Run")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part *part* of *of* parts, from 1."""

    part: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard that a text such as `3/10` means."""
        found = _TEXT.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise UsageError(f"{text!r} is not a shard: write it like 3/10, from 1/10 to 10/10")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.part}/{self.of}"

    def select(self, runs: Sequence[_Run]) -> Sequence[_Run]:
        """Each of-th run from the part-th: neighbours, which are alike, fall to different parts."""
        return runs[self.part - 1 :: self.of]
