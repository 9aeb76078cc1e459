"""An hour of an exporter's pages in a Prometheus, made in a minute: two pages, continued line by line.

The counters and buckets of a page go on as they went from the page before, gauges stand still, and every line
has the labels that a scrape adds. `promtool` makes blocks of it, as long as those of `observe up`.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml
from dashboard_files import records

from benchmarks.transfer import pause
from mrc_testbed.observe.prometheus import JOB, prometheus_arguments
from mrc_testbed.observe.stack_state import StackSettings

SCRAPE_S = 5
HOUR_S = 3600
_MARGIN_S = 60
"""From the last sample to now: the hour is in the past when it is asked for."""
_BLOCK_SCRAPES = 15 * 60 // SCRAPE_S
_SCRAPE_LABELS = f'instance="127.0.0.1:9847",job="{JOB}"'
_TIME_GAP = "\0"
_QUERY_TIMEOUT_S = 60
_START_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server whose data are from *start_s* to *end_s*, Unix time."""

    url: str
    start_s: int
    end_s: int

    def ask(self, path: str, parameters: Mapping[str, str]) -> tuple[float, Any]:
        """Milliseconds until the whole answer is here, and what it holds.

        Raises:
            HTTPError: the server refused the query.
        """
        begun_ns = time.monotonic_ns()
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=_QUERY_TIMEOUT_S) as answer:  # noqa: S310
            content = answer.read()
        taken_ms = (time.monotonic_ns() - begun_ns) / 1e6
        return taken_ms, json.loads(content)["data"]


@contextmanager
def prometheus_with_hour(
    before: bytes, after: bytes, queries: Iterable[str], port: int
) -> Iterator[Prometheus]:
    """A server with an hour of samples; both are gone after the block.

    Args:
        before: page of a scrape.
        after: that of the next one, SCRAPE_S later.
        queries: expressions to be asked, whose records are made as well.
        port: free TCP port.
    """
    end_s = int(time.time()) - _MARGIN_S
    start_s = end_s - HOUR_S
    with TemporaryDirectory(prefix="mrc-history-") as name:
        folder = Path(name)
        _import_pages(folder, continued(before.decode(), after.decode()), start_s)
        for number, rules in enumerate(_rules_by_level(queries)):
            with _serving(folder, Prometheus(f"http://127.0.0.1:{port}", start_s, end_s), port) as server:
                path = folder / f"rules{number}.yaml"
                path.write_text(rules)
                span = [f"--start={start_s}", f"--end={end_s}", f"--eval-interval={SCRAPE_S}s"]
                _make_blocks(folder, "rules", f"--url={server.url}", *span, str(path))
        with _serving(folder, Prometheus(f"http://127.0.0.1:{port}", start_s, end_s), port) as server:
            yield server


def continued(before: str, after: str) -> dict[str, tuple[float, float]]:
    """Each series of the page *after*, with the labels of a scrape: its value, and its step per scrape."""
    earlier = dict(line.rsplit(" ", 1) for line in before.splitlines() if not line.startswith("#"))
    series: dict[str, tuple[float, float]] = {}
    is_moving = False
    for line in after.splitlines():
        if line.startswith("#"):
            is_moving = line.endswith((" counter", " histogram")) if line.startswith("# TYPE") else is_moving
            continue
        name, text = line.rsplit(" ", 1)
        value = _number(text)
        step = value - _number(earlier.get(name, text)) if is_moving else 0
        labelled = f"{name[:-1]},{_SCRAPE_LABELS}}}" if name.endswith("}") else f"{name}{{{_SCRAPE_LABELS}}}"
        series[labelled] = (value, step)
    scrape = {"up": 1, "scrape_duration_seconds": 0.1, "scrape_samples_scraped": len(series)}
    return series | {f"{name}{{{_SCRAPE_LABELS}}}": (value, 0) for name, value in scrape.items()}


def _number(text: str) -> float:
    """An int where it is one: a float would be written another way."""
    return int(text) if text.isdigit() else float(text)


def _import_pages(folder: Path, series: Mapping[str, tuple[float, float]], start_s: int) -> None:
    """Make the blocks, one after the other: their text takes a hundred times as much of the disk."""
    template = "".join(f"{name.replace('%', '%%')} %s {_TIME_GAP}\n" for name in series)
    path = folder / "pages"
    scrapes = HOUR_S // SCRAPE_S + 1
    for first in range(0, scrapes, _BLOCK_SCRAPES):
        with path.open("w") as pages:
            for scrape in range(first, min(first + _BLOCK_SCRAPES, scrapes)):
                values = tuple(value + scrape * step for value, step in series.values())
                pages.write((template % values).replace(_TIME_GAP, str(start_s + scrape * SCRAPE_S)))
            pages.write("# EOF\n")
        _make_blocks(folder, "openmetrics", str(path))
    path.unlink()


def _make_blocks(folder: Path, source: str, *arguments: str) -> None:
    output = [str(folder / "data")] if source == "openmetrics" else [f"--output-dir={folder / 'data'}"]
    command = ["promtool", "tsdb", "create-blocks-from", source, *arguments, *output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"promtool failed:\n{done.stderr}")


def _rules_by_level(queries: Iterable[str]) -> Iterator[str]:
    """The recording rules that *queries* need, in turns: promtool sees the records that the server has."""
    expressions = records()
    left: set[str] = set()
    texts = list(queries)
    while texts:
        found = _names_in(texts.pop(), expressions) - left
        left |= found
        texts += [expressions[name] for name in found]
    while left:
        ready = sorted(name for name in left if not _names_in(expressions[name], left))
        rules = [{"record": name, "expr": expressions[name]} for name in ready]
        yield yaml.safe_dump({"groups": [{"name": "records", "rules": rules}]}, width=1000)
        left -= set(ready)


def _names_in(expression: str, names: Iterable[str]) -> set[str]:
    return set(re.findall(r"[\w:]+", expression)).intersection(names)


@contextmanager
def _serving(folder: Path, server: Prometheus, port: int) -> Iterator[Prometheus]:
    """The server, ready, on the data of *folder*."""
    config, log = folder / "prometheus.yml", folder / "log"
    config.write_text("{}\n")
    settings = StackSettings(prometheus_port=port, retention_ns=24 * HOUR_S * 10**9)
    program = shutil.which("prometheus")
    if program is None:
        raise FileNotFoundError("prometheus is not installed: mrc-testbed setup host")
    with log.open("w") as said:
        process = subprocess.Popen(
            [program, *prometheus_arguments(config, folder / "data", settings)], stderr=said, stdout=said
        )
    try:
        deadline_s = time.monotonic() + _START_LIMIT_S
        while not _is_ready(server.url):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"prometheus did not start:\n{log.read_text()}")
            pause(0.05)
        yield server
    finally:
        process.terminate()
        process.wait()


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=1):  # noqa: S310
            return True
    except OSError:  # refused, or 503 while it loads
        return False
