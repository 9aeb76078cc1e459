"""Lines of each package beside its ceiling in [tool.size] of pyproject.toml, which `make check` holds it to.

A ceiling rises only in the change that needs it, with a line in CHANGELOG.md.
"""

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("testbed", "agents", "mrc-torch", "dashboards", "benchmarks", "tests")
GENERATED: Final = (
    "agents/mrc_agents/abi.py",
    "agents/mrc_agents/nic/verb_methods.py",
    "dashboards/json",
    "tests/kernels/budgets.json",
)
SUFFIXES: Final = {".c", ".css", ".def", ".h", ".html", ".j2", ".js", ".json", ".lua", ".py", ".tsx", ".yaml"}
_PYPROJECT: Final = ROOT / "pyproject.toml"
_BUILT: Final = {"__pycache__", "_objects", "_uplot", "corpus", "package-lock.json"}


def count_lines(root: Path) -> dict[str, int]:
    """Lines of each package: the folders of FOLDERS, theirs, and what is generated.

    What a user's runs leave, and what is built, does not count.
    """
    lines: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            within = path.relative_to(root)
            if path.suffix in SUFFIXES and not _BUILT & set(within.parts):
                lines[_package(within)] += path.read_bytes().count(b"\n")
    return dict(lines)


def problems(lines: Mapping[str, int], ceilings: Mapping[str, int]) -> list[str]:
    """List packages over their ceiling, packages without one, and ceilings without a package, in words."""
    found = [f"[tool.size] {name}: there is no such package" for name in ceilings.keys() - lines.keys()]
    for name, count in lines.items():
        if name not in ceilings:
            found.append(f"[tool.size] has no ceiling for {name}, which has {count} lines")
        elif count > ceilings[name]:
            found.append(
                f"{name}: {count} lines, {count - ceilings[name]} over its ceiling of {ceilings[name]}"
                " in [tool.size] of pyproject.toml; raise it only with a line in CHANGELOG.md"
            )
    return sorted(found)


def _package(path: Path) -> str:
    name = path.as_posix()
    for generated in GENERATED:
        if name == generated or name.startswith(f"{generated}/"):
            return f"generated {generated}"
    parts = [part for part in path.parts if part not in {"mrc_agents", "mrc_testbed"}]
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def _table(lines: Mapping[str, int], ceilings: Mapping[str, int]) -> str:
    rows = [f"{'package':34} {'lines':>7} {'ceiling':>7}"]
    rows += [f"{name:34} {count:7} {ceilings.get(name, 0):7}" for name, count in sorted(lines.items())]
    for kind, prefixes in (("product", ("testbed", "agents", "mrc-torch")), ("tests", ("tests",))):
        total = sum(count for name, count in lines.items() if name.split("/")[0] in prefixes)
        rows.append(f"{kind + ', together':34} {total:7}")
    return "\n".join(rows)


def lowered(text: str, lines: Mapping[str, int]) -> str:
    """pyproject.toml with each ceiling at the lines there are, where these are fewer."""

    def lower(found: re.Match[str]) -> str:
        name, ceiling = found.groups()
        return f'"{name}" = {min(lines.get(name, int(ceiling)), int(ceiling))}'

    before, head, rest = text.partition("[tool.size]\n")
    table, blank, after = rest.partition("\n\n")
    return before + head + re.sub(r'^"(.+)" = (\d+)$', lower, table, flags=re.MULTILINE) + blank + after


def main() -> int:
    """Print the table; 1 when a package is over its ceiling."""
    parser = argparse.ArgumentParser(prog="python -m tests.size", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="lower each ceiling to the lines there are")
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong")
    options = parser.parse_args()
    lines = count_lines(ROOT)
    if options.lower:
        _PYPROJECT.write_text(lowered(_PYPROJECT.read_text(), lines))
    ceilings = tomllib.loads(_PYPROJECT.read_text())["tool"]["size"]
    if not options.quiet:
        print(_table(lines, ceilings))
    found = problems(lines, ceilings)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
