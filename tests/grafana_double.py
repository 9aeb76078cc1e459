"""A stand-in for Grafana's HTTP API: the paths that we use, its answers and its refusals.

Written from the reference of the HTTP API; what a real Grafana thinks of us is notified by
`mrc-testbed up --observe` on a machine that has one.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "glsa_right"  # noqa: S105 - of the double
PANEL_TYPES = ("bargauge", "heatmap", "stat", "state-timeline", "table", "timeseries")
Json = dict[str, Any]
Answer = tuple[int, Any]


@dataclass
class GrafanaDouble:
    """The state and the behaviour of the double."""

    version: str = "11.6.14"  # what it says it is; empty for a server that is no Grafana
    # of the token: Admin; Editor, which has no data sources; or Viewer, which may change nothing
    role: str = "Admin"
    taken_title: str = ""  # title of a dashboard that somebody else has in our folder
    taken_source: bool = False  # whether somebody else has a data source of our name
    is_provisioned: bool = False  # whether the dashboards came from files
    is_broken: bool = False  # whether it answers nothing but errors
    answers_left: int | None = None  # after so many answers it hangs up without one; None: never
    panel_types: tuple[str, ...] = PANEL_TYPES  # that it has
    refused_queries: tuple[str, ...] = ()  # parts of queries that Prometheus refuses
    asked: list[str] = field(default_factory=list)  # expressions of the queries so far
    prefix: str = ""
    url: str = ""
    requests: list[str] = field(default_factory=list)  # method and path of each request so far
    sources: dict[str, Json] = field(default_factory=dict)
    folders: dict[str, Json] = field(default_factory=dict)
    dashboards: dict[str, Json] = field(default_factory=dict)
    annotations: list[Json] = field(default_factory=list)

    def answer(self, method: str, target: str, body: Any, token: str) -> Answer:
        """Status and content for one request."""
        parts = urlsplit(target)
        path = parts.path.removeprefix(self.prefix)
        self.requests.append(f"{method} {path}")
        early = self._early_answer(method, path, token)
        if early is not None:
            return early
        for pattern, handle in self._routes().items():
            found = re.fullmatch(pattern, f"{method} {path}")
            if found:
                answer: Answer = handle(body, parse_qs(parts.query), *found.groups())
                return answer
        return 404, {"message": "Not found"}

    def _early_answer(self, method: str, path: str, token: str) -> Answer | None:
        """The response that needs no look at the request."""
        is_known = token == f"Bearer {TOKEN}"
        early: Answer | None = None
        if not self.version:
            early = 200, "<html>hello</html>"
        elif self.is_broken:
            early = 500, {"message": "database is locked"}
        elif path == "/api/health":
            early = 200, {"database": "ok", "version": self.version}
        elif not is_known:
            early = 401, {"message": "Invalid API key"}
        elif path == "/api/frontend/settings":
            early = 200, self._settings()
        elif (method != "GET" and self.role == "Viewer" and path != "/api/ds/query") or (
            "/api/datasources" in path and self.role != "Admin"
        ):
            early = 403, {"message": "You'll need additional permissions to perform this action"}
        return early

    def _routes(self) -> dict[str, Any]:
        return {
            r"GET /api/datasources/uid/([\w-]+)": self._get_source,
            r"POST /api/datasources": self._add_source,
            r"PUT /api/datasources/uid/([\w-]+)": self._set_source,
            r"DELETE /api/datasources/uid/([\w-]+)": self._delete_source,
            r"POST /api/ds/query": self._query,
            r"GET /api/dashboards/uid/([\w-]+)": self._get_dashboard,
            r"GET /api/folders/([\w-]+)": self._get_folder,
            r"POST /api/folders": self._add_folder,
            r"DELETE /api/folders/([\w-]+)": self._delete_folder,
            r"POST /api/dashboards/db": self._save_dashboard,
            r"GET /api/annotations": self._find_annotations,
            r"POST /api/annotations": self._add_annotation,
        }

    def _settings(self) -> Json:
        sources = {
            one["name"]: {"uid": one["uid"], "type": one["type"], "name": one["name"]}
            for one in self.sources.values()
        }
        return {
            "buildInfo": {"version": self.version, "edition": "Open Source"},
            "panels": {kind: {"id": kind} for kind in self.panel_types},
            "datasources": {**sources, "-- Grafana --": {"uid": "grafana", "type": "datasource"}},
            "defaultDatasource": next(iter(sources), "-- Grafana --"),
        }

    def _query(self, body: Json, _query: Json) -> Answer:
        (query,) = body["queries"]
        if query["datasource"]["uid"] not in self.sources:
            return 404, {"message": "data source not found"}
        self.asked.append(query["expr"])
        if any(part in query["expr"] for part in self.refused_queries):
            return 400, {"results": {"A": {"status": 400, "error": "bad_data: parse error"}}}
        frame = {"schema": {}, "data": {"values": [[1_780_000_000_000], [1.0]]}}
        return 200, {"results": {"A": {"status": 200, "frames": [frame]}}}

    def _get_dashboard(self, _: Any, _query: Json, uid: str) -> Answer:
        if uid not in self.dashboards:
            return 404, {"message": "Dashboard not found"}
        stored = self.dashboards[uid]
        return 200, {"dashboard": {**stored["dashboard"], "version": stored["version"]}, "meta": {}}

    def _get_source(self, _: Any, _query: Json, uid: str) -> Answer:
        return (
            (200, self.sources[uid]) if uid in self.sources else (404, {"message": "Data source not found"})
        )

    def _add_source(self, body: Json, _query: Json) -> Answer:
        if self.taken_source:
            return 409, {"message": "data source with the same name already exists"}
        self.sources[body["uid"]] = body
        return 200, {"datasource": body, "message": "Datasource added"}

    def _set_source(self, body: Json, _query: Json, uid: str) -> Answer:
        self.sources[uid] = body
        return 200, {"datasource": body, "message": "Datasource updated"}

    def _delete_source(self, _: Any, _query: Json, uid: str) -> Answer:
        if self.sources.pop(uid, None) is None:
            return 404, {"message": "Data source not found"}
        return 200, {"message": "Data source deleted"}

    def _get_folder(self, _: Any, _query: Json, uid: str) -> Answer:
        return (200, self.folders[uid]) if uid in self.folders else (404, {"message": "folder not found"})

    def _add_folder(self, body: Json, _query: Json) -> Answer:
        if body["uid"] in self.folders:
            return 412, {"message": "the folder has been changed by someone else"}
        self.folders[body["uid"]] = body
        return 200, body

    def _delete_folder(self, _: Any, _query: Json, uid: str) -> Answer:
        if self.folders.pop(uid, None) is None:
            return 404, {"message": "folder not found"}
        self.dashboards = {key: one for key, one in self.dashboards.items() if one["folderUid"] != uid}
        return 200, {"message": "Folder deleted"}

    def _save_dashboard(self, body: Json, _query: Json) -> Answer:
        one = body["dashboard"]
        if self.is_provisioned:
            return 400, {"message": "Cannot save provisioned dashboard"}
        if one["title"] == self.taken_title:
            return 412, {"status": "name-exists", "message": "A dashboard with the same name already exists"}
        if body["folderUid"] not in self.folders:
            return 404, {"message": "folder not found"}
        known = self.dashboards.get(one["uid"])
        if known is not None and not body.get("overwrite"):
            return 412, {"status": "version-mismatch", "message": "The dashboard has been changed"}
        version = known["version"] + 1 if known else 1
        self.dashboards[one["uid"]] = {**body, "version": version}
        url = f"{self.prefix}/d/{one['uid']}/{one['title'].lower().replace(' / ', '-')}"
        return 200, {"uid": one["uid"], "url": url, "status": "success", "version": version}

    def _find_annotations(self, _: Any, query: Json) -> Answer:
        wanted = set(query.get("tags", []))
        return 200, [one for one in self.annotations if wanted <= set(one["tags"])]

    def _add_annotation(self, body: Json, _query: Json) -> Answer:
        self.annotations.append(body)
        return 200, {"message": "Annotation added", "id": len(self.annotations)}


@contextmanager
def serving(double: GrafanaDouble, port: int = 0) -> Iterator[GrafanaDouble]:
    """The double, listening at its `url` as long as the context lasts; at any free port if it is 0."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and content in one segment, which waits for no delayed ACK

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            if double.answers_left is not None:
                if double.answers_left == 0:
                    self.close_connection = True
                    return
                double.answers_left -= 1
            token = self.headers.get("Authorization", "")
            status, content = double.answer(self.command, self.path, json.loads(raw) if raw else None, token)
            is_text = isinstance(content, str)
            answer = content.encode() if is_text else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if is_text else "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            self.handle_any()

        def do_POST(self) -> None:
            self.handle_any()

        def do_PUT(self) -> None:
            self.handle_any()

        def do_DELETE(self) -> None:
            self.handle_any()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        double.url = f"http://127.0.0.1:{server.server_address[1]}{double.prefix}"
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()
