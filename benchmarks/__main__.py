"""Runs benchmarks by name, or all: `python -m benchmarks [--json FILE] [--markdown FILE] [NAME ...]`.

NAME.PART runs one part of a benchmark that has several.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.figure import Figure, show, write_json, write_markdown

NAMES = (
    "unshaped",
    "applications",
    "icrc",
    "shaped",
    "failover",
    "plane_death",
    "lossy_goodput",
    "fair_share",
    "bring_up",
    "footprint",
    "rtnetlink",
    "startup",
    "install",
    "campaign_journal",
    "cluster",
    "scapy_sender",
    "shaped_queue",
    "incast_pfc",
    "queue_limits",
    "queue_soak",
    "exporter_cost",
    "dashboards_cost",
    "guard",
    "lossy_soak",
    "lost_packets",
    "nic_fuzz",
    "qp_replacements",
    "scale",
    "collective",
    "verifier",
    "fault_ends",
    "gray_faults",
    "gray_alert",
    "launched",
    "virtual_training",
    "virtual_speed",
)


def _measure(name: str, part: str) -> Iterator[Figure]:
    module = importlib.import_module(f"benchmarks.{name}")
    if not part:
        yield from module.run()
    elif part in (parts := getattr(module, "PARTS", {})):
        yield from parts[part]()
    else:
        sys.exit(f"{name} has these parts: {', '.join(parts) or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, help="write all samples there")
    parser.add_argument(
        "--markdown", type=Path, help="write the table there, as docs/reference/performance.md is"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    arguments = parser.parse_args()
    for name in arguments.names:
        if name.partition(".")[0] not in NAMES:
            parser.error(f"{name}: one of {', '.join(NAMES)} is expected")
    console = Console()
    figures: list[Figure] = []
    for name in arguments.names or NAMES:
        with console.status(f"measuring {name}"):
            taken = list(_measure(*name.partition(".")[::2]))
        show(taken, console)
        figures += taken
    if arguments.json:
        write_json(figures, arguments.json)
    if arguments.markdown:
        command = "python -m benchmarks " + " ".join([*arguments.names, f"--markdown {arguments.markdown}"])
        write_markdown(figures, command, arguments.markdown)


if __name__ == "__main__":
    main()
