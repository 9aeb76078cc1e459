"""Runs benchmarks by name, or all: `python -m benchmarks [--json FILE] [--markdown FILE] [NAME ...]`."""

import argparse
import importlib
from pathlib import Path

from rich.console import Console

from benchmarks.figure import Figure, show, write_json, write_markdown

NAMES = (
    "unshaped",
    "shaped",
    "failover",
    "bring_up",
    "footprint",
    "scapy_sender",
    "shaped_queue",
    "exporter_cost",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, help="write all samples there")
    parser.add_argument("--markdown", type=Path, help="write the table there, as docs/performance.md is")
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help=", ".join(NAMES))
    arguments = parser.parse_args()
    console = Console()
    figures: list[Figure] = []
    for name in arguments.names or NAMES:
        with console.status(f"measuring {name}"):
            figures += importlib.import_module(f"benchmarks.{name}").run()
        show([figure for figure in figures if figure.benchmark == name], console)
    if arguments.json:
        write_json(figures, arguments.json)
    if arguments.markdown:
        command = "python -m benchmarks " + " ".join([*arguments.names, f"--markdown {arguments.markdown}"])
        write_markdown(figures, command, arguments.markdown)


if __name__ == "__main__":
    main()
