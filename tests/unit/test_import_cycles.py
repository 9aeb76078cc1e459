"""No circles of imports in what import-linter sees, inside packages and under `if TYPE_CHECKING:` too."""

import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]


def test_no_modules_import_each_other_in_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "mrc-torch")
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    packages = tools["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    assert circles({each: graph.find_modules_directly_imported_by(each) for each in graph.modules}) == []


def test_a_circle_is_found_with_all_its_modules() -> None:
    assert circles({"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": set(), "e": {"a"}}) == [["a", "b", "c"]]


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which reaches the others, and so itself."""
    reached = {module: _reached(imports, module) for module in imports}
    groups = {
        tuple(sorted(other for other in seen if module in reached[other]))
        for module, seen in reached.items()
        if module in seen
    }
    return sorted(map(list, groups))


def _reached(imports: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [*imports[start]]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += imports[module]
    return seen
