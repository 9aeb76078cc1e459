"""Draw the dashboards with Grafana's own components, from live labs, and judge them: `make dashboards-seen`.

Two labs run scenarios with faults and load under a stack, whose Prometheus answers every query of every
dashboard. Pictures, whole and panel by panel, light and dark, and verdict.md are left in
build/dashboards-seen; with --docs, docs/images gets one of each dashboard. The exit status is 1 if there is a
finding.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from answers import Answer, as_drawn, ask, windows
from chromium import Browser, Scheme, browsing
from dashboard_files import load_dashboards, panels
from live_prometheus import Prometheus
from observed_lab import TOPOLOGY, observing
from PIL import Image
from scenes import Scene, play
from verdict import DRAWN, Finding, of_answers, of_drawing
from waiting import DEADLINE_S

LAB: Final = "seen"
FABRIC: Final = {**TOPOLOGY, "hosts_per_t0": 4}
ROOT: Final = Path(__file__).parents[3]
BUNDLE: Final = ROOT / "build" / "grafana-ui"
PICTURES: Final = ROOT / "build" / "dashboards-seen"
THEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
PAGE: Final = """\
<!doctype html><meta charset=utf-8><title>dashboards</title><link rel=stylesheet href=draw.css>
<body style="margin: 0"><div id=page></div><script src=draw.js></script>
"""

DOCS: Final = ROOT / "docs" / "images"
SCENE_OF_DOCS: Final = {
    "overview": "slow-plane",
    "tail-latency": "incast",
    "planes": "gray-t1",
    "fabric": "incast",
    "faults": "flap",
    "workloads": "incast",
    "health": "flap",
}

Answers = dict[str, dict[int, list[Answer]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="renew the pictures of docs/images")
    options = parser.parse_args()
    with observing(LAB, topology=FABRIC) as observed:
        scenes = {scene: ask(observed.prometheus, scene) for scene in play(observed, FABRIC)}
        for scene, answers in scenes.items():
            write_scene(observed.prometheus, scene, answers)
        status = judge(scenes)
    if options.docs:
        for board, name in SCENE_OF_DOCS.items():
            with Image.open(PICTURES / name / f"{board}-light.png") as picture:
                picture.quantize().save(DOCS / f"dashboard-{board}.png", optimize=True)
    return status


def write_scene(prometheus: Prometheus, scene: Scene, answers: Answers) -> None:
    """Write the scene for draw.tsx."""
    ((exporter, _),) = prometheus.query("mrc_testbed_build_info")
    from_ms, to_ms = round(scene.start_s * 1000), round(scene.end_s * 1000)
    content = {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "variables": {
            "lab": scene.lab,
            "exporter": exporter["instance"],
            "__url_time_range": f"from={from_ms}&to={to_ms}",
        },
        "windows": windows(prometheus, scene),
        "boards": load_dashboards(),
        "answers": {
            board: {panel: [as_drawn(one, scene) for one in found] for panel, found in by_panel.items()}
            for board, by_panel in answers.items()
        },
    }
    (BUNDLE / f"{scene.name}.json").write_text(json.dumps(content))


def judge(scenes: Mapping[Scene, Answers]) -> int:
    """Draw all scenes, write pictures and verdict; return the exit status."""
    shutil.rmtree(PICTURES, ignore_errors=True)
    boards = load_dashboards()
    findings = [
        finding
        for board, dashboard in boards.items()
        for panel in panels(dashboard)
        for finding in of_answers(
            board, panel, {scene.name: answers[board][panel["id"]] for scene, answers in scenes.items()}
        )
    ]
    (BUNDLE / "index.html").write_text(PAGE)
    with serving(BUNDLE) as url, browsing() as browser:
        for scene in scenes:
            for board in boards:
                for theme in THEMES:
                    findings += _draw(browser, url, scene.name, board, theme)
    return _write_verdict(sorted(set(findings)), boards)


def _draw(browser: Browser, url: str, scene: str, board: str, theme: Scheme) -> Iterator[Finding]:
    browser.open(
        f"{url}/index.html?scene={scene}&board={board}&theme={theme}", width=1440, height=900, scheme=theme
    )
    browser.wait_for("window.seen")
    seen = browser.value("window.seen")
    folder = PICTURES / scene / f"{board}-{theme}"
    folder.mkdir(parents=True)
    whole = folder.with_suffix(".png")
    browser.picture(whole, selector="main")
    with Image.open(whole) as page:
        for panel in panels(load_dashboards()[board]):
            found = seen[str(panel["id"])]
            page.crop(found["box"]).save(folder / f"{panel['id']}.png")
            yield from of_drawing(board, panel, scene, found)
            for link in found["links"]:
                if (problem := _problem_of(link)) is not None:
                    yield Finding(board, panel["title"], scene, f"the link {link} leads nowhere: {problem}")


@cache
def _problem_of(link: str) -> str | None:
    """Return None if the link leads to a page of the exporter or to a dashboard."""
    if link.startswith("http://"):
        try:
            with urlopen(link, timeout=DEADLINE_S):  # noqa: S310 - checked above
                return None
        except HTTPError as error:
            return f"{error}: {error.read().decode()}"
    uids = {f"/d/{dashboard['uid']}" for dashboard in load_dashboards().values()}
    return None if link.partition("?")[0] in uids else "there is no such dashboard"


def _write_verdict(findings: list[Finding], boards: Mapping[str, Any]) -> int:
    types = [panel["type"] for board in boards.values() for panel in panels(board)]
    drawn = sum(kind in DRAWN for kind in types)
    lines = [
        f"{len(types)} panels: Grafana draws {drawn}, the data of {len(types) - drawn} are checked.",
        f"{len(findings)} findings.",
        "",
        *(f"* {finding}" for finding in findings),
    ]
    text = "\n".join(lines) + "\n"
    (PICTURES / "verdict.md").write_text(text)
    sys.stdout.write(f"{text}{PICTURES}\n")
    return 1 if findings else 0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The URL of a server of the files of *folder*, on this machine only."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing about each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
