"""Times of the steps of .ci/run and of the tiers, beside those that docs/reference/performance.md has."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "reference" / "performance.md"
_LAST_TEST: Final = Path("build/last-test")
_DOCUMENTED: Final = re.compile(r"^\| ([\w. /-]+) \| (\d+) s \| (\d+) s \|$", re.MULTILINE)
_TIER: Final = re.compile(r"^([\w-]+): \w+ (\d+) s, (\d+) s of CPU$", re.MULTILINE)
_STEP: Final = re.compile(r"^(.+) (\d+) (\d+)$", re.MULTILINE)


class Spent(NamedTuple):
    """Wall time, and CPU time of what ended meanwhile, in seconds."""

    wall_s: int
    cpu_s: int


def times(pattern: re.Pattern[str], text: str) -> dict[str, Spent]:
    """The times in *text*, by name."""
    return {name: Spent(int(wall_s), int(cpu_s)) for name, wall_s, cpu_s in pattern.findall(text)}


def table(measured: Mapping[str, Spent], documented: Mapping[str, Spent]) -> str:
    """A line for each of *measured*, beside what is documented of it."""
    lines = [f"{'':16}{'seconds':>9}{'documented':>12}{'of CPU':>9}{'documented':>12}"]
    for name, spent in measured.items():
        known = documented.get(name)
        wall, cpu = known or ("", "")
        lines.append(f"{name:16}{spent.wall_s:>9}{wall:>12}{spent.cpu_s:>9}{cpu:>12}")
    return "\n".join(lines)


def main() -> int:
    """Print the table of the file of steps that the command line names."""
    steps = times(_STEP, Path(sys.argv[1]).read_text(encoding="utf-8"))
    tiers = times(_TIER, _LAST_TEST.read_text(encoding="utf-8")) if _LAST_TEST.exists() else {}
    documented = times(_DOCUMENTED, _DOCUMENT.read_text(encoding="utf-8"))
    print(table(steps | tiers, documented))
    return 0


if __name__ == "__main__":
    sys.exit(main())
