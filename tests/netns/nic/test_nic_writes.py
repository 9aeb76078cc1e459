"""Writes between NICs of a live lab: every byte where it belongs; requests that are none."""

import json
import socket

import pytest
from nic_lab import BATCH, DISTANT, NEIGHBOURS, WritePair
from waiting import DEADLINE_S

from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.live import Lab


@pytest.mark.parametrize("hosts", [NEIGHBOURS, DISTANT], ids=["same T0", "across a T1"])
@pytest.mark.parametrize("length", [1, 2047, 2048, 2049, 100_001])
def test_bytes_arrive_where_they_belong(live: Lab, hosts: tuple[str, str], length: int) -> None:
    with WritePair(live, hosts, length) as pair:
        pair.write(BATCH)
        assert pair.wrong_bytes() == 0


def test_frames_serve_packets_of_any_size_in_turn(live: Lab) -> None:
    """A frame carries a small packet, an answer and a full one in turn, and never runs out of room."""
    lengths = (2048, 1, 600, 2048, 1100, 90, 2048, 1500, 900, 2049, 300, 4000) * 5
    rounds, iterations = 5, 100  # so many that a request has been posted before the one ahead ends
    with WritePair(live, DISTANT, max(lengths), window_packets=5) as pair:
        place = {
            "local_offset": pair.local["offset"],
            "remote_offset": pair.MARGIN_BYTES,
            "r_key": pair.remote["r_key"],
        }
        ends = (pair.source, pair.target)
        before = [end.counters() for end in ends]
        for _ in range(rounds):
            posted = [
                pair.source.post_write(pair.qpn, length=length, iterations=iterations, **place)
                for length in lengths
            ]
            assert {pair.complete(work_id)["status"] for work_id in posted} == {"success"}
        after = [end.counters() for end in ends]
    assert [now["drop_length"] - then["drop_length"] for then, now in zip(before, after, strict=True)] == [
        0,
        0,
    ]
    assert after[0]["tx_data"] - before[0]["tx_data"] >= rounds * iterations * len(lengths)


def test_what_is_no_request_is_answered_and_the_connection_lives(live: Lab) -> None:
    lines = [
        b"nonsense",
        b"",
        b"[]",
        b"7",
        b"null",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"id": 1}',
        b'{"id": 1, "verb": ["hello"]}',
        b'{"id": 1, "verb": "no_such_verb"}',
        b'{"id": 1, "verb": "hello", "arguments": [1]}',
        b'{"id": 1, "verb": "hello", "arguments": {"who": 1}}',
        b'{"id": 1, "verb": "register_memory", "arguments": {"length": "much"}}',
        b'{"id": 1, "verb": "register_memory", "arguments": {"length": 1.5}}',
        b'{"id": 1, "verb": "create_qp", "arguments": {"peer_host": null, "evs": {}}}',
        b'{"id": 1, "verb": "wait", "arguments": {"qpn": 999, "wait_ns": 1}}',
    ]
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(DEADLINE_S)
        raw.connect(str(live.paths.agent_socket("h0")))
        with raw.makefile("rb") as answers:
            for line in lines:
                raw.sendall(line + b"\n")
                answer = json.loads(answers.readline())
                assert set(answer) <= {"id", "error", "hint"}
                assert answer["error"]
            raw.sendall(b'{"id": 2, "verb": "hello"}\n')
            assert json.loads(answers.readline())["result"]["host"] == "h0"
    assert live.agent("h0").list_qps() == []


def test_qps_and_memory_end_with_the_connection_that_made_them(live: Lab) -> None:
    with AgentClient(live.paths.agent_socket("h0")) as client:
        whole = client.register_memory(live.spec.nic.memory)
        with pytest.raises(UsageError, match="0 of 16777216 are free"):
            live.agent("h0").register_memory(1)
        assert whole["length"] == live.spec.nic.memory
    region = live.agent("h0").register_memory(live.spec.nic.memory)
    live.agent("h0").deregister_memory(region["r_key"])
