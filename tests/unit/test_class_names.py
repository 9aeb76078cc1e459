"""One name, one thing: a public class has its name to itself in all packages."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("testbed/mrc_testbed", "agents/mrc_agents", "mrc-torch/mrc_torch")


def test_no_public_class_name_stands_in_two_modules() -> None:
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    places = defaultdict(list)
    for module in modules:
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.relative_to(ROOT)))
    assert len(places) > len(modules) / 2
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
