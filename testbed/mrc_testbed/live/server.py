"""The live page: a web server for one lab and the people at this machine.

GET  /               the page; GET /assets/NAME its parts
GET  /api/fabric     the drawing and what it is of
GET  /api/paths      ?from=h0&to=h3: the paths between two hosts
GET  /api/events     server-sent events: an update per interval, the first with the history for plots
POST /api/fault      {kind, link | node | plane, seconds}: injects; needs the token
POST /api/clear      {id}: takes back, all faults by hand without an id; needs the token

A web page from elsewhere can make a browser send requests to 127.0.0.1. So besides what `refuse_headers` of
mrc_testbed.metrics.local_server asks of every request, one that comes from a page must come from our own, and
one that changes anything must carry the token, in a header that no foreign page can set without asking first;
nothing here ever answers such a question.
"""

import json
import secrets
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.live.control import ClearRequest, FaultRequest, LabControl
from mrc_testbed.live.feed import Feed
from mrc_testbed.live.page_data import fabric_document, paths_document, update_document
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS, LocalHandler, LocalServer, Refusal, SourceQuota
from mrc_testbed.report.page import asset

_ASSETS: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/assets/page.css": ("page.css", "text/css; charset=utf-8"),
    "/assets/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/assets/fabric.js": ("fabric.js", "text/javascript; charset=utf-8"),
    "/assets/number.js": ("number.js", "text/javascript; charset=utf-8"),
}
_CHART_ASSETS: Final = {
    "/assets/charts.css": ("charts.css", "text/css; charset=utf-8"),
    "/assets/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/assets/uPlot.css": ("uPlot.min.css", "text/css; charset=utf-8"),
    "/assets/uPlot.js": ("uPlot.iife.min.js", "text/javascript; charset=utf-8"),
}
"""Those of reports."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ANY: Final = ("", "0.0.0.0", "::")  # noqa: S104 # nosec B104 - to refuse them
_BODY_BYTES_MAX: Final = 4096
_STREAMS_MAX: Final = 32
_STREAMS_PER_SOURCE: Final = 8
_KEEP_ALIVE_S: Final = 15.0
PERMIT_HEADER: Final = "X-Mrc-Token"
_FOREIGN: Final = ("cross-site", "same-site")


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def refuse_origin(hosts: Collection[str], origin: str | None, fetch_site: str | None) -> Refusal | None:
    """Why a request is refused for the page that makes it; None if it is not.

    Args:
        hosts: names and ports under which this server is known, such as `127.0.0.1:8000`.
    """
    is_other = origin is not None and origin.casefold() not in {f"http://{name}" for name in hosts}
    if is_other or fetch_site in _FOREIGN:
        return Refusal(HTTPStatus.FORBIDDEN, "requests of other sites are refused")
    return None


def refuse_change(token: str, given: str | None, content_type: str | None) -> Refusal | None:
    """Why a request that changes something is refused, beyond `refuse_origin`; None if not."""
    if given is None or not secrets.compare_digest(given.encode(), token.encode()):
        return Refusal(
            HTTPStatus.UNAUTHORIZED, f"the {PERMIT_HEADER} header lacks the token that `serve` has printed"
        )
    if (content_type or "").partition(";")[0].strip() != "application/json":
        return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
    return None


class LiveServer(LocalServer):
    """Serves one lab's page."""

    def __init__(self, feed: Feed, address: str, port: int) -> None:
        self.feed = feed
        self.control = LabControl(feed.lab)
        self.token = new_token()  # what a request that changes something must carry
        self.streams = SourceQuota(_STREAMS_MAX, _STREAMS_PER_SOURCE)
        if address in _ANY:
            raise UsageError(
                f"the page is served at one address, not at all of them ({address})",
                hint="leave --address out, and reach the page from elsewhere by ssh -L",
            )
        super().__init__(
            _Handler,
            address,
            port,
            what=f"the page at {address} port {port}",
            other_port="leave --port out for any free one",
        )

    @property
    def url(self) -> str:
        """Address of the page with its token, which a browser keeps to itself: it stands behind a `#`."""
        return f"http://{self.host}/#{self.token}"


