"""Writes the dashboards as JSON: `python -m dashboards` into dashboards/json, or into the folder given."""

import sys
from pathlib import Path

from dashboards.catalogue import JSON_FOLDER, dashboard_files


def main(arguments: list[str]) -> int:
    """Replaces the files; names those that it wrote."""
    folder = Path(arguments[0]) if arguments else JSON_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files = dashboard_files()
    for stale in set(folder.glob("*.json")) - {folder / name for name in files}:
        stale.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
