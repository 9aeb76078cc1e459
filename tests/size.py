"""Lines and counts of things, each beside its limit in [tool.size] of pyproject.toml.

`make check` fails above a limit. A change that would raise the lines first takes as many away; counts only
fall, unless an issue says otherwise.
"""

import argparse
import ast
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

import typer.main

from mrc_testbed.cli.commands import LISTED, OBSERVE, Listed
from mrc_testbed.cli.fault import adders
from mrc_testbed.cli.options import COMMANDS, OBSERVE_COMMANDS
from mrc_testbed.faults.spec import KINDS

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("testbed", "agents", "mrc-torch")
FOLDERS: Final = (*PRODUCT, "dashboards", "benchmarks", "tests")
GENERATED: Final = (
    "agents/mrc_agents/abi.py",
    "agents/mrc_agents/nic/verb_methods.py",
    "dashboards/json",
    "tests/kernels/budgets.json",
)
SUFFIXES: Final = {".c", ".css", ".def", ".h", ".html", ".j2", ".js", ".json", ".lua", ".py", ".tsx", ".yaml"}
COMMITS: Final = 10
_NOT_COUNTED: Final = {"__pycache__", "_objects", "_uplot", "corpus", "package-lock.json"}
_SHOWS: Final = ("show", "show_rows", "show_tables", "_show_playbook")


def package_of(path: Path) -> str | None:
    """The package that the lines of *path*, relative to the root, count for; None for none.

    What a user's runs leave, and what is built, does not count.
    """
    if path.parts[0] not in FOLDERS or path.suffix not in SUFFIXES or _NOT_COUNTED & set(path.parts):
        return None
    for generated in GENERATED:
        if path.is_relative_to(generated):
            return f"generated {generated}"
    parts = [part for part in path.parts if part not in {"mrc_agents", "mrc_testbed"}]
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def count_lines(root: Path) -> Counter[str]:
    """Lines of each package: the folders of FOLDERS, theirs, and what is generated."""
    lines: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if package := package_of(path.relative_to(root)):
                lines[package] += path.read_bytes().count(b"\n")
    return lines


def together(lines: Mapping[str, int]) -> dict[str, int]:
    """Lines of the product and of the tests."""
    sums = {"product": 0, "tests": 0}
    for package, count in lines.items():
        top = package.partition("/")[0]
        if top in {"tests", *PRODUCT}:
            sums["tests" if top == "tests" else "product"] += count
    return sums


def added_lately(root: Path) -> list[tuple[str, dict[str, int]]]:
    """Titles of the last commits, newest first, with the lines that each added; empty without a history."""
    command = ["git", "log", f"-{COMMITS}", "--first-parent", "--diff-merges=first-parent"]
    command += ["--no-renames", "--numstat", "--format=%x00%h %s"]
    log = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    found = []
    for entry in log.split("\0")[1:]:
        title, *changes = entry.splitlines()
        lines: Counter[str] = Counter()
        for added, removed, name in (change.split("\t") for change in changes if change):
            if added != "-" and (package := package_of(Path(name))):
                lines[package] += int(added) - int(removed)
        found.append((title, together(lines)))
    return found


def document_kinds(root: Path) -> set[str]:
    """Kinds of JSON document: what is passed to `show` and `show_tables`, wherever it is written out."""
    found = set()
    for path in (root / "testbed/mrc_testbed/cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SHOWS:
                named = [each.value for each in node.args if isinstance(each, ast.Constant)]
                found |= {each for each in named if isinstance(each, str)}
    return found


def classes(root: Path) -> Iterator[tuple[str, Path, ast.ClassDef]]:
    """Name, file and definition of each class of the product, but for those within others."""
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.py")):
            yield from (
                (node.name, path.relative_to(root), node)
                for node in ast.parse(path.read_text()).body
                if isinstance(node, ast.ClassDef)
            )


def in_two_modules(root: Path) -> dict[str, list[str]]:
    """Names of public classes that stand in two modules or more, with the files."""
    files = defaultdict(list)
    for name, path, _ in classes(root):
        if not name.startswith("_"):
            files[name].append(str(path))
    return {name: places for name, places in files.items() if len(places) > 1}


def commands() -> dict[str, list[str]]:
    """Each command of the tool, with the spellings of each of its options."""

    def walk(command: object, name: str) -> Iterator[tuple[str, list[str]]]:
        for inner, each in getattr(command, "commands", {}).items():
            yield from walk(each, f"{name} {inner}".strip())
        if not hasattr(command, "commands"):
            parameters = getattr(command, "params", [])
            named = [each for each in parameters if each.param_type_name == "option"]
            yield name, [" ".join((*each.opts, *each.secondary_opts)) for each in named]

    def group(listed: tuple[Listed, ...], made: typer.Typer) -> object:
        for each in listed:
            import_module(f"mrc_testbed.cli.{each.module}")
        return typer.main.get_group(made)

    kinds = typer.main.get_group(adders(KINDS))
    found = dict(walk(group(LISTED, COMMANDS), ""))
    found |= dict(walk(group(OBSERVE, OBSERVE_COMMANDS), "observe")) | dict(walk(kinds, "fault add"))
    groups = {name.rpartition(" ")[0] for name in found}  # one that loads its commands later looks like one
    return {name: options for name, options in found.items() if name not in groups}


def counts(root: Path) -> dict[str, int]:
    """The numbers that have a limit in [tool.size]."""
    spellings = commands()
    return together(count_lines(root)) | {
        "commands": len(spellings),
        "options": len({spelling for named in spellings.values() for spelling in named}),
        "documents": len(document_kinds(root)),
        "class_names_in_two_modules": len(in_two_modules(root)),
        "protocols": sum("Protocol" in map(ast.unparse, node.bases) for *_, node in classes(root)),
    }


def problems(found: Mapping[str, int], limits: Mapping[str, int]) -> list[str]:
    """List what is above its limit, or has none, in words."""
    said = [f"[tool.size] {name}: nothing of that name is counted" for name in limits.keys() - found.keys()]
    for name, count in found.items():
        if name not in limits:
            said.append(f"[tool.size] has no limit for {name}: {count}")
        elif count > limits[name]:
            over = count - limits[name]
            said.append(f"{name}: {count}, {over} over the limit of {limits[name]} in [tool.size]")
    return sorted(said)


def _table(found: Mapping[str, int], limits: Mapping[str, int]) -> str:
    rows = [f"{'package':42} {'lines':>7}"]
    rows += [f"{name:42} {count:7}" for name, count in sorted(count_lines(ROOT).items())]
    rows += ["", f"{'':42} {'now':>7} {'limit':>7}"]
    for name, count in found.items():
        label = f"{name}, together" if name in together({}) else name.replace("_", " ")
        rows.append(f"{label:42} {count:7} {limits.get(name, 0):7}")
    rows += ["", f"product   tests  added by the last {COMMITS} commits"]
    lately = added_lately(ROOT)
    rows += [f"{added['product']:+7} {added['tests']:+7}  {title}" for title, added in lately]
    for_all = [sum(added[kind] for _, added in lately) for kind in ("product", "tests")]
    return "\n".join([*rows, f"{for_all[0]:+7} {for_all[1]:+7}  in all"])


def main() -> int:
    """Print the table; 1 when something is above its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.size", description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong")
    options = parser.parse_args()
    limits = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["size"]
    found = counts(ROOT)
    if not options.quiet:
        print(_table(found, limits))
    said = problems(found, limits)
    for line in said:
        print(line, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
