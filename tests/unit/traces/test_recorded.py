"""Rows that ranks report, and the graphs that they become."""

import json

import pytest
from trace_files import ends_ns

from mrc_testbed.traces.chakra import decode, encode
from mrc_testbed.traces.graph import Compute, GroupCall, Message, RankTrace, StepMark, TraceNode
from mrc_testbed.traces.recorded import recorded_ranks
from mrc_testbed.traces.rows import RankRows
from mrc_testbed.workloads.step_report import JobSteps, ReportError

HOSTS = ("h0", "h4", "h2")
KINDS = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
    "barrier", "send", "recv",
)  # fmt: skip
STARTS = '["start", null, %s, 5, "%s", "%s", 8, %s, 0]'
GROUP: list[object] = ["group", "0", [0, 1, 2]]


def rows_of(*lines: list[object]) -> RankRows:
    """Rows of a rank; ["step", NUMBER, NS] is a step."""
    rows = RankRows(len(HOSTS))
    for name, *rest in lines:
        if name == "step":
            rows.end_step(*rest)  # type: ignore[arg-type] # both are numbers
        else:
            rows.take(json.dumps([name, *rest]).encode())
    return rows


def start(number: int, at_ns: int, thread: int | None = None, size_bytes: int = 8) -> list[object]:
    return ["start", thread, number, at_ns, "all_reduce", "0", size_bytes, None, 0]


def nodes_of(*lines: list[object]) -> tuple[TraceNode, ...]:
    [trace] = recorded_ranks([rows_of(["begin", 1000], GROUP, *lines)])
    return trace.nodes


def test_a_program_is_a_chain_that_computes_between_what_it_starts_and_awaits() -> None:
    nodes = nodes_of(
        start(0, 1000),
        start(1, 1300),
        ["end", 0, 1350],
        ["end", 1, 2500],
        ["wait", None, [1, 0], 1400, 2500],
        ["step", 0, 2600],
        ["start", None, 2, 2600, "send", "0", 9, 2, 7],
        ["end", 2, 2610],
        ["start", None, 3, 2600, "broadcast", "0", 6, 1, 0],
        ["step", 1, 2700],
    )
    call = GroupCall("all-reduce", "0", 8)
    assert nodes == (
        TraceNode(1, "", StepMark(0)),
        TraceNode(2, "all_reduce", call, (1,), start_ns=0, duration_ns=350),
        TraceNode(3, "compute", Compute("cpu"), (1,), start_ns=0, duration_ns=300),
        TraceNode(4, "all_reduce", call, (3,), start_ns=300, duration_ns=1200),
        TraceNode(5, "compute", Compute("cpu"), (3,), start_ns=300, duration_ns=100),
        TraceNode(6, "compute", Compute("cpu"), (2, 4, 5), start_ns=1500, duration_ns=100),
        TraceNode(7, "", StepMark(1), (6,), start_ns=1600),
        TraceNode(8, "send", Message(2, 7, 9, is_sent=True), (7,), start_ns=1600, duration_ns=10),
        TraceNode(9, "broadcast", GroupCall("broadcast", "0", 6, 1), (7,), start_ns=1600),
        TraceNode(10, "compute", Compute("cpu"), (7,), start_ns=1600, duration_ns=100),
    )
    assert all(ends_ns(nodes)[node.id] == node.start_ns + node.duration_ns for node in nodes)


def test_what_follows_an_operation_is_behind_it_and_awaited_with_it() -> None:
    nodes = nodes_of(
        start(0, 1000),
        start(1, 1000),
        ["end", 0, 1400],
        start(2, 1450, thread=0),
        ["end", 1, 1500],
        ["end", 2, 1900],
        ["wait", 0, [2], 1450, 1900],
        ["wait", None, [0], 1100, 1900],
        ["step", 0, 1950],
    )
    by_operation = [(node.id, node.after) for node in nodes if isinstance(node.work, GroupCall)]
    follower = next(node for node in nodes if node.id == 5)
    assert by_operation == [(2, (1,)), (5, (4,)), (3, (1,))]  # in the same order on all ranks
    assert next(node for node in nodes if node.id == 4).after == (2,)
    assert (follower.start_ns, follower.duration_ns) == (450, 450)
    assert nodes[-1].after == (2, 5, 6)
    assert ends_ns(nodes)[nodes[-1].id] == 950


