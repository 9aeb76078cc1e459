"""The table at the end of .ci/run."""

from times import _DOCUMENT, _DOCUMENTED, _STEP, Spent, table, times


def test_what_was_measured_stands_beside_what_is_documented() -> None:
    steps = times(_STEP, "make setup 90 41\nmake test 700 900\nkernel 6.1 80 70\n")
    assert steps["make test"] == Spent(700, 900)
    documented = times(_DOCUMENTED, _DOCUMENT.read_text(encoding="utf-8"))
    assert {*steps, ".ci/run", "unit", "virtual", "bpf", "netns", "e2e", "alone"} <= {*documented}
    rows = [row.split() for row in table(steps, {"make test": Spent(600, 800)}).splitlines()]
    assert ["make", "test", "700", "600", "900", "800"] in rows
    assert ["kernel", "6.1", "80", "70"] in rows
