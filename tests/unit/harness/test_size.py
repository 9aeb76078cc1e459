"""The ratchet on lines: what counts, what is refused, and how ceilings come down."""

from pathlib import Path

import pytest
from size import count_lines, lowered, problems


def write(root: Path, name: str, lines: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n" * lines)


def test_lines_count_for_their_package_and_what_was_built_for_none(tmp_path: Path) -> None:
    write(tmp_path, "testbed/mrc_testbed/units.py", 3)
    write(tmp_path, "testbed/mrc_testbed/fabric/deep/lab.py", 5)
    write(tmp_path, "agents/mrc_agents/abi.py", 7)
    write(tmp_path, "agents/mrc_agents/nic/verb_methods.py", 11)
    write(tmp_path, "agents/mrc_agents/nic/bpf/nic.bpf.c", 13)
    for built in (
        "testbed/__pycache__/units.py",
        "agents/mrc_agents/_objects/table.h",
        "tests/corpus/x.py",
        "runs/r.py",
    ):
        write(tmp_path, built, 100)
    write(tmp_path, "testbed/mrc_testbed/py.typed", 1)
    assert count_lines(tmp_path) == {
        "testbed": 3,
        "testbed/fabric": 5,
        "generated agents/mrc_agents/abi.py": 7,
        "generated agents/mrc_agents/nic/verb_methods.py": 11,
        "agents/nic": 13,
    }


@pytest.mark.parametrize(
    ("lines", "ceilings", "found"),
    [
        ({"a": 10}, {"a": 10}, []),
        ({"a": 11}, {"a": 10}, ["a: 11 lines, 1 over its ceiling of 10"]),
        ({"a": 1, "b": 2}, {"a": 1}, ["has no ceiling for b, which has 2 lines"]),
        ({"a": 1}, {"a": 1, "b": 2}, ["b: there is no such package"]),
    ],
)
def test_a_package_over_its_ceiling_is_named(
    lines: dict[str, int], ceilings: dict[str, int], found: list[str]
) -> None:
    said = problems(lines, ceilings)
    assert len(said) == len(found)
    assert all(part in line for part, line in zip(found, said, strict=True))


def test_ceilings_come_down_and_never_up() -> None:
    text = '[tool.size]\n"a/b" = 10\n"generated c.py" = 5\n"d" = 3 # why\n\n[tool.other]\n"a" = 99\n'
    assert lowered(text, {"a/b": 7, "generated c.py": 6, "d": 1, "a": 1}) == text.replace("10", "7")
