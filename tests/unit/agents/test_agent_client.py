"""The client of an agent: answers, events between them, and every way in which an agent can let one down."""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from scripted_agent import answer, scripted_agent, send
from waiting import DEADLINE_NS

from mrc_agents.nic.client import MESSAGE_BYTES_MAX, AgentClient
from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import own_identity
from mrc_testbed.fabric.repair import silent_agents
from mrc_testbed.fabric.state import LabState, Phase, ProcessRecord, RuntimeName
from mrc_testbed.topology.spec import TopologySpec

SHORT_NS = 50_000_000

Requests = Iterator[dict[str, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


Reply = Callable[[dict[str, Any]], bytes | Iterable[object]]
"""Response of an agent to a request: bytes, or messages."""


@contextmanager
def agent_that(
    path: Path, *replies: Reply, timeout_ns: int = DEADLINE_NS, stays: bool = True
) -> Iterator[AgentClient]:
    """A client of an agent that says one thing after another, and then waits for the client to leave."""

    def script(connection: socket.socket, requests: Requests) -> None:
        for reply in replies:
            said = reply(next(requests))
            if isinstance(said, bytes):
                connection.sendall(said)
            else:
                send(connection, *said)
        if stays:
            next(requests, None)

    with scripted_agent(path, script), AgentClient(path, timeout_ns) as client:
        yield client


def test_call_sends_verb_and_arguments_and_returns_the_result(path: Path) -> None:
    asked: list[dict[str, Any]] = []

    def result(value: object) -> Reply:
        def reply(request: dict[str, Any]) -> list[object]:
            asked.append(request)
            return [answer(request, value)]

        return reply

    region = {"offset": 0, "length": 4096, "r_key": 77}
    with agent_that(path, *map(result, (region, [True, False], None, [{"work_id": 1}]))) as client:
        assert client.register_memory(4096) == region
        assert client.port_status() == [True, False]
        client.subscribe("receive", "qp_state")
        assert client.wait(256, 2 * SHORT_NS) == [{"work_id": 1}]  # the agent has its own time on top
    assert asked == [
        {"id": 1, "verb": "register_memory", "arguments": {"length": 4096}},
        {"id": 2, "verb": "port_status", "arguments": {}},
        {"id": 3, "verb": "subscribe", "arguments": {"kinds": ["receive", "qp_state"]}},
        {"id": 4, "verb": "wait", "arguments": {"qpn": 256, "wait_ns": 2 * SHORT_NS}},
    ]


@pytest.mark.parametrize(("said", "hint"), [("ask for more", "ask for more"), ([1], None)])
def test_refusal_is_a_usage_error_with_verb_and_a_hint_if_it_is_text(
    path: Path, said: object, hint: str | None
) -> None:
    refusal = {"error": "length: 0 bytes", "hint": said}
    with agent_that(path, lambda request: [{"id": request["id"], **refusal}]) as client:
        with pytest.raises(UsageError) as caught:
            client.register_memory(0)
        assert (caught.value.message, caught.value.hint) == ("register_memory: length: 0 bytes", hint)


@pytest.mark.parametrize(
    ("verb", "said", "message"),
    [
        ("hello", {"error": "not today"}, "does not identify itself"),
        ("hello", {"result": None}, "answers 'hello' with what is no dict"),
        ("hello", {"result": {"host": "h0"}}, "does not identify itself"),
        ("denied_paths", {"result": 5}, "answers 'denied_paths' with what is no list"),
        ("port_status", {}, "a response without a result"),
    ],
)
def test_answer_that_cannot_be_is_an_error_of_the_agent(
    path: Path, verb: str, said: dict[str, object], message: str
) -> None:
    with (
        agent_that(path, lambda request: [{"id": request["id"], **said}]) as client,
        pytest.raises(AgentError, match=message),
    ):
        getattr(client, verb)()


def test_an_agent_that_refuses_to_say_who_it_is_counts_as_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path))
    paths, here = lab_paths("lab"), own_identity()
    paths.node_folder("h0").mkdir(parents=True)
    agent = ProcessRecord(node="h0", pid=here.pid, start_ticks=here.start_ticks)
    state = LabState(
        name="lab",
        runtime=RuntimeName.NETNS,
        phase=Phase.UP,
        version="0",
        spec=TopologySpec(),
        processes=(agent,),
    )

    def script(connection: socket.socket, requests: Requests) -> None:
        send(connection, {"id": next(requests)["id"], "error": "not today"})

    with scripted_agent(paths.agent_socket("h0"), script):
        assert silent_agents(paths, state, ()) == {"h0"}


def test_an_event_in_the_same_bytes_as_an_answer_is_announced(path: Path) -> None:
    """No bytes are left to read then, so a reader that waits for the socket would wait for ever."""
    with agent_that(path, lambda request: [answer(request, {"r_key": 1}), {"event": "completion"}]) as client:
        assert not client.has_events
        client.register_memory(1)
        assert client.has_events
        assert list(client.drain_events()) == [{"event": "completion"}]
        assert not client.has_events


def test_events_around_an_answer_are_kept_in_order(path: Path) -> None:
    with agent_that(path, lambda asked: [{"event": "b"}, answer(asked, 5), {"event": "c"}]) as client:
        assert client.call("anything") == 5
        assert [client.next_event(DEADLINE_NS)["event"] for _ in range(2)] == ["b", "c"]


def test_answer_in_pieces_is_put_together(path: Path) -> None:
    def script(connection: socket.socket, requests: Requests) -> None:
        number = next(requests)["id"]
        for piece in (b'{"id": ', str(number).encode(), b', "result"', b': "whole"}\n{"event'):
            connection.sendall(piece)
        connection.sendall(b'": "tail"}\n')
        next(requests, None)

    with scripted_agent(path, script), AgentClient(path, DEADLINE_NS) as client:
        assert client.call("anything") == "whole"
        assert client.next_event(DEADLINE_NS) == {"event": "tail"}


