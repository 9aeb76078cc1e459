"""Which requests a page of this machine may make. Pure.

A web page from elsewhere can make a browser send requests to 127.0.0.1, and a name of its own can be made to
point there (DNS rebinding). So every request must name this server as its host, one that comes from a page
must come from our own, and one that changes anything must carry the token, in a header that no foreign page
can set without asking first; nothing here ever answers such a question.
"""

import secrets
from collections.abc import Collection
from http import HTTPStatus
from typing import Final, NamedTuple

PERMIT_HEADER: Final = "X-Mrc-Token"
_FOREIGN: Final = ("cross-site", "same-site")


class Refusal(NamedTuple):
    """Why a request is refused."""

    status: HTTPStatus
    reason: str


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def refuse_request(
    hosts: Collection[str], host: str | None, origin: str | None, fetch_site: str | None
) -> Refusal | None:
    """Why a request is refused, whatever it wants; None if it is not.

    Args:
        hosts: names and ports under which this server is known, such as `127.0.0.1:8000`.
        host: the request's Host header.
        origin: its Origin header.
        fetch_site: its Sec-Fetch-Site header.
    """
    if host is None or host.casefold() not in hosts:
        return Refusal(HTTPStatus.FORBIDDEN, "this server is not known by that host name")
    if origin is not None and origin.casefold() not in {f"http://{name}" for name in hosts}:
        return Refusal(HTTPStatus.FORBIDDEN, "requests of other sites are refused")
    if fetch_site in _FOREIGN:
        return Refusal(HTTPStatus.FORBIDDEN, "requests of other sites are refused")
    return None


def refuse_change(token: str, given: str | None, content_type: str | None) -> Refusal | None:
    """Why a request that changes something is refused, beyond `refuse_request`; None if it is not.

    Args:
        token: what it must carry.
        given: what it carries.
        content_type: its Content-Type header.
    """
    if given is None or not secrets.compare_digest(given.encode(), token.encode()):
        return Refusal(
            HTTPStatus.UNAUTHORIZED, f"the {PERMIT_HEADER} header lacks the token that `serve` has printed"
        )
    if (content_type or "").partition(";")[0].strip() != "application/json":
        return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
    return None
