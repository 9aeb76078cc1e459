"""A Grafana over its HTTP API: data source, folder, dashboards, annotations. The only place that talks to it.

Whatever it refuses becomes an error that says what to do; what was put there before the refusal stays, and
pushing again completes it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from mrc_testbed.errors import FabricError, PreflightError, UsageError
from mrc_testbed.extras import from_extra
from mrc_testbed.observe.grafana_server import (
    FOLDER_TITLE,
    FOLDER_UID,
    SOURCE_UID,
    dashboard_texts,
    data_source,
)
from mrc_testbed.observe.run_windows import FaultAnnotation

with from_extra("observe"):
    from grafana_client import GrafanaApi
    from grafana_client.client import GrafanaClientError, GrafanaException, GrafanaTimeoutError
    from niquests.exceptions import JSONDecodeError, RequestException

VERSION_MIN: Final = (10, 0)
TAG: Final = "mrc-testbed"

_TIMEOUT_S: Final = 10.0
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_CONFLICTS: Final = (409, 412)
_ACCESS_HINT: Final = (
    "make a service account with role Editor in Grafana (Administration > Users and access > Service"
    " accounts), or Admin for a data source too, and give its token in MRC_TESTBED_GRAFANA_TOKEN or with"
    " --token-file; or import by hand the dashboards that mrc-testbed observe export DIR writes"
)

Credential = str | tuple[str, str] | None
"""A token, or user and password."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Pushed:
    """The content of Grafana after a push."""

    source: str  # the data source was `created`, `updated`, or `refused`: only an Admin may make one
    dashboards: tuple[str, ...]  # their paths below Grafana's address


