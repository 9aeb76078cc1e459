"""SECURITY.md names a test for every line, and each is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_tests_that_are_named_exist() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    table = page.partition("the test that holds it")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ") and "---" not in line]
    held = rows[1:]
    assert len(held) > 15
    for row in held:
        named = re.findall(r"\b(?:tests/[\w/]+(?:\.py)?|test_\w+\.py)", row[3])
        assert named, row[1]
        for name in named:
            beside = list((ROOT / "tests").rglob(name)) if name.startswith("test_") else [ROOT / name]
            assert beside, name
            assert all(path.exists() for path in beside), name
