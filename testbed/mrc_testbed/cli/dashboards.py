"""observe dashboards push | check | annotate | remove: a Grafana of the user's own."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.observe_options import GrafanaUrl, PrometheusUrl, TokenFile, read_token
from mrc_testbed.cli.options import OBSERVE_COMMANDS, Settings, command
from mrc_testbed.cli.render import bad, good, plain_table, show
from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS
from mrc_testbed.observe.grafana_server import GRAFANA_VERSION
from mrc_testbed.observe.run_windows import read_run_windows
from mrc_testbed.observe.stack_state import (
    DEFAULT_PROMETHEUS_PORT,
    ServiceName,
    StackState,
    read_stack,
    stack_paths,
)

if TYPE_CHECKING:
    from mrc_testbed.observe.grafana_api import Grafana


app = typer.Typer(no_args_is_help=True, help="Manage the dashboards in a Grafana of your own.")
OBSERVE_COMMANDS.add_typer(app, name="dashboards")


@command(app, "push")
def push(
    settings: Settings,
    grafana_url: GrafanaUrl = None,
    prometheus_url: PrometheusUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Create or update data source, folder and dashboards in a Grafana.

    The default addresses are those of `observe up`. The token needs role Editor;
    without Admin no data source is created: choose one at the top of a dashboard.

    [bold]Examples[/bold]

      export MRC_TESTBED_GRAFANA_TOKEN=glsa_...
      mrc-testbed observe dashboards push --grafana-url http://127.0.0.1:3000
    """
    state = read_stack(stack_paths())
    prometheus = state.service(ServiceName.PROMETHEUS) if state is not None else None
    usual = f"http://{DEFAULT_ADDRESS}:{DEFAULT_PROMETHEUS_PORT}"
    source = prometheus_url or (usual if prometheus is None else prometheus.url)
    with _grafana(settings, state, grafana_url, token_file) as grafana:
        pushed = grafana.push(source)
        item: dict[str, Any] = {
            "grafana": grafana.url,
            "version": grafana.version,
            "schema": GRAFANA_VERSION,
            "source": pushed.source,
            "prometheus": source,
            "dashboards": [grafana.url + path for path in pushed.dashboards],
        }

    def table() -> RenderableType:
        return Group(
            *(Text(url) for url in item["dashboards"]),
            Text(
                "no data source made, which takes role Admin: choose yours at the top of a dashboard"
                if pushed.source == "refused"
                else f"data source {pushed.source}: {source}"
            ),
        )

    show(settings, "DashboardsPushed", item, table)


@command(app, "check", flags=("name",))
def check(
    settings: Settings,
    grafana_url: GrafanaUrl = None,
    token_file: TokenFile = None,
    data_source: Annotated[
        str | None,
        typer.Option(
            "--data-source", metavar="NAME", help="Grafana's data source (default: ours, else its default)."
        ),
    ] = None,
) -> int:
    """Check that the dashboards work in a Grafana.

    Checks that it has their panel types, stores them unchanged, and evaluates
    every query. The exit status is 1 on a problem.

    [bold]Examples[/bold]

      mrc-testbed observe dashboards check --grafana-url http://127.0.0.1:3000
    """
    with _grafana(settings, read_stack(stack_paths()), grafana_url, token_file) as grafana:
        from mrc_testbed.observe.grafana_check import check_dashboards  # noqa: PLC0415 - as Grafana's

        settings.progress("asking every query of the dashboards")
        found = check_dashboards(grafana, settings.name, data_source)
        item: dict[str, Any] = {
            "grafana": grafana.url,
            "version": grafana.version,
            "schema": GRAFANA_VERSION,
            "dashboards": [asdict(each) for each in found],
        }

    def table() -> RenderableType:
        rows = plain_table("dashboard", "#panels", "#queries", "#with data", "")
        for each in found:
            state = bad(f"{len(each.problems)} problems") if each.problems else good("works")
            rows.add_row(each.title, str(each.panels), str(each.queries), str(each.with_data), state)
        problems = (f"! {each.title}: {problem}" for each in found for problem in each.problems)
        return Group(
            Text(f"Grafana {item['version']} at {item['grafana']}; dashboards of Grafana {item['schema']}"),
            rows,
            *(Text(line, style="red") for line in problems),
        )

    show(settings, "DashboardsChecked", item, table)
    return ExitCode.ERROR if any(each.problems for each in found) else ExitCode.PASS


@command(app, "annotate")
def annotate(
    settings: Settings,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Result folder, like runs/t0-t1-flap/latest.")],
    grafana_url: GrafanaUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Add the fault windows of a run to a Grafana, with their exact times.

    Skips windows that are there already.

    [bold]Examples[/bold]

      mrc-testbed observe dashboards annotate runs/t0-t1-flap/latest
    """
    windows = read_run_windows(run)
    with _grafana(settings, read_stack(stack_paths()), grafana_url, token_file) as grafana:
        added = grafana.annotate(windows.windows, windows.run)
        item: dict[str, Any] = {
            "grafana": grafana.url,
            "run": windows.run,
            "windows": len(windows.windows),
            "added": added,
        }
    text = f"{added} of the {len(windows.windows)} fault windows of {windows.run} added"
    show(settings, "RunAnnotated", item, lambda: Text(text))


@command(app, "remove")
def remove(settings: Settings, grafana_url: GrafanaUrl = None, token_file: TokenFile = None) -> None:
    """Remove folder, dashboards and data source from a Grafana; annotations stay.

    [bold]Examples[/bold]

      mrc-testbed observe dashboards remove --grafana-url http://127.0.0.1:3000
    """
    with _grafana(settings, read_stack(stack_paths()), grafana_url, token_file) as grafana:
        existed = grafana.remove()
        item: dict[str, Any] = {"grafana": grafana.url, "existed": existed}
    text = "the dashboards are removed" if existed else "there were no dashboards of ours"
    show(settings, "DashboardsRemoved", item, lambda: Text(text))


@contextmanager
def _grafana(
    settings: Settings, state: StackState | None, given: str | None, token_file: Path | None
) -> Iterator["Grafana"]:
    from mrc_testbed.observe.grafana_api import Grafana  # noqa: PLC0415 - needs an extra, which `--help` does not

    service = state.service(ServiceName.GRAFANA) if state is not None else None
    if given is not None:
        url = given.rstrip("/")
    elif service is not None:
        url = service.url
    else:
        raise UsageError(
            "no Grafana is given, and the stack has none",
            hint="give its address with --grafana-url, or start one: mrc-testbed observe up",
        )
    if service is not None and service.url == url and service.kind != "own":
        password = stack_paths().password_file.read_text(encoding="ascii")
        credential: str | tuple[str, str] = ("admin", password)
    else:
        credential = read_token(token_file)
    settings.progress(f"asking Grafana at {url}")
    with closing(Grafana(url, credential)) as grafana:
        yield grafana
