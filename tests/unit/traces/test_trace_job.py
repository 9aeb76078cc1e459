"""Ranks of a trace together: what can never end is refused, with both ends named; GOAL's text form."""

import pytest
from made_traces import CPU, call, every_kind, node, rank, receive, send

from mrc_testbed.errors import UsageError
from mrc_testbed.traces.goal import parse
from mrc_testbed.traces.graph import Compute
from mrc_testbed.traces.job import TraceJob

WELL = rank(node(0, call()))
IDLE = rank(node(0, CPU))


def job(*ranks):
    return TraceJob(ranks, [f"r{number}" for number in range(len(ranks))])


@pytest.mark.parametrize(
    ("ranks", "complaint"),
    [
        (
            (WELL, rank(node(5, call(size=200)))),
            "r0: node 0 (GroupCall) and r1: node 5 (GroupCall) disagree: operation 0 of all ranks is "
            "all-reduce of 100 bytes and all-reduce of 200 bytes",
        ),
        (
            (rank(node(0, call("broadcast", root=0))), rank(node(0, call("broadcast", root=1)))),
            "r0: node 0 (GroupCall) and r1: node 0 (GroupCall) disagree: operation 0 of all ranks is "
            "broadcast of 100 bytes from rank 0 and broadcast of 100 bytes from rank 1",
        ),
        (
            (rank(node(0, call()), node(1, call())), WELL),
            "r0: node 1 (GroupCall): it is operation 1 of all ranks, which r1 has not",
        ),
        (
            (rank(node(0, call(group="a")), a=(0, 1)), WELL),
            "r0: node 0 (GroupCall): it is operation 0 of group 'a', which r1 has not",
        ),
        (
            (rank(node(0, call(group="a")), a=(1, 2)), WELL),
            "r0: node 0 (GroupCall): group 'a' has ranks 1, 2; this is rank 0 of 2",
        ),
        (
            (rank(node(0, call(root=5))), rank(node(0, call(root=5)))),
            "r0: node 0 (GroupCall): root_rank 5 is not in its group",
        ),
        ((rank(node(4, receive(1, tag=3))), IDLE), "r0: node 4 (Message): r1 has no send for it, tag 3"),
        ((IDLE, rank(node(4, send(0, tag=3)))), "r1: node 4 (Message): r0 has no receive for it, tag 3"),
        (
            (rank(node(4, send(1, 5))), rank(node(6, receive(0, 6)))),
            "r0: node 4 (Message) sends 5 bytes, of which r1: node 6 (Message) receives 6",
        ),
        ((rank(node(4, send(0))), IDLE), "r0: node 4 (Message): its peer is rank 0; this is rank 0 of 2"),
        ((rank(node(4, send(9))), IDLE), "r0: node 4 (Message): its peer is rank 9; this is rank 0 of 2"),
        ((rank(node(0, call()), node(0, call())), WELL), "r0: node 0: there are two nodes of this id"),
        (
            (rank(node(0, call(), 1), node(1, CPU, 0)), WELL),
            "r0: node 0 (GroupCall) and r0: node 1 (Compute) wait for each other",
        ),
        ((rank(node(0, call(), 0)), WELL), "r0: node 0 (GroupCall) waits for itself"),
        (
            (
                rank(node(0, call(group="a")), node(1, call(group="b"), 0)),
                rank(node(2, call(group="b")), node(3, call(group="a"), 2)),
            ),
            "r0: node 0 (GroupCall) and r1: node 3 (GroupCall) wait for each other",
        ),
        (
            (rank(node(0, receive(1)), node(1, send(1), 0)), rank(node(0, receive(0)), node(1, send(0), 0))),
            "r0: node 0 (Message) and r1: node 1 (Message) wait for each other",
        ),
    ],
)
def test_a_job_that_cannot_end_is_refused_with_both_ends(ranks, complaint):
    with pytest.raises(UsageError) as caught:
        job(*ranks)
    assert caught.value.message == complaint


def test_a_send_does_not_wait_for_its_receive():
    each = [rank(node(0, send(1 - me)), node(1, receive(1 - me), 0)) for me in range(2)]
    assert job(*each).pairs() == [(0, 1), (1, 0)]


def test_a_node_that_was_left_out_is_not_waited_for():
    assert job(rank(node(0, call(), 7)), WELL).operations


def test_groups_without_a_list_are_those_who_call_them():
    with_group = rank(node(0, call(group="a")))
    assert job(
        with_group, rank(node(0, call(group="b"))), with_group, rank(node(0, call(group="b")))
    ).pairs() == [*((0, 2), (1, 3), (2, 0), (3, 1))]


def test_all_kinds_fit_together():
    found = job(*(every_kind(number, 4, steps=3) for number in range(4)))
    assert found.marked_steps() == 3
    assert len(set(found.operations.values())) == 3 * (9 + 4)


GOAL = """num_ranks 2
// made by hand
rank 0 {
  l1: calc 1000 cpu 3
  l2: send 4096b to 1 tag 7
  l2 requires l1
  l3: recv 10b from 1 tag 8 nic 0
  l3 irequires l2
}
rank 1 { a: recv 4096b from 0 tag 7
  send 10b to 0 tag 8
}
"""


def test_goal_is_read():
    first, second = parse(GOAL, "g")
    assert [
        (each.name, each.work, each.after, each.after_start, each.duration_ns) for each in first.nodes
    ] == [
        ("l1", Compute("3"), (), (), 1000),
        ("l2", send(1, 4096, 7), (0,), (), 0),
        ("l3", receive(1, 10, 8), (), (1,), 0),
    ]
    assert [each.name for each in second.nodes] == ["a", "line 11"]
    assert job(first, second).pairs() == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("num_ranks 2", "ranks 2", "g:1: expected num_ranks and a number, as GOAL's text form begins"),
        ("rank 1 {", "rank 2 {", "g: rank 1 of 2 is not there, or its end is missing"),
        ("8\n}\n", "8\n", "g: rank 1 of 2 is not there, or its end is missing"),
        ("num_ranks 2", "num_ranks 1", "g: expected 1 ranks, each as `rank N { ... }`; got more"),
        (
            "calc 1000",
            "calc -5",
            "g:4: expected calc, send, recv, requires or irequires, got 'l1: calc -5 cpu 3'",
        ),
        ("l2 requires l1", "l2 requires l9", "g:6: there is no operation 'l9' above"),
        ("l3: recv", "l2: recv", "g:7: there are two operations 'l2'"),
    ],
)
def test_goal_is_refused_with_its_line(old, new, complaint):
    with pytest.raises(UsageError) as caught:
        parse(GOAL.replace(old, new), "g")
    assert caught.value.message == complaint
