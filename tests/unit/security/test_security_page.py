"""SECURITY.md names a test for every line, and each is there; so is what the page on reliability names."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def absent(text: str) -> list[str]:
    """Tests that a text names and that do not exist."""
    named = re.findall(r"\b(?:tests/[\w/]+(?:\.py)?|test_\w+\.py)", text)
    return [
        name
        for name in named
        if not (ROOT / name).exists()
        and not (name.startswith("test_") and list((ROOT / "tests").rglob(name)))
    ]


def test_tests_that_are_named_exist() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    table = page.partition("the test that holds it")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ") and "---" not in line]
    held = rows[1:]
    assert len(held) > 15
    for row in held:
        assert re.search(r"\btest_\w+\.py", row[3]), row[1]
        assert absent(row[3]) == []


def test_what_the_page_on_reliability_names_exists() -> None:
    page = (ROOT / "docs" / "explanation" / "reliability.md").read_text()
    assert absent(page) == []
    benchmarks = set(re.findall(r"python -m benchmarks (\w+)", page))
    assert benchmarks
    assert [name for name in benchmarks if not (ROOT / "benchmarks" / f"{name}.py").exists()] == []


def test_known_vulnerabilities_are_asked_for_every_night() -> None:
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yaml").read_text())
    steps = [step.get("run", "") for job in nightly["jobs"].values() for step in job["steps"]]
    assert "sudo make audit" in steps
