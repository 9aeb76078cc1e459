"""The page of alerts, served in parts: what an alert means and what to do."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from mrc_testbed.installation import shipped
from mrc_testbed.metrics.exporter import Page
from mrc_testbed.observe.prometheus import RUNBOOK

_SECTION: Final = re.compile(r"^## (\w+)\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def alert_pages() -> Callable[[str], Page]:
    """The function from an alert's name, in any case, to its section; from no name to the whole page."""
    text = shipped(RUNBOOK).read_text(encoding="utf-8")
    parts = {found[1].casefold(): found[0].rstrip() + "\n" for found in _SECTION.finditer(text)}
    parts[""] = text

    def page(name: str) -> Page:
        part = parts.get(name.casefold())
        if part is None:
            return Page(HTTPStatus.NOT_FOUND, b"no alert has this name; /alerts has them all\n")
        return Page(HTTPStatus.OK, part.encode())

    return page
