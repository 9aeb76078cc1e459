import ast
from pathlib import Path

import pytest
from topology_file import load_values

import mrc_testbed
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError


def test_only_resolve_makes_a_clos() -> None:
    makers = [
        path.name
        for path in Path(mrc_testbed.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Clos"
    ]
    assert makers == ["resolve.py"]


def test_what_hides_a_round_trip_time_is_reported_without_one() -> None:
    probed: dict[str, Tree] = {"port_rate": "1Mbit", "probing": {}}
    unknown: Tree = [{"select": {"links": "h99:0"}, "delay": "5us"}]
    with pytest.raises(UsageError, match=r"<text>:\d+: spec.link_delays\[0\].select: there is no node 'h99'"):
        load_values({**probed, "link_delays": unknown})
