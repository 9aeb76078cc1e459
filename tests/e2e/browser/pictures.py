"""Makes the pictures of docs/images: the live page, `top`, and a report, light and dark: `make pictures`.

A lab of its own runs a scenario with two faults; the pictures are taken while both act. The report is of the
same scenario in virtual time: it is the same on every machine.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Final

from chromium import Browser, browsing
from rich.console import Console
from rich.terminal_theme import MONOKAI
from waiting import DEADLINE_S

from mrc_agents.clock import monotonic_ns
from mrc_testbed.live.feed import Feed, Update
from mrc_testbed.live.server import live_server
from mrc_testbed.live.terminal import View, render

FOLDER: Final = Path(__file__).parents[3] / "docs" / "images"
LAB: Final = "pictures"
INTERVAL_NS: Final = 300_000_000  # not in step with the flap
TOP_COLUMNS: Final = 108
TERMINAL: Final = (
    "<!doctype html><meta charset=utf-8>"
    "<style>body, pre {{ margin: 0; background: #11161d; color: #e6ebf1 }}"
    "pre {{ padding: 14px; width: max-content; font: 14px/1.25 DejaVu Sans Mono, monospace }}</style>"
    "<pre>{code}</pre>"
)
SCENARIO: Final = {
    "apiVersion": "mrc-testbed/v1",
    "kind": "Scenario",
    "metadata": {
        "name": "flap-and-gray-loss",
        "description": "A link between T0 and T1 flaps; later another loses every twentieth packet, one way.",
    },
    "spec": {
        "seed": 42,
        "topology": {"planes": 4, "t0": 2, "t1": 2, "hosts_per_t0": 3, "port_rate": "10Mbit"},
        "workloads": [
            {"name": "ring", "kind": "all-reduce", "hosts": ["h0", "h1", "h3", "h4"], "size": "128KiB",
             "duration": "16s"},
            {"name": "copy", "kind": "write-bw", "from": "h2", "to": "h5", "size": "64KiB", "depth": 8,
             "duration": "16s"},
        ],
        "faults": [
            {"id": "flap1", "at": "4s", "for": "8s", "kind": "link-flap", "every": "1s", "down": "400ms",
             "select": {"links": "p0-t0-0:3"}},
            {"id": "gray1", "at": "7s", "for": "5s", "kind": "loss", "ratio": "5%", "direction": "a-to-b",
             "select": {"links": "p2-t0-0:4"}},
        ],
        "expect": [
            "goodput(copy) during flap1 >= 70% of goodput(copy) before flap1",
            "qp_errors == 0",
            "wrong_bytes == 0",
        ],
    },
}  # fmt: skip


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))
    os.environ["MRC_TESTBED_STATE_DIR"] = str(folder)
    scenario = folder / "scenario.yaml"
    scenario.write_text(json.dumps(SCENARIO))
    topology = folder / "topology.yaml"
    spec = {"apiVersion": "mrc-testbed/v1", "kind": "Topology", "metadata": {"name": LAB}}
    topology.write_text(json.dumps({**spec, "spec": SCENARIO["spec"]["topology"]}))  # type: ignore[index]
    try:
        _command("up", "-n", LAB, "-t", str(topology), "--runtime", "netns")
        with browsing() as browser:
            _take(browser, folder, scenario)
    finally:
        _command("down", "-n", LAB)
        shutil.rmtree(folder)


def _take(browser: Browser, folder: Path, scenario: Path) -> None:
    line = _line("run", str(scenario), "-n", LAB, "--runs", str(folder / "runs"))
    with Feed(LAB, INTERVAL_NS) as feed, live_server(feed) as server:
        browser.open(server.url, width=1280, height=1120)
        with subprocess.Popen(line) as run:
            browser.wait_for("document.querySelectorAll('#faults b').length === 2")
            browser.wait_for("document.querySelectorAll('text.sign').length === 2")
            browser.picture(FOLDER / "live.png")
            top = _terminal(_with_faults(feed))
            run.wait()
    page = folder / "top.html"
    page.write_text(top)
    browser.open(page.as_uri(), width=980, height=760, scheme="dark")
    browser.picture(FOLDER / "top.png", selector="pre")
    _command("run", str(scenario), "--virtual", "--runs", str(folder / "virtual"))
    report = (folder / "virtual" / "flap-and-gray-loss" / "latest" / "report.html").as_uri()
    for scheme in ("light", "dark"):
        browser.open(report, width=1180, height=1500, scheme="light" if scheme == "light" else "dark")
        browser.picture(FOLDER / f"report-{scheme}.png")


def _with_faults(feed: Feed) -> Update:
    """The next update that has a link down."""
    update = feed.latest
    while update.snapshot is None or "down" not in {link.state for link in update.snapshot.links}:
        newer = feed.wait(update.number, DEADLINE_S)
        if newer is None:
            raise SystemExit("the lab is not shown")
        update = newer
    return update


def _terminal(update: Update) -> str:
    """The screen of `top`, as HTML."""
    console = Console(record=True, width=TOP_COLUMNS, file=StringIO(), color_system="truecolor")
    console.print(render(LAB, update, View(), monotonic_ns()))
    return console.export_html(theme=MONOKAI, inline_styles=True, code_format=TERMINAL)


def _line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mrc_testbed.cli", *arguments]


def _command(*arguments: str) -> None:
    subprocess.run(_line(*arguments), check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
