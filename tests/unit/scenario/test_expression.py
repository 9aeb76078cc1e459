import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed import units
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec import expression
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.expression_tree import Arithmetic, Comparison, Number, Quantity
from mrc_testbed.scenario.spec.quantity import QUANTITIES, Dimension, percentile_ratio

REFUSED = {
    "goodputt(main) > 1Gbit": "column 1: nothing measured is called 'goodputt'; did you mean 'goodput'? "
    "(known: goodput, slowest_flow, fastest_flow, lowest_goodput, interruption, fairness, algbw, busbw, "
    "job_throughput, operations, idle, loss, printed_bandwidth, "
    "printed_latency, p<N>, mean, max, messages, retransmits, retransmit_ratio, fault_drops, "
    "queue_drops, queue_drop_ratio, pauses, paused_time, stalled_time, deadlocked_ports, "
    "lowest_plane_share, highest_plane_share, "
    "assumed_bad, qp_errors, wrong_bytes, lost, lost_ratio, detect, localise, avoid, restore)",
    "p100(packet_rtt) < 1s": "column 1: 'p100' is not a percentile; write one above p0 and below p100, "
    "such as p99.9",
    "p0(packet_rtt) < 1s": "column 1: 'p0' is not a percentile; write one above p0 and below p100, "
    "such as p99.9",
    "p99(packet_rt) < 1s": "column 5: p99 has no 'packet_rt'; did you mean 'packet_rtt'? "
    "(known: message_completion, packet_rtt, step_time, collective_time)",
    "goodput(main) >= 10": "column 15: a rate cannot be compared with a count; write the number like 100Mbit",
    "p99(packet_rtt) < 3Mbit": "column 17: a time cannot be compared with a rate; write the number like 5ms",
    "goodput(main) >= 97 of goodput(main)": "column 18: only a ratio such as 97% can be taken of something, "
    "found '97'",
    "detect(f) < 5msec": "column 13: unknown unit 'msec' in '5msec'; did you mean 'ms'? "
    "(known: %, ns, us, ms, s, m, h, bit, kbit, Mbit, Gbit, B, KB, KiB, MB, MiB, GB, GiB)",
    "goodput(main) durign f > 1bit": "column 15: expected a comparison, an operator or a window "
    "(before, during, after, from), found 'durign'; did you mean 'during'?",
    "goodput(main) during > 1bit": "column 22: expected the id of a fault after 'during', found '>'",
    "goodput(main) from 4 to 5s > 1bit": "column 20: expected a time such as 4s after 'from', found '4'",
    "goodput(main) from 4s > 1bit": "column 23: expected 'to' and a time after '4s', found '>'",
    "goodput(main) from 4s to 5Mbit > 1bit": "column 26: expected a time such as 4s after 'to', "
    "found '5Mbit'",
    "goodput(main) from 4s to 4s > 1bit": "column 20: the window ends before it begins",
    "detect(f) from 4s to 5s < 5ms": "column 11: detect is one value for the whole run and has no 'from'",
    "detect(f) during f < 5ms": "column 11: detect is one value for the whole run and has no 'during'",
    "goodput > 1Gbit": "column 9: expected '(' and the name of a workload after goodput, found '>'",
    "goodput(main > 3bit": "column 14: expected ')', found '>'",
    "goodput() > 3bit": "column 9: expected the name of a workload, found ')'",
    "qp_errors(a) < 2": "column 10: qp_errors takes no argument",
    "qp_errors ==": "column 13: expected a number or something measured, found the end",
    "qp_errors": "column 10: expected a comparison (< <= > >= == !=), found the end",
    "": "column 1: expected a number or something measured, found the end",
    "qp_errors == 0 == 0": "column 16: expected the end of the expectation, found '=='",
    "qp_errors = 0": "column 11: '=' is not part of the language",
    "qp_errors == 1.2.3": "column 14: '1.2.3' is not part of the language",
    "1 == 1": "column 1: nothing measured appears in it, so it says nothing about the run",
    "goodput(main) == 1Gbit": "column 15: == compares counts only; a rate is never exact",
    "goodput(a) * goodput(b) > 1bit": "column 12: a rate times a rate has no meaning here",
    "qp_errors / detect(f) > 1": "column 11: a count divided by a time has no meaning here",
    "detect(f) + goodput(a) > 1ms": "column 11: a rate cannot be added to or taken from a time",
    "detect(f) < 0.5ns": "column 13: '0.5ns' is not a duration: it is finer than 1 ns; write it like 200ms "
    "(units: ns, us, ms, s, m, h)",
    "(" * 40 + "qp_errors": "column 33: more than 32 levels of nesting",
    "(qp_errors == 0": "column 12: expected ')', found '=='",
}


