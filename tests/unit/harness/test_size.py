"""The ratchet on size: what counts, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from size import ROOT, added_lately, count_lines, counts, in_two_modules, problems, together


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """Write files into a folder: text by name."""

    def write(**texts: str) -> Path:
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_lines_count_for_their_package_and_what_was_built_for_none(tree: Callable[..., Path]) -> None:
    texts = {
        "testbed/mrc_testbed/units.py": 3,
        "testbed/mrc_testbed/fabric/deep/lab.py": 5,
        "agents/mrc_agents/abi.py": 7,
        "agents/mrc_agents/nic/bpf/nic.bpf.c": 13,
        "tests/unit/test_units.py": 2,
        "benchmarks/frames.py": 4,
    }
    built = ("testbed/__pycache__/a.py", "agents/mrc_agents/_objects/t.h", "tests/corpus/x.py", "runs/r.py")
    root = tree(**{name: "x\n" * texts.get(name, 100) for name in (*texts, *built)})
    lines = count_lines(root)
    assert lines == {
        "testbed": 3,
        "testbed/fabric": 5,
        "generated agents/mrc_agents/abi.py": 7,
        "agents/nic": 13,
        "tests/unit": 2,
        "benchmarks": 4,
    }
    assert together(lines) == {"product": 21, "tests": 2}


def test_a_public_class_in_two_modules_is_found(tree: Callable[..., Path]) -> None:
    classes = "class Port:\n    class Kind: ...\nclass _Own: ...\n"
    root = tree(**{"agents/a.py": classes, "testbed/b.py": classes, "tests/c.py": "class Kind: ..."})
    assert in_two_modules(root) == {"Port": ["testbed/b.py", "agents/a.py"]}
    assert in_two_modules(ROOT) == {}


@pytest.mark.parametrize(
    ("found", "limits", "said"),
    [
        ({"a": 10}, {"a": 10}, []),
        ({"a": 11}, {"a": 10}, ["a: 11, 1 over the limit of 10 in [tool.size]"]),
        ({"a": 1, "b": 2}, {"a": 1}, ["[tool.size] has no limit for b: 2"]),
        ({"a": 1}, {"a": 1, "b": 2}, ["[tool.size] b: nothing of that name is counted"]),
    ],
)
def test_what_is_above_its_limit_is_named(
    found: dict[str, int], limits: dict[str, int], said: list[str]
) -> None:
    assert problems(found, limits) == said


def test_each_thing_that_has_a_limit_is_there(tmp_path: Path) -> None:
    assert all(count > 20 for name, count in counts(ROOT).items() if name != "class_names_in_two_modules")
    assert added_lately(tmp_path) == []
