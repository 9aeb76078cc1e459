"""All dashboards, and the text of their files."""

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import UID_PREFIX
from dashboards.fabric import fabric
from dashboards.faults import faults
from dashboards.health import health
from dashboards.overview import overview
from dashboards.planes import planes
from dashboards.tail_latency import tail_latency
from dashboards.workloads import workloads

JSON_FOLDER: Final = Path(__file__).parent / "json"


def dashboards() -> tuple[Dashboard, ...]:
    """In the order in which one reads them."""
    return (overview(), tail_latency(), planes(), fabric(), faults(), workloads(), health())


def dashboard_files() -> dict[str, str]:
    """File name -> content."""
    return {f"{str(one.uid).removeprefix(UID_PREFIX)}.json": _text(one) for one in dashboards()}


def _text(one: Dashboard) -> str:
    return json.dumps(one, cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
