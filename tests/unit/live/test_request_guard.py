"""Who may ask the live page for what."""

from http import HTTPStatus

import pytest

from testbed.live.request_guard import new_token, refuse_change, refuse_request

HOSTS = {"127.0.0.1:8000", "localhost:8000"}
OWN = "http://127.0.0.1:8000"


@pytest.mark.parametrize("host", sorted(HOSTS))
@pytest.mark.parametrize("origin", [None, OWN, "http://localhost:8000"])
@pytest.mark.parametrize("fetch_site", [None, "none", "same-origin"])
def test_our_own_page_is_answered(host: str, origin: str | None, fetch_site: str | None) -> None:
    assert refuse_request(HOSTS, host, origin, fetch_site) is None


@pytest.mark.parametrize(
    ("host", "origin", "fetch_site"),
    [
        (None, None, None),
        ("evil.example:8000", None, None),
        ("127.0.0.1", None, None),
        ("127.0.0.1:8000", "http://evil.example", None),
        ("127.0.0.1:8000", "https://127.0.0.1:8000", None),
        ("127.0.0.1:8000", "null", None),
        ("127.0.0.1:8000", "http://127.0.0.1:8001", None),
        ("127.0.0.1:8000", None, "cross-site"),
        ("127.0.0.1:8000", None, "same-site"),
    ],
)
def test_others_are_refused(host: str | None, origin: str | None, fetch_site: str | None) -> None:
    refusal = refuse_request(HOSTS, host, origin, fetch_site)
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
