"""The exporter: one process that shows the labs of this machine to Prometheus.

It reads BPF maps when it is scraped and keeps nothing in between, so counters go on where they were when the
exporter itself restarts. A lab that goes away leaves the page; when it comes back, its counters restart at 0.
"""

import gc
import logging
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from importlib.metadata import version
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final, NamedTuple

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FabricError
from mrc_testbed.extras import from_extra
from mrc_testbed.metrics import catalogue, testbed_metrics
from mrc_testbed.metrics.collector import LabWatch
from mrc_testbed.metrics.cpu_use import RecentCpuUse, is_saturated, read_cpus
from mrc_testbed.metrics.exposition import CONTENT_TYPE, Samples, TextWriter
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS, LocalHandler, LocalServer, url_host

DEFAULT_PORT: Final = 9847

_LOG: Final = logging.getLogger(__name__)
_NS_PER_SECOND: Final = 1e9
_INDEX: Final = "mrc-testbed exporter: see "
_TEXT: Final = "text/plain; charset=utf-8"


class Page(NamedTuple):
    status: HTTPStatus  # of it
    body: bytes  # of it
    content_type: str = _TEXT  # of the body
    policy: str | None = None  # Content-Security-Policy; None: that of all answers


Pages = Mapping[str, Callable[[str], Page]]
"""First part of a path -> the page for the rest."""

_NO_PAGES: Final[Pages] = MappingProxyType({})


def process_metrics() -> Callable[[], bytes]:
    with from_extra("observe"):
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest  # noqa: PLC0415 - an extra
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry)


class Exporter:
    """Makes the pages.

    Args:
        labs: names of the labs to show; none: all that are up.
        attend: is called with the name of each lab that is up, before it is read.
        fault_kinds: kinds of fault that are counted from 0 on.
    """

    def __init__(
        self,
        labs: Sequence[str] = (),
        attend: Callable[[str], None] = lambda _: None,
        fault_kinds: Iterable[str] = (),
    ) -> None:
        self._watch = LabWatch(labs, fault_kinds)
        self._attend = attend
        self._writer = TextWriter(catalogue.METRICS)
        self._lock = threading.Lock()
        self._cpu_ns = 0
        self._cpus = RecentCpuUse(read_cpus(monotonic_ns()))
        self._build = (version("mrc-testbed"), platform.python_version(), platform.release())
        self._own_metrics = process_metrics()

    def page(self) -> bytes:
        """The metrics of now, in the Prometheus text format."""
        with self._lock, _no_collection():
            begun_ns = time.thread_time_ns()
            text = self._writer.write(self._collect()) + self._own_metrics()
            self._cpu_ns += time.thread_time_ns() - begun_ns
            return text

    def close(self) -> None:
        with self._lock:
            self._watch.close()

    def _collect(self) -> Samples:
        samples: Samples = {
            testbed_metrics.BUILD_INFO.name: [(self._build, 1)],
            testbed_metrics.COLLECT_SECONDS.name: [((), self._cpu_ns / _NS_PER_SECOND)],
        }
        use = self._cpus.update(read_cpus(monotonic_ns()))
        if use:
            samples[testbed_metrics.HOST_SATURATED.name] = [((), int(is_saturated(use)))]
            samples[testbed_metrics.CPU_BUSY_RATIO.name] = [((cpu.cpu,), cpu.busy_ratio) for cpu in use]
            samples[testbed_metrics.CPU_SOFTIRQ_RATIO.name] = [((cpu.cpu,), cpu.softirq_ratio) for cpu in use]
        samples[testbed_metrics.LAB_UP.name] = [
            ((name,), int(self._collect_lab(name, samples))) for name in self._watch.names()
        ]
        return samples

    def _collect_lab(self, name: str, samples: Samples) -> bool:
        """Add the series of a lab; False if it is not up."""
        collector = self._watch.collector(name)
        if collector is None:
            return False
        try:
            self._attend(name)
            collector.collect(samples)
        except FabricError as error:
            _LOG.warning("lab %s cannot be read: %s", name, error)
        except Exception:  # noqa: BLE001 - whatever it is, the other labs are shown
            _LOG.exception("lab %s cannot be read", name)
        else:
            return True
        self._watch.forget(name)
        return False


