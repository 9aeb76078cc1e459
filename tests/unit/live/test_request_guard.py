"""The requests that the live page serves, and to whom."""

from email.message import Message
from http import HTTPStatus

import pytest

from mrc_testbed.live.server import new_token, refuse_change, refuse_origin
from mrc_testbed.metrics.local_server import refuse_headers

HOSTS = {"127.0.0.1:8000", "localhost:8000"}
OWN = "http://127.0.0.1:8000"


def headers(*lines: tuple[str, str]) -> Message:
    made = Message()
    for name, value in lines:
        made[name] = value
    return made


@pytest.mark.parametrize("host", sorted(HOSTS))
@pytest.mark.parametrize("origin", [None, OWN, "http://localhost:8000"])
@pytest.mark.parametrize("fetch_site", [None, "none", "same-origin"])
def test_our_own_page_is_answered(host: str, origin: str | None, fetch_site: str | None) -> None:
    assert refuse_headers(HOSTS.__contains__, headers(("Host", host))) is None
    assert refuse_origin(HOSTS, origin, fetch_site) is None


@pytest.mark.parametrize("given", [(), ("evil.example:8000",), ("127.0.0.1",), ("127.0.0.1:8001",)])
def test_a_request_for_another_host_is_refused(given: tuple[str, ...]) -> None:
    refusal = refuse_headers(HOSTS.__contains__, headers(*(("Host", host) for host in given)))
    assert refusal is not None
    assert refusal.status is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "name", ["Host", "host", "Origin", "Sec-Fetch-Site", "Content-Length", "Content-Type"]
)
def test_a_header_that_is_judged_is_given_once(name: str) -> None:
    twice = headers(("Host", "127.0.0.1:8000"), (name, "127.0.0.1:8000"), (name.upper(), "127.0.0.1:8000"))
    refusal = refuse_headers(HOSTS.__contains__, twice)
    assert refusal is not None
    assert refusal.status is HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        ("http://evil.example", None),
        ("https://127.0.0.1:8000", None),
        ("null", None),
        ("http://127.0.0.1:8001", None),
        (None, "cross-site"),
        (None, "same-site"),
    ],
)
def test_pages_from_elsewhere_are_refused(origin: str | None, fetch_site: str | None) -> None:
    refusal = refuse_origin(HOSTS, origin, fetch_site)
    assert refusal is not None
    assert refusal.status is HTTPStatus.FORBIDDEN


def test_a_change_needs_the_token_and_json() -> None:
    token = new_token()
    assert refuse_change(token, token, "application/json; charset=utf-8") is None
    for given in (None, "", token[:-1], token + "x", new_token(), "é"):
        refusal = refuse_change(token, given, "application/json")
        assert refusal is not None
        assert refusal.status is HTTPStatus.UNAUTHORIZED
    for content_type in (None, "text/plain", "application/x-www-form-urlencoded"):
        refusal = refuse_change(token, token, content_type)
        assert refusal is not None
        assert refusal.status is HTTPStatus.UNSUPPORTED_MEDIA_TYPE
