"""`serve` and `top` on a lab: the page, an update, a fault that needs the token, a picture."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from typed_command import Command
from waiting import DEADLINE_S

from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.live.control import ClearRequest
from mrc_testbed.live.feed import Feed
from mrc_testbed.live.server import LiveServer, live_server, new_token
from mrc_testbed.topology.spec import TopologySpec

LAB_SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1)
LINK = "p0-t0-0:1~p0-t1-0:0"


@pytest.fixture
def server(lab_name: str) -> Iterator[LiveServer]:
    with Feed(lab_name, 100_000_000) as feed, live_server(feed) as served:
        yield served
        served.control.clear(ClearRequest())


def connect(server: LiveServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.host, timeout=DEADLINE_S)


def ask(server: LiveServer, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    connection = connect(server)
    text = None if body is None else json.dumps(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, text, {"Content-Type": "application/json"} | names)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    if answer.headers["Content-Type"] == "application/json":
        return answer.status, json.loads(found)
    return answer.status, found


def updates(server: LiveServer) -> Iterator[dict[str, Any]]:
    connection = connect(server)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    try:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
    finally:
        answer.close()
        connection.close()


def states_until(server: LiveServer, state: str) -> dict[str, Any]:
    """The first snapshot in which the link has that state."""
    for update in updates(server):
        snapshot: dict[str, Any] | None = update["snapshot"]
        if snapshot and {link["name"]: link["state"] for link in snapshot["links"]}[LINK] == state:
            return snapshot
    raise AssertionError("the stream has ended")


def test_the_page_and_its_parts_are_served(server: LiveServer) -> None:
    charts = [f"/assets/{name}" for name in ("charts.css", "charts.js", "uPlot.css", "uPlot.js")]
    for path in ("/", "/assets/page.css", "/assets/page.js", "/assets/fabric.js", *charts):
        status, body = ask(server, "GET", path)
        assert status == 200
        assert (
            b"https://" not in body.partition(b"*/")[2 if body[:3] == b"/*!" else 0]
        )  # nothing from elsewhere
    assert ask(server, "HEAD", "/")[0] == ask(server, "HEAD", "/api/events")[0] == 200
    assert ask(server, "GET", "/assets/../server.py")[0] == 404
    status, fabric = ask(server, "GET", "/api/fabric")
    assert status == 200
    assert all(f'data-name="{link}"' in fabric["svg"] for link in fabric["links"])


def test_a_fault_is_injected_and_cleared_with_the_token_only(server: LiveServer) -> None:
    states_until(server, "up")
    fault = {"kind": "link-down", "link": LINK, "seconds": 300}
    assert ask(server, "POST", "/api/fault", fault)[0] == 401
    assert ask(server, "POST", "/api/fault", fault, X_Mrc_Token=new_token())[0] == 401
    foreign = ask(server, "POST", "/api/fault", fault, X_Mrc_Token=server.token, Origin="http://evil.example")
    assert foreign[0] == 403
    assert states_until(server, "up")["faults"] == []

    status, added = ask(server, "POST", "/api/fault", fault, X_Mrc_Token=server.token)
    assert status == 200
    [shown] = states_until(server, "down")["faults"]
    assert shown["id"] == added["id"]

    assert ask(server, "POST", "/api/clear", {}, X_Mrc_Token=new_token())[0] == 401
    assert ask(server, "POST", "/api/clear", {}, X_Mrc_Token=server.token) == (200, {"ids": [added["id"]]})
    assert states_until(server, "up")["faults"] == []
    # the fault is gone before its end is recorded
    ended = (update for update in updates(server) if update["windows"][0]["end_ns"] is not None)
    update = next(ended)
    assert [window["fault_id"] for window in update["windows"]] == [added["id"]]
    assert any(f"fault {added['id']} (link-down) begins" in line["text"] for line in update["tail"])


def test_a_port_in_use_is_reported_and_the_page_that_has_it_goes_on(server: LiveServer) -> None:
    port = int(server.host.rpartition(":")[2])
    with pytest.raises(PreflightError, match=f"127.0.0.1 port {port}: Address already in use") as raised:
        LiveServer(server.feed, "127.0.0.1", port)
    assert "leave --port out" in str(raised.value.hint)
    with pytest.raises(UsageError, match="not at all of them"):
        LiveServer(server.feed, "0.0.0.0", 0)  # noqa: S104 - it is refused
    assert ask(server, "GET", "/")[0] == 200


def test_wrong_requests_are_explained(server: LiveServer) -> None:
    for body, why in (
        ({"kind": "link-down", "link": "nowhere"}, "nowhere"),
        ({"kind": "host-pause", "link": LINK}, "kind"),
        ({"kind": "blackhole", "node": "h0"}, "'blackhole' is not one of a host: host-pause"),
        ({"kind": "blackhole", "node": "p*-t1-0"}, "p*-t1-0"),
        ({"kind": "plane-down", "plane": 9}, "9"),
        ({"kind": "link-down"}, "name one place"),
        ({"kind": "link-down", "link": LINK, "node": "h0"}, "name one place"),
        ({"kind": "link-down", "link": LINK, "seconds": 1e9}, "seconds"),
        ([], "object"),
    ):
        status, answer = ask(server, "POST", "/api/fault", body, X_Mrc_Token=server.token)
        assert status == 400
        assert why in answer["error"]
    assert ask(server, "POST", "/api/clear", {"id": "none"}, X_Mrc_Token=server.token)[0] == 409
    assert ask(server, "POST", "/api/fault", "x" * 5000, X_Mrc_Token=server.token)[0] == 413
    assert ask(server, "GET", "/api/paths?from=h0&to=h0")[0] == 400
    assert ask(server, "GET", "/api/fabric", Host="evil.example")[0] == 403


def test_paths_of_a_pair_cross_links_of_the_drawing(server: LiveServer) -> None:
    status, found = ask(server, "GET", "/api/paths?from=h0&to=h1")
    assert status == 200
    assert len(found["paths"]) == 2 * 2
    names = {link.name for link in server.feed.clos.links()}
    assert {link for path in found["paths"] for link in path["links"]} == names


def test_top_prints_one_picture_where_there_is_no_terminal(command: Command) -> None:
    picture = command("top", "-i", "100ms")
    assert "no fault is active" in picture
    assert LINK in picture
    command("fault", "add", "link-down", "--link", LINK, "--until", "cleared", "--id", "cut")
    try:
        snapshot = command.json("top", "--once", "-i", "100ms")["snapshot"]
    finally:
        command("fault", "clear", "cut")
    assert [fault["id"] for fault in snapshot["faults"]] == ["cut"]
    assert {link["name"]: link["state"] for link in snapshot["links"]}[LINK] == "down"
    command("top", "--interval", "1ms", status=2)
