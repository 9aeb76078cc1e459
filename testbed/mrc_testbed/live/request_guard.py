"""Which requests a page of this machine may make. Pure.

A web page from elsewhere can make a browser send requests to 127.0.0.1. So besides what `refuse_headers` of
mrc_testbed.metrics.local_server asks of every request, one that comes from a page must come from our own, and
one that changes anything must carry the token, in a header that no foreign page can set without asking first;
nothing here ever answers such a question.
"""

import secrets
from collections.abc import Collection
from http import HTTPStatus
from typing import Final

from mrc_testbed.metrics.local_server import Refusal

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
    """Why a request that changes something is refused, beyond `refuse_origin`; None if not.

    Args:
        token: what it must carry.
        given: what it carries.
    """
    if given is None or not secrets.compare_digest(given.encode(), token.encode()):
        return Refusal(
            HTTPStatus.UNAUTHORIZED, f"the {PERMIT_HEADER} header lacks the token that `serve` has printed"
        )
    if (content_type or "").partition(";")[0].strip() != "application/json":
        return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
    return None
