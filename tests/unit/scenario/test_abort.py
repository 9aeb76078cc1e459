import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.abort import parse_abort

LATE = "is only known after the run; an abort condition compares counts that grow while it goes on"
REFUSED = {
    "host_saturate for 5s": "column 1: nothing is called 'host_saturate'; did you mean 'host_saturated'? "
    "(known: host_saturated, or a comparison such as 'qp_errors > 0')",
    "qp_errors > 0 for 5": "'5' is not a duration: it has no unit; write it like 200ms "
    "(units: ns, us, ms, s, m, h)",
    "goodput(main) < 1Gbit": f"column 1: 'goodput(main)' {LATE}",
    "retransmits during flap > 3": f"column 1: 'retransmits during flap' {LATE}",
    "wrong_bytes > 0": f"column 1: 'wrong_bytes' {LATE}",
}


@pytest.mark.parametrize("text", REFUSED)
def test_condition_is_refused_with_this_text(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_abort(text)
    assert caught.value.message == REFUSED[text]


def test_condition_without_a_time_fires_at_once() -> None:
    condition = parse_abort("qp_errors > 0")
    assert condition.for_ns == 0
    assert condition.comparison is not None


def test_saturation_is_not_a_comparison() -> None:
    condition = parse_abort("host_saturated for 5s")
    assert (condition.comparison, condition.for_ns) == (None, 5_000_000_000)