@pytest.mark.parametrize("text", REFUSED)
def test_text_is_refused_with_column_and_reason(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_expectation(text)
    assert caught.value.message == REFUSED[text]


def test_share_of_a_windowed_quantity_is_a_product() -> None:
    parsed = parse_expectation("goodput(main) during flap1 >= 97% of goodput(main) before flap1")
    assert (parsed.operator, parsed.left_text) == (">=", "goodput(main) during flap1")
    assert isinstance(parsed.left, Quantity)
    assert (parsed.left.window, parsed.left.fault_id, parsed.left.argument) == ("during", "flap1", "main")
    assert isinstance(parsed.right, Arithmetic)
    assert (parsed.right.operator, parsed.right.dimension) == ("*", Dimension.RATE)
    assert parsed.right.left == Number(0.97, Dimension.RATIO, 31)


def test_a_hyphen_without_spaces_belongs_to_the_name() -> None:
    joined, apart = parse_expectation("detect(a-b) < 1ms"), parse_expectation("detect(a) - detect(b) < 1ms")
    assert [quantity.argument for quantity in joined.quantities()] == ["a-b"]
    assert [quantity.argument for quantity in apart.quantities()] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "base"),
    [("80ms", 80e6), ("80 ms", 80e6), ("1.5Gbit", 1.5e9), ("4MiB", 4 * 2**20), ("97%", 0.97), ("12", 12)],
)
def test_numbers_are_kept_in_base_units(text: str, base: float) -> None:
    of = {"ms": "detect(f)", "bit": "goodput(m)", "iB": None, "%": "goodput(a) / goodput(b)"}
    left = next((value for ending, value in of.items() if text.endswith(ending)), "qp_errors")
    if left is None:
        with pytest.raises(UsageError, match="a count cannot be compared with a size"):
            parse_expectation(f"qp_errors < {text}")
        return
    right = parse_expectation(f"{left} < {text}").right
    assert isinstance(right, Number)
    assert right.value == pytest.approx(base)


def test_products_bind_tighter_than_sums() -> None:
    parsed = parse_expectation("qp_errors + 2 * messages < 10")
    assert isinstance(parsed.left, Arithmetic)
    assert parsed.left.operator == "+"
    assert isinstance(parsed.left.right, Arithmetic)
    assert parsed.left.right.operator == "*"


def test_a_quotient_of_equals_is_a_ratio() -> None:
    parsed = parse_expectation("goodput(a) / goodput(b) > 50%")
    assert parsed.left.dimension is Dimension.RATIO


def test_units_of_the_language_are_those_of_files() -> None:
    known = [scale.units for scale in (units.DURATION, units.RATE, units.SIZE)]
    assert set(expression._UNIT_DIMENSIONS) == {"%"}.union(*known)


@pytest.mark.parametrize(("name", "ratio"), [("p50", 0.5), ("p99.9", 0.999), ("p0.1", 0.001), ("p5", 0.05)])
def test_percentiles_are_shares(name: str, ratio: float) -> None:
    assert percentile_ratio(name) == pytest.approx(ratio)


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused_with_a_column(text: str) -> None:
    _parse_or_refuse(text)


_WORDS = st.sampled_from(
    [kind.name for kind in QUANTITIES]
    + [
        "p99",
        "97%",
        "of",
        "during",
        "before",
        "(",
        ")",
        "(main)",
        "(packet_rtt)",
        "(step_time(main))",
        "(f)",
        "f",
        "5ms",
        "0",
        "1.5Gbit",
    ]
    + ["<", ">=", "==", "+", "-", "*", "/", ","]
)


@given(st.lists(_WORDS, max_size=14).map(" ".join))
def test_any_words_of_the_language_are_parsed_or_refused_with_a_column(text: str) -> None:
    _parse_or_refuse(text)


def _parse_or_refuse(text: str) -> None:
    try:
        parsed = parse_expectation(text)
    except UsageError as refused:
        message = refused.message
    else:
        assert isinstance(parsed, Comparison)
        assert parsed.left.dimension is parsed.right.dimension
        assert list(parsed.quantities())
        return
    assert (match := re.match(r"column (\d+): ", message)) is not None
    assert 1 <= int(match.group(1)) <= len(text) + 1


def test_times_of_a_workload_name_it_within() -> None:
    [quantity] = parse_expectation("p99.9(step_time(job)) during flap1 < 80ms").quantities()
    assert (quantity.argument, quantity.workload, quantity.fault_id) == ("step_time", "job", "flap1")
    assert str(quantity) == "p99.9(step_time(job)) during flap1"
    assert (quantity.misfit("training"), quantity.misfit("program")) == (None, None)
    assert (
        quantity.misfit("write-bw")
        == "which has no operations; name a collective, training, program or trace"
    )


def test_wrong_bytes_are_those_of_all_workloads_or_of_one() -> None:
    whole, one = (
        next(parse_expectation(f"{text} == 0").quantities()) for text in ("wrong_bytes", "wrong_bytes(a)")
    )
    assert (whole.workload, one.workload) == (None, "a")
    assert (str(whole), str(one)) == ("wrong_bytes", "wrong_bytes(a)")
