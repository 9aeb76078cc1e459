"""The page of `make train`: sentence, medians, table, from steps written by hand."""

import re
from dataclasses import replace

import pytest

from benchmarks.train.outcome import Outcome, Step, differing, reason_of
from benchmarks.train.page import build_page, sentence
from benchmarks.train.plan import FAULTS, PORTS, Job

MS = 1_000_000
PORT = PORTS["shaped"]


def job(transport="mrc", fault=None):
    return Job(PORT, transport, FAULTS[fault] if fault else None, 10)


def trained(what, steps=10, *, step_ms=100, loss="0x1.0p+1"):
    """Two ranks; the second ends each step a little later."""
    outcome = Outcome(what, 0)
    for number in range(steps):
        for rank in range(2):
            began, ended = (1000 + number * step_ms) * MS, (1000 + (number + 1) * step_ms + rank) * MS
            text = f'"step": {number}, "began_ns": {began}, "ended_ns": {ended}, "loss": "{loss}"'
            assert outcome.take(f"[{rank}] {{{text}}}") == (rank, outcome.steps[rank][-1])
    return outcome


def test_other_lines_are_no_steps():
    outcome = Outcome(None, 0)
    assert [outcome.take(line) for line in ("[0] hello", "{}", "", "[0] ")] == [None] * 4
    assert (outcome.done_steps, outcome.times(), outcome.start_ns) == (0, [], None)


def test_times_are_between_the_last_ranks_and_belong_to_phases():
    outcome = trained(job(fault="dead-t1"))
    outcome.fault_ns = (1301 * MS, 1650 * MS)
    assert outcome.start_ns == 1000 * MS
    assert outcome.times() == [((1101 + 100 * number) * MS, 100 * MS) for number in range(1, 10)]
    assert [len(outcome.times_of(phase)) for phase in ("before", "during", "after")] == [1, 5, 3]
    assert outcome.median_ns("during") == 100 * MS
    assert trained(job()).median_ns("after") is None


def test_a_job_with_a_fault_lasts_until_it_has_recovered():
    steps = trained(job()).lengthened(job(fault="dead-t1")).steps
    assert (steps - PORT.lead_steps) * 100 * MS >= PORT.fault_ns + 10_000 * MS
    long = replace(job(fault="flaps"), steps=1000)
    assert trained(job()).lengthened(long) == long
    assert trained(job()).lengthened(job()) == job()
    assert Outcome(None, 0).lengthened(job(fault="flaps")) == job(fault="flaps")


@pytest.mark.parametrize(("slow_ms", "effect"), [(100, "no effect seen: "), (400, "step median 100 ms")])
def test_the_effect_of_the_fault_is_said_also_where_there_is_none(slow_ms, effect):
    outcome, end_ns = trained(job(fault="dead-t1"), 20), 3001 * MS
    for number in range(20, 40):
        began_ns, end_ns = end_ns, end_ns + (slow_ms if number < 30 else 100) * MS
        for rank in range(2):
            outcome.steps[rank].append(Step(number, began_ns, end_ns, "0x1.0p+1"))
    assert outcome.headline() == "no fault was active; no rank lost"
    outcome.fault_ns = (3001 * MS, (3001 + 10 * slow_ms) * MS)
    assert outcome.headline().startswith(effect)
    assert "while it went through a dead T1" in outcome.headline()
    assert outcome.headline()[1:] in build_page(trained(None), [outcome], 2)


def test_one_loss_that_differs_by_a_bit_is_found():
    reference, other = trained(None), trained(job())
    assert differing(other, reference) == 0
    last = other.steps[1].pop()
    other.steps[1].append(replace(last, loss="0x1.0000000000001p+1"))
    assert differing(other, reference) == 1
    assert "1 of 20 losses differ from gloo's" in sentence(reference, [other], 2)


def test_the_sentence_says_what_became_of_the_jobs():
    ours = [trained(job()), trained(job(fault="flaps")), trained(job(fault="dead-t1"))]
    theirs = [trained(job("rocev2", "flaps")), trained(job("rocev2", "dead-t1"), 4)]
    theirs[1].failure = "rank 1 does not respond"
    assert sentence(trained(None), ours + theirs, 2) == (
        "2 ranks trained over MRC through T0-T1 flaps and a dead T1: no rank was lost, and all 60 losses "
        "equal gloo's bit by bit. Over the RoCEv2-like transport 1 of 2 jobs with a fault were lost "
        "(a dead T1, 4 x 25 Mbit/s)."
    )
    ours[1].failure = "so"
    assert "1 of 3 jobs were lost" in sentence(trained(None), ours, 2)


@pytest.mark.parametrize("failure", ["", "rank 1 <does> not respond"])
def test_the_page_shows_each_job_and_loads_nothing(failure):
    outcome = trained(job(fault="lost-plane"))
    outcome.fault_ns, outcome.failure = (1301 * MS, 1650 * MS), failure
    text = build_page(trained(None), [trained(job()), outcome], 2)
    assert text.count("<tr>") == 3
    assert ("badge good" in text) == (not failure)
    assert (failure.replace("<", "&lt;").replace(">", "&gt;") or "no rank lost") in text
    assert "fault add plane-down --plane 0" in text
    assert not re.search(r"(src|href)=", text)


@pytest.mark.parametrize(
    ("complaints", "reason"),
    [
        (["[1] x", "[1] DistBackendError: mrc: rank 2 has died", "error: rank 1"], "mrc: rank 2 has died"),
        (["[1] x", "error: rank 1 ended"], "rank 1 ended"),
        (["[1] x"], "[1] x"),
        ([], "it said nothing"),
    ],
)  # fmt: skip
def test_the_reason_is_that_of_the_backend_where_it_gives_one(complaints, reason):
    assert reason_of(complaints) == reason
