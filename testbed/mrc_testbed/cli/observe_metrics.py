"""observe metrics: the exporter that Prometheus scrapes."""

import logging
import threading
from functools import partial
from typing import Final

from mrc_testbed.cli.observe_options import KnownAs
from mrc_testbed.cli.options import OBSERVE_COMMANDS, AddressOption, PortOption, Settings, command
from mrc_testbed.cli.render import say, write_out
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.paths import state_root
from mrc_testbed.faults.attendance import restore_reaper
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.metrics.exporter import DEFAULT_PORT, Pages, exporter_running
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS
from mrc_testbed.observe.prometheus import alert_pages
from mrc_testbed.observe.run_reports import report_page

_LOG: Final = logging.getLogger(__name__)
_READY: Final = "metrics of {labs} are at {url} (Ctrl-C ends)"


@command(OBSERVE_COMMANDS, "metrics", flags=("name",), needs_root=True)
def serve_metrics(
    settings: Settings,
    address: AddressOption = DEFAULT_ADDRESS,
    port: PortOption = DEFAULT_PORT,
    known_as: KnownAs = None,
) -> None:
    """Serve metrics for Prometheus, until Ctrl-C.

    Serves all labs, or with -n one. Reads the BPF maps at each scrape, so it may
    be started and stopped at any time. Prints the URL on stdout once it is ready.
    A scrape also restarts the fault reaper if that was killed. /alerts/NAME says
    what to do about an alert; /runs/RUN is the report of a run.

    [bold]Examples[/bold]

      mrc-testbed observe metrics &
      curl -s http://127.0.0.1:9847/metrics | grep mrc_goodput
    """
    labs = [settings.name] if settings.names_lab else []
    pages: Pages = {"alerts": alert_pages(), "runs": partial(report_page, state_root())}
    with exporter_running(labs, address, port, _attend, KINDS, pages, known_as or ()) as url:
        shown = f"lab {settings.name}" if settings.names_lab else "all labs"
        say(settings.stderr, _READY.format(labs=shown, url=url))
        write_out(settings, f"{url}\n")
        threading.Event().wait()


def _attend(lab: str) -> None:
    """Restart the fault reaper if needed; a failure is logged and metrics are served all the same."""
    try:
        for done in restore_reaper(lab):
            _LOG.warning("lab %s: %s", lab, done)
    except TestbedError as error:
        _LOG.warning("lab %s: %s", lab, error.message)