def test_drain_takes_all_events_that_wait_and_does_not_block(path: Path) -> None:
    def script(connection: socket.socket, requests: Requests) -> None:
        for request in requests:
            send(connection, {"event": request["id"]}, {"event": -request["id"]}, answer(request, None))

    with scripted_agent(path, script), AgentClient(path, DEADLINE_NS) as client:
        assert list(client.drain_events()) == []
        client.subscribe()
        assert list(client.drain_events()) == [{"event": 1}, {"event": -1}]
        assert list(client.drain_events()) == []


def test_nobody_listens(path: Path) -> None:
    with pytest.raises(AgentError, match=r"no NIC agent answers on .*agent\.sock: No such file"):
        AgentClient(path)
    with socket.socket(socket.AF_UNIX) as deserted:
        deserted.bind(str(path))
    with pytest.raises(AgentError, match=r"no NIC agent answers on .*: Connection refused"):
        AgentClient(path)


@pytest.mark.parametrize("begun", [b"", b'{"id": 1, "resu'])
def test_agent_that_dies_before_it_has_answered(path: Path, begun: bytes) -> None:
    with agent_that(path, lambda _: begun, stays=False) as client:
        with pytest.raises(AgentError, match=r"the NIC agent at .*agent\.sock died"):
            client.hello()
        with pytest.raises(AgentError, match=r"is gone|died"):
            client.hello()


def test_dead_agent_is_noticed_while_events_are_drained(path: Path) -> None:
    with agent_that(path, lambda request: [answer(request, None)], stays=False) as client:
        client.subscribe()
        with pytest.raises(AgentError, match="died"):
            client.next_event(DEADLINE_NS)
        with pytest.raises(AgentError, match="died"):
            list(client.drain_events())


def test_agent_that_does_not_answer_in_time(path: Path) -> None:
    with agent_that(path, lambda _: [], timeout_ns=SHORT_NS) as client:
        with pytest.raises(AgentError, match="did not send a response to 'hello' in time"):
            client.hello()
        with pytest.raises(AgentError, match="did not send an event in time"):
            client.next_event(SHORT_NS)


def call_with_short_timeout(client: AgentClient) -> None:
    client.timeout_ns = SHORT_NS
    try:
        client.call("slow")
    finally:
        client.timeout_ns = DEADLINE_NS


def test_late_answer_is_taken_for_nothing_else(path: Path) -> None:
    def script(connection: socket.socket, requests: Requests) -> None:
        late = next(requests)
        send(connection, {"event": "first"})
        request = next(requests)
        send(connection, answer(late, "late"), answer(request, "timely"), {"event": "second"})
        late, request = next(requests), next(requests)
        send(connection, answer(late, "late"), {"event": "third"}, answer(request, "timely"))
        next(requests, None)

    with scripted_agent(path, script), AgentClient(path, DEADLINE_NS) as client:
        for _ in range(2):
            with pytest.raises(AgentError, match="a response to 'slow' in time"):
                call_with_short_timeout(client)
            assert client.call("quick") == "timely"
        events = list(client.drain_events())
        while len(events) < 3:
            events.append(client.next_event(DEADLINE_NS))
        assert [event["event"] for event in events] == ["first", "second", "third"]


def test_late_answer_is_no_event(path: Path) -> None:
    def script(connection: socket.socket, requests: Requests) -> None:
        late = next(requests)
        next(requests)
        send(connection, answer(late, "late"), {"event": "only"})
        send(connection, answer({"id": late["id"]}, "late again"))
        next(requests, None)

    with scripted_agent(path, script), AgentClient(path, DEADLINE_NS) as client:
        for _ in range(2):
            with pytest.raises(AgentError, match="a response to 'slow' in time"):
                call_with_short_timeout(client)
        assert client.next_event(DEADLINE_NS) == {"event": "only"}
        with pytest.raises(AgentError, match="in time"):
            client.next_event(SHORT_NS)


@pytest.mark.parametrize(
    "line", [b"not JSON\n", b"[1, 2]\n", b"7\n", b"\xff\xfe\n", b"\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_message_is_an_error_of_the_agent(path: Path, line: bytes) -> None:
    with (
        agent_that(path, lambda _: line) as client,
        pytest.raises(AgentError, match=r"agent\.sock sent an invalid message"),
    ):
        client.hello()


def test_cast_does_not_wait_and_a_refusal_of_it_comes_back_as_an_event(path: Path) -> None:
    refused = {"event": "refused", "verb": "post_write", "error": "no QP 256"}
    cast: list[dict[str, Any]] = []

    def refuse(request: dict[str, Any]) -> list[object]:
        cast.append(request)
        return [refused]

    with agent_that(path, refuse, lambda request: [answer(request, None)]) as client:
        client.cast("post_write", qpn=256)
        client.subscribe("receive")
        assert client.next_event(DEADLINE_NS) == refused
    assert cast == [{"verb": "post_write", "arguments": {"qpn": 256}}]


def test_message_without_end_is_not_kept(path: Path) -> None:
    def script(connection: socket.socket, requests: Requests) -> None:
        next(requests)
        with suppress(ConnectionError):
            for _ in range(2 * (MESSAGE_BYTES_MAX >> 20)):
                connection.sendall(bytes(1 << 20))

    with scripted_agent(path, script):
        client = AgentClient(path, DEADLINE_NS)
        with client, pytest.raises(AgentError, match=f"a message of over {MESSAGE_BYTES_MAX} bytes"):
            client.hello()
