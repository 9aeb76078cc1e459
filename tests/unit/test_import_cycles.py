"""No circles of imports, inside packages either; import-linter looks between packages."""

import grimp
import pytest


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Modules of ours that each module imports, those under `if TYPE_CHECKING:` among them."""
    graph = grimp.build_graph(
        "mrc_testbed", "dashboards", exclude_type_checking_imports=False, cache_dir=None
    )
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_modules_import_each_other_in_a_circle(imports: dict[str, set[str]]) -> None:
    assert circles(imports) == []


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