class _Handler(LocalHandler):
    server: LiveServer
    content_policy = _POLICY
    timeout = 60  # seconds that a client may take to send or to read

    def get(self) -> None:
        """Respond to a GET request that is not refused."""
        url = urlsplit(self.path)
        if url.path in _ASSETS:
            name, content_type = _ASSETS[url.path]
            self.answer(
                HTTPStatus.OK, files("mrc_testbed.live").joinpath("assets", name).read_bytes(), content_type
            )
        elif url.path in _CHART_ASSETS:
            name, content_type = _CHART_ASSETS[url.path]
            self.answer(HTTPStatus.OK, asset(name).encode(), content_type)
        elif url.path == "/api/events":
            self._stream()
        elif url.path in ("/api/fabric", "/api/paths"):
            self._try(lambda: self._read(url.path, url.query))
        else:
            self.refuse(Refusal(HTTPStatus.NOT_FOUND, "there is nothing here; see /"))

    def post(self) -> None:
        """Answers a POST request, if it may change something."""
        body = self._body()
        if body is None:
            return
        refusal = self.refusal() or refuse_change(
            self.server.token, self.headers.get(PERMIT_HEADER), self.headers.get("Content-Type")
        )
        if refusal is not None:
            self.refuse(refusal)
        elif self.path == "/api/fault":
            self._try(lambda: {"id": self.server.control.inject(FaultRequest.model_validate_json(body))})
        elif self.path == "/api/clear":
            self._try(lambda: {"ids": self.server.control.clear(ClearRequest.model_validate_json(body))})
        else:
            self.refuse(Refusal(HTTPStatus.NOT_FOUND, "there is nothing here; see /"))

    def refusal(self) -> Refusal | None:
        """Why this request is refused, whatever it wants; None if it is not."""
        headers = self.headers
        return super().refusal() or refuse_origin(
            self.server.hosts, headers.get("Origin"), headers.get("Sec-Fetch-Site")
        )

    def _body(self) -> bytes | None:
        """The request's body; None when it was refused for its length."""
        text = self.headers.get("Content-Length", "")
        if not (text.isascii() and text.isdigit() and int(text) <= _BODY_BYTES_MAX):
            self.close_connection = True
            self.refuse(
                Refusal(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"a body has at most {_BODY_BYTES_MAX} bytes",
                )
            )
            return None
        return self.rfile.read(int(text))

    def _read(self, path: str, query: str) -> dict[str, Any]:
        feed = self.server.feed
        clos = feed.clos
        if path == "/api/fabric":
            return fabric_document(feed.lab, clos, feed.interval_ns)
        given = parse_qs(query)
        try:
            [source], [target] = given["from"], given["to"]
        except (KeyError, ValueError) as error:
            raise UsageError("give two hosts, like ?from=h0&to=h1") from error
        return paths_document(clos, source, target)

    def _try(self, answer: Any) -> None:
        try:
            self._json(HTTPStatus.OK, answer())
        except ValidationError as error:
            reasons = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()
            )
            self.refuse(Refusal(HTTPStatus.BAD_REQUEST, reasons))
        except UsageError as error:
            self.refuse(Refusal(HTTPStatus.BAD_REQUEST, error.message))
        except TestbedError as error:
            self.refuse(Refusal(HTTPStatus.CONFLICT, error.message))

    def _stream(self) -> None:
        server = self.server
        if not server.streams.take(self, server.connections.source(self.connection)):
            self.refuse(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open"))
            return
        try:
            self.close_connection = True
            self.begin(HTTPStatus.OK, "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for text in self._updates() if self.has_body else ():
                self.wfile.write(text.encode())
        finally:
            server.streams.give_back(self)

    def _updates(self) -> Iterator[str]:
        feed, seen = self.server.feed, 0
        while not feed.is_over:
            update = feed.wait(seen, _KEEP_ALIVE_S)
            if update is None:
                yield ": still here\n\n"
                continue
            document = update_document(update, monotonic_ns(), with_history=seen == 0)
            seen = update.number
            yield f"data: {json.dumps(document, separators=(',', ':'))}\n\n"

    def _json(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        self.answer(status, json.dumps(document).encode(), "application/json")

    def refuse(self, refusal: Refusal) -> None:
        self._json(refusal.status, {"error": refusal.reason})


@contextmanager
def live_server(feed: Feed, address: str = DEFAULT_ADDRESS, port: int = 0) -> Iterator[LiveServer]:
    """A server that answers in a thread of this process as long as the context lasts."""
    with LiveServer(feed, address, port) as server:
        thread = threading.Thread(target=server.serve_forever, name="live-page", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