class Grafana:
    def __init__(self, url: str, credential: Credential) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(
                f"{url!r} is no address of a Grafana", hint="give one like http://127.0.0.1:3000"
            )
        prefix = f"{parts.path.strip('/')}/" if parts.path.strip("/") else ""
        self._api = GrafanaApi(
            credential,
            host=parts.hostname,
            port=parts.port,
            url_path_prefix=prefix,
            protocol=parts.scheme,
            timeout=_TIMEOUT_S,
        )
        try:
            self.version = self._asked_version()  # what it says it is
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._api.client.s.close()

    def push(self, prometheus_url: str) -> Pushed:
        """Puts data source, folder and dashboards there, or brings them up to date.

        Without the right to make data sources the rest is put there: dashboards choose one themselves.
        """
        source = self._push_source(prometheus_url)
        with self._explaining(f"the folder {FOLDER_TITLE!r}"):
            if _found(lambda: self._api.folder.get_folder(FOLDER_UID)) is None:
                self._api.folder.create_folder(FOLDER_TITLE, uid=FOLDER_UID)
        pushed = []
        for dashboard in checked_in_dashboards():
            with self._explaining(f"the dashboard {dashboard['title']!r}"):
                answer = self._api.dashboard.update_dashboard(
                    {
                        "dashboard": {**dashboard, "id": None},
                        "folderUid": FOLDER_UID,
                        "overwrite": True,
                        "message": "mrc-testbed",
                    }
                )
                pushed.append(str(answer["url"]))
        return Pushed(source, tuple(pushed))

    def annotate(self, windows: Sequence[FaultAnnotation], run: str) -> int:
        """Add the windows of a run that are not there yet; returns how many."""
        with self._explaining("annotations"):
            tag = f"run:{run}"
            known = {
                (entry["time"], entry["timeEnd"], entry["text"])
                for entry in self._api.annotations.find_annotations(tags=[tag], limit=len(windows) + 1000)
            }
            added = [
                window for window in windows if (window.start_ms, window.end_ms, window.text) not in known
            ]
            for window in added:
                self._api.annotations.add_annotation(
                    time_from=window.start_ms,
                    time_to=window.end_ms,
                    tags=[TAG, tag, f"fault:{window.fault_id}"],
                    text=window.text,
                )
        return len(added)

    def remove(self) -> bool:
        """Remove our folder, dashboards and data source; False if none was there."""
        with self._explaining("what mrc-testbed put there"):
            folder = _found(lambda: self._api.folder.delete_folder(FOLDER_UID))
            source = _allowed(
                lambda: _found(lambda: self._api.datasource.delete_datasource_by_uid(SOURCE_UID))
            )
        return folder is not None or source is not None

    def stored_dashboard(self, uid: str) -> dict[str, Any] | None:
        """A dashboard as Grafana has it; None if it has none of that uid."""
        with self._explaining(f"the dashboard {uid!r}"):
            answer = _found(lambda: self._api.dashboard.get_dashboard(uid))
        return None if answer is None else dict(answer["dashboard"])

    def settings(self) -> dict[str, Any]:
        """Grafana's settings for its own pages: `panels` by type, `datasources` by name."""
        with self._explaining("the settings"):
            found = self._api.client.GET("/frontend/settings")
        return found if isinstance(found, dict) else {}

    def query(self, source_uid: str, expression: str) -> tuple[str | None, bool]:
        """Why a query fails that Grafana asks of a Prometheus, or None; and whether it returned data."""
        asked = {
            "refId": "A",
            "datasource": {"type": "prometheus", "uid": source_uid},
            "expr": expression,
            "range": True,
            "intervalMs": 1000,
            "maxDataPoints": 300,
        }
        with self._explaining("a query"):
            try:
                body = {"queries": [asked], "from": "now-5m", "to": "now"}
                answer = self._api.client.POST("/ds/query", json=body)
            except GrafanaClientError as error:  # a query that Prometheus refuses has status 400
                answer = error.response if isinstance(error.response, dict) else {"message": str(error)}
        result = answer.get("results", {}).get("A", {"error": answer.get("message", "no result")})
        has_data = any(
            any(column) for frame in result.get("frames", ()) for column in frame["data"]["values"]
        )
        return result.get("error"), has_data

    def _asked_version(self) -> str:
        settings = self.settings()
        build = settings.get("buildInfo")
        version = str(build.get("version", "")) if isinstance(build, dict) else ""
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is None:
            raise FabricError(
                f"the service at {self.url} is not Grafana", hint="check the address and its prefix"
            )
        if (int(numbers[1]), int(numbers[2])) < VERSION_MIN:
            wanted = ".".join(map(str, VERSION_MIN))
            raise PreflightError(f"Grafana {version} at {self.url} is too old: {wanted} or newer is needed")
        return version

    def _push_source(self, prometheus_url: str) -> str:
        wanted = data_source(prometheus_url)

        def put() -> str:
            if _found(lambda: self._api.datasource.get_datasource_by_uid(SOURCE_UID)) is None:
                self._api.datasource.create_datasource(wanted)
                return "created"
            self._api.datasource.update_datasource_by_uid(SOURCE_UID, wanted)
            return "updated"

        with self._explaining("the data source"):
            return _allowed(put) or "refused"

    @contextmanager
    def _explaining(self, what: str) -> Iterator[None]:
        """Turns what goes wrong with *what* into an error that says what to do."""
        try:
            yield
        except GrafanaTimeoutError as error:
            raise FabricError(f"Grafana at {self.url} does not answer in {_TIMEOUT_S:g} s") from error
        except GrafanaException as error:
            raise self._refusal(what, error) from error
        except (JSONDecodeError, KeyError) as error:
            raise FabricError(
                f"the service at {self.url} is not Grafana: {error}", hint="check the address and its prefix"
            ) from error
        except RequestException as error:
            raise FabricError(
                f"no Grafana answers at {self.url}: {_reason(error)}",
                hint="check the address, and that Grafana runs",
            ) from error

    def _refusal(self, what: str, error: GrafanaException) -> Exception:
        said = _message(error)
        if error.status_code == _UNAUTHORIZED:
            return UsageError(f"Grafana at {self.url} does not accept the token: {said}", hint=_ACCESS_HINT)
        if error.status_code == _FORBIDDEN:
            return UsageError(
                f"the token may not change {what} in Grafana at {self.url}: {said}", hint=_ACCESS_HINT
            )
        if error.status_code in _CONFLICTS:
            return FabricError(
                f"Grafana at {self.url} has something else where {what} belongs: {said}",
                hint="rename or remove it there, then push again",
            )
        if isinstance(error, GrafanaClientError) and "provisioned" in said:
            return FabricError(
                f"{what} in Grafana at {self.url} is provisioned from files: {said}",
                hint="what `mrc-testbed observe up` starts is up to date by itself and needs no push",
            )
        return FabricError(f"Grafana at {self.url} refuses {what}: {said} (status {error.status_code})")


def checked_in_dashboards() -> list[dict[str, Any]]:
    """The ready dashboards, in the order of their files."""
    return [json.loads(text) for text in dashboard_texts().values()]


def _found(ask: Callable[[], Answer]) -> Answer | None:
    """The answer; None when Grafana does not know what is asked for."""
    return _unless(_NOT_FOUND, ask)


def _allowed(ask: Callable[[], Answer]) -> Answer | None:
    """The answer; None when the credential does not allow it."""
    return _unless(_FORBIDDEN, ask)


def _unless(status: int, ask: Callable[[], Answer]) -> Answer | None:
    try:
        return ask()
    except GrafanaClientError as error:
        if error.status_code == status:
            return None
        raise


def _message(error: GrafanaException) -> str:
    response = error.response
    return str(response["message"]) if isinstance(response, dict) and "message" in response else error.message


def _reason(error: BaseException) -> str:
    """The innermost cause in words: the outer ones repeat it with addresses of objects."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return str(error)