@contextmanager
def _no_collection() -> Iterator[None]:
    """Have the garbage collector wait: a page makes objects by the ten thousand, and no cycles among them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def is_own_name(name: str) -> bool:
    """Return True for an address, which no name server can forge, and the machine's host name and FQDN.

    A name server may have said the latter: it is the host name with a domain, or does not count.
    """
    try:
        return bool(ip_address(name.strip("[]")))
    except ValueError:
        host = socket.gethostname().casefold()
        return name == host or (name.startswith(f"{host}.") and name == socket.getfqdn().casefold())


class MetricsServer(LocalServer):
    """Serves an exporter's pages over HTTP.

    Args:
        pages: served besides.
        known_as: names in lower case that requests may call it, at any port, besides its own.
    """

    def __init__(
        self,
        exporter: Exporter,
        address: str,
        port: int,
        pages: Pages = _NO_PAGES,
        known_as: Sequence[str] = (),
    ) -> None:
        self.exporter = exporter
        self._known_as = known_as
        self.pages = pages
        super().__init__(
            _Handler,
            address,
            port,
            what=f"metrics at {url_host(address)}:{port}",
            other_port="give another port with --port",
        )
        self._is_loopback = ip_address(str(self.server_address[0])).is_loopback

    @property
    def url(self) -> str:
        return f"http://{self.host}/metrics"

    def is_known(self, host: str) -> bool:
        """Beyond loopback also the machine's own names."""
        if super().is_known(host) or host.rsplit(":", 1)[0] in self._known_as:
            return True
        name, _, port = host.rpartition(":")
        return not self._is_loopback and port == str(self.server_address[1]) and is_own_name(name)


class _Handler(LocalHandler):
    server: MetricsServer
    timeout = 120  # seconds that an idle connection is kept for the next scrape

    def get(self) -> None:
        """Answers a GET request that is not refused."""
        page = self._page(self.path.partition("?")[0].removeprefix("/"))
        self.answer(*page)

    def _page(self, path: str) -> Page:
        first, _, rest = path.partition("/")
        make = self.server.pages.get(first)
        if make is not None:
            return make(rest)
        if path == "metrics":
            return self._metrics()
        listed = " ".join(f"/{name}" for name in ("metrics", *self.server.pages))
        return Page(HTTPStatus.NOT_FOUND if path else HTTPStatus.OK, f"{_INDEX}{listed}\n".encode())

    def _metrics(self) -> Page:
        try:
            return Page(HTTPStatus.OK, self.server.exporter.page(), CONTENT_TYPE)
        except Exception:  # noqa: BLE001 - the next scrape may succeed
            _LOG.exception("no metrics could be collected")
            return Page(HTTPStatus.INTERNAL_SERVER_ERROR, b"no metrics could be collected\n")


@contextmanager
def exporter_running(
    labs: Sequence[str] = (),
    address: str = DEFAULT_ADDRESS,
    port: int = DEFAULT_PORT,
    attend: Callable[[str], None] = lambda _: None,
    fault_kinds: Iterable[str] = (),
    pages: Pages = _NO_PAGES,
    known_as: Sequence[str] = (),
) -> Iterator[str]:
    """The URL of an exporter that serves in a thread of this process as long as the context lasts.

    The arguments are those of Exporter and MetricsServer.
    """
    exporter = Exporter(labs, attend, fault_kinds)
    try:
        with MetricsServer(exporter, address, port, pages, known_as) as server:
            thread = threading.Thread(target=server.serve_forever, name="exporter", daemon=True)
            thread.start()
            try:
                yield server.url
            finally:
                server.shutdown()
                thread.join()
    finally:
        exporter.close()
