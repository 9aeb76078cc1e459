"""Names and units of measured quantities: one each, in documents, pages and terminals.

A rate is in bit/s; perftest's `[Gb/sec]` and the `(GB/s)` of nccl-tests stand for themselves. What is shown
of a run has one unit for both ends of a range: `0.39 to 10.5 s`.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from tests.prose.words import Finding

_FRAMES: Final = "frames dropped: probes are among them; packets dropped are of data"
_OTHER: Final = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"(?i)\btimes? to (?:avoid|restore)\b", "time to last drop, recovery time"),
        (r"(?i)\bdetect(?:,|/| and) ?(?:avoid|restore)\b", "time to detect, to last drop, recovery time"),
        (r"(?i)\bpackets (?:that )?(?:full queues|down links|faults) dropped\b", _FRAMES),
        (r"(?i)\bpackets (?:dropped|taken) by (?:faults|full queues)\b", _FRAMES),
        (r"(?<![\w(])(?:[kKMGT]i?B/s|[kKMGT]bps|[kKMGT]b/s)\b", "kbit/s, Mbit/s, Gbit/s, Tbit/s"),
    )
)
_OF_OTHERS: Final = frozenset({"testbed/mrc_testbed/units.py", "tests/unit/test_units.py"})
"""Files that name units of others, to say which of ours is meant."""

_NUMBER: Final = r"\d[\d.,]*"
_SHOWN: Final = (
    (re.compile(r"(?<![\w-])(?:pass|FAIL)(?![\w-])"), "held, failed, cannot tell"),
    *(
        (re.compile(rf"{_NUMBER} (?:{units})\sto\s{_NUMBER} (?:{units})(?![\w/])"), "one unit, written once")
        for units in ("ns|us|\N{MICRO SIGN}s|ms|s", "bit/s|kbit/s|Mbit/s|Gbit/s")
    ),
)


def quantities(path: str, text: str, *, is_shown: bool = False) -> Iterator[Finding]:
    """Yield other names and units; in what is shown of a run, other outcomes and ranges of two units too."""
    if path in _OF_OTHERS:
        return
    for pattern, said in chain(_OTHER, _SHOWN if is_shown else ()):
        for match in pattern.finditer(text):
            yield Finding(path, text.count("\n", 0, match.start()) + 1, match[0].replace("\n", " "), said)
