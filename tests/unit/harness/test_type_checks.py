"""mypy checks every helper of tests: what it only meets as an import it does not check."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_what_is_left_out_under_one_name_is_checked_under_another() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")]
    helpers = [path for path in files if any(re.search(each, str(path)) for each in settings["exclude"])]
    assert len(helpers) > 50
    assert {path.stem for path in helpers} <= set(settings["modules"])
    assert {str(path.parent) for path in helpers} <= set(settings["mypy_path"])
