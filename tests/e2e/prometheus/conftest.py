"""A live lab, its exporter, and Debian's Prometheus scraping it."""

import subprocess
from collections.abc import Iterator

import pytest
from live_prometheus import LAB, Prometheus, free_port, require_program, wait_until_ready
from own_lab import lab_up
from waiting import DEADLINE_S

from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.live import Lab
from mrc_testbed.metrics.exporter import exporter_running
from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1)
CONFIG = """\
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: mrc-testbed
    static_configs: [{{targets: ["{target}"]}}]
"""


@pytest.fixture(scope="module")
def live_lab() -> Iterator[Lab]:
    """A lab of two hosts with one T0 each, in two planes."""
    with lab_up(SPEC, LAB), labs.attach(LAB) as lab:
        yield lab


@pytest.fixture(scope="module")
def exporter_url(live_lab: Lab) -> Iterator[str]:
    """Where the lab's metrics are."""
    with exporter_running([LAB], port=0) as url:
        yield url


@pytest.fixture(scope="module")
def prometheus(exporter_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the exporter five times a second; a late scrape gives way to the next."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(target=exporter_url.removeprefix("http://").removesuffix("/metrics")))
    subprocess.run([require_program("promtool"), "check", "config", str(config)], check=True)
    address = f"127.0.0.1:{free_port()}"
    command = [
        require_program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
    ]
    with subprocess.Popen(
        [*command, f"--web.listen-address={address}"], stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            wait_until_ready(server)
            yield Prometheus(f"http://{address}")
        finally:
            server.terminate()
            server.wait(DEADLINE_S)