def test_a_wait_without_operations_is_for_what_has_ended_meanwhile() -> None:
    ends = [["end", number, at_ns] for number, at_ns in enumerate((1100, 1200, 1300))]
    nodes = nodes_of(
        *(start(number, 1000) for number in range(3)), *ends, ["wait", None, [], 1100, 1200], start(3, 1250)
    )
    assert nodes[-2].after == (3, 5)
    assert nodes[-1].after == (6,)


def test_another_thread_goes_on_from_the_program_and_holds_nothing_up() -> None:
    nodes = nodes_of(
        start(0, 1000),
        start(1, 1200, thread=-7),
        ["end", 1, 1600],
        ["wait", -7, [1], 1200, 1600],
        start(2, 1300),
    )
    assert [(node.id, node.after) for node in nodes] == [
        (1, ()),
        (2, (1,)),
        (5, (1,)),
        (6, (5,)),
        (3, (1,)),
        (4, (3,)),
    ]


def test_ranks_have_one_time_0_and_a_name_that_two_groups_have_had_is_kept_apart() -> None:
    first = rows_of(
        ["begin", 5000], GROUP, start(0, 5000), ["end", 0, 5100], ["group", "0", [0, 2]], start(1, 5100)
    )
    other = rows_of(["begin", 3000], ["group", "0", [0, 2]], start(0, 3000))
    silent, unended = recorded_ranks([rows_of(), first])[0], recorded_ranks([first, other])
    assert silent == RankTrace(())
    assert [trace.nodes[-1].start_ns for trace in unended] == [2100, 0]
    assert [list(trace.groups) for trace in unended] == [["0 [0, 1, 2]", "0 [0, 2]"], ["0 [0, 2]"]]
    for trace in unended:
        again = decode(encode(trace), "rank")
        assert [node.work for node in again.nodes[1:]] == [node.work for node in trace.nodes]
        assert again.groups == trace.groups


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[", "expected JSON, got '['"),
        ("[]", "expected JSON, got '[]'"),
        ('["halt"]', 'expected group or start or end or wait, got "halt"'),
        ('["begin", 1]', 'expected group or start or end or wait, got "begin"'),
        ('["end", 0]', "end: expected ID, NS, got [0]"),
        ('["end", 0, -1]', "end: NS: expected a whole number from 0, got -1"),
        ('["end", 0, 1e3]', "end: NS: expected a whole number from 0, got 1000.0"),
        ('["end", 3, 4]', "end: ID: expected an operation that has started, got 3"),
        ('["group", 1, [0]]', "group: NAME: expected a text, got 1"),
        ('["group", "1", [0, 3]]', "group: RANKS: expected a list, each a rank from 0 to 2, got [0, 3]"),
        ('["group", "1", 2]', "group: RANKS: expected a list, each a rank from 0 to 2, got 2"),
        (STARTS % (0, "barrier", "0", 1), "start: ID: expected a new number from 0, got 0"),
        (STARTS % (1, "sum", "0", 1), f'start: KIND: expected one of {", ".join(KINDS)}, got "sum"'),
        (STARTS % (1, "send", "2", 1), 'start: GROUP: expected a group of a row before, got "2"'),
        (STARTS % (1, "send", "0", "null"), "start: PEER: expected a rank, got null"),
        (STARTS % (1, "barrier", "0", 3), "start: PEER: expected null or a rank from 0 to 2, got 3"),
        (
            '["wait", null, [1], 5, 6]',
            "wait: IDS: expected a list, each an operation that has started, got [1]",
        ),
        (
            '["wait", 9, [], 5, 6]',
            "wait: IN: expected null, an operation that has started, or less than 0, got 9",
        ),
    ],
)
def test_a_wrong_row_names_rank_host_field_and_what_was_expected(line: str, complaint: str) -> None:
    steps = JobSteps(HOSTS)
    for row in (["begin", 1], GROUP, start(0, 2)):
        assert steps.take(json.dumps(row).encode(), 1, 9) == []
    with pytest.raises(ReportError) as refused:
        steps.take(line.encode(), 1, 9)
    assert refused.value.message == f"rank 1 (h4) reported no row of a trace: {complaint}"
    assert len(steps.rows[1]) == 3


def test_the_first_row_is_a_begin_and_steps_alone_are_no_rows() -> None:
    steps = JobSteps(HOSTS)
    steps.take(b'{"step": 0, "time_s": 1}', 0, 2 * 10**9)
    assert not any(steps.rows)
    with pytest.raises(ReportError, match=r'expected begin, got "end"$'):
        steps.take(b'["end", 0, 1]', 0, 2)
